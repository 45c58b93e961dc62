package nodeconfig

import (
	"strings"
	"unicode"
)

// Text is the text of an error, "" of none.
func Text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// OneLine is an error's text on one line.
func OneLine(err error) string { return strings.ReplaceAll(Text(err), "\n", "; ") }

// Printable replaces what could steer a terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}
