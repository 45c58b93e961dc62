package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// plainJSON replaces, in each document of text that is JSON, what a YAML parser
// refuses or reads as something else: the escape \/, pairs of surrogates, and the
// characters of strings that unfit names. Line ends stay where they are. Anything
// else than JSON is returned as it is.
func plainJSON(text []byte) []byte {
	if !bytes.ContainsFunc(text, special) {
		return text
	}
	var plain []byte
	for rest := text; ; {
		part, after := rest, []byte(nil)
		if i := bytes.Index(rest, []byte("\n---")); i >= 0 { // never inside JSON: its strings hold no line end
			part, after = rest[:i+4], rest[i+4:]
		}
		plain = append(plain, plainDocument(part)...)
		if after == nil {
			return plain
		}
		rest = after
	}
}

// plainDocument is plainJSON of one document, with the mark behind it.
func plainDocument(part []byte) []byte {
	body := bytes.TrimPrefix(part, []byte("---"))
	body = bytes.TrimSuffix(bytes.TrimRight(bytes.TrimSuffix(body, []byte("\n---")), " \t\r\n"), []byte("\n..."))
	start := bytes.TrimLeft(body, " \t\r\n")
	if len(start) == 0 || start[0] != '{' && start[0] != '[' || !json.Valid(start) {
		return part
	}
	at := bytes.Index(part, start)
	return slices.Concat(part[:at], escapeJSON(start), part[at+len(start):])
}

// escapeJSON is plainJSON of a text that is JSON.
func escapeJSON(text []byte) []byte {
	plain := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if unfit(r) {
			plain, text = fmt.Appendf(plain, `\u%04x`, r), text[size:]
			continue
		}
		if r != '\\' {
			plain, text = append(plain, text[:size]...), text[size:]
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

// special reports that a JSON text with r in it may have to be changed.
func special(r rune) bool { return r == '\\' || unfit(r) }

// unfit reports that a string in JSON may hold r, and one in YAML only as an
// escape: YAML refuses it, or takes it for the end of a line.
func unfit(r rune) bool {
	switch r {
	case '\u2028', '\u2029', '\ufeff', '\ufffe', '\uffff':
		return true
	}
	return 0x7f <= r && r <= 0x9f
}

// escaped is the code of the escape, \u and four digits, that text begins with, or 0.
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
