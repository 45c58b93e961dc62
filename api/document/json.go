package document

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// plainJSON replaces, in a JSON text, the two escapes that a YAML parser
// refuses: \/ and pairs of surrogates. Line ends stay where they are. Anything
// else than JSON is returned as it is.
func plainJSON(text []byte) []byte {
	start := bytes.TrimLeft(text, " \t\r\n")
	if len(start) == 0 || start[0] != '{' && start[0] != '[' || bytes.IndexByte(text, '\\') < 0 || !json.Valid(text) {
		return text
	}
	plain := make([]byte, 0, len(text))
	for len(text) > 0 {
		if text[0] != '\\' {
			plain, text = append(plain, text[0]), text[1:]
			continue
		}
		if r := utf16.DecodeRune(escaped(text), escaped(text[min(6, len(text)):])); r != utf8.RuneError {
			plain, text = utf8.AppendRune(plain, r), text[12:]
			continue
		}
		if text[1] != '/' { // valid JSON: a backslash is never the last
			plain = append(plain, '\\')
		}
		plain, text = append(plain, text[1]), text[2:]
	}
	return plain
}

// escaped is the code of the \uXXXX that text begins with, or 0.
func escaped(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	code, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(code)
}
