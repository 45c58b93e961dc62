package plugin

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// OneLine is an error's text on one line, and empty for nil.
func OneLine(err error) string {
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}

// Printable makes s safe for a terminal: what is not printable, line ends and
// escape sequences among it, appears as in a Go string.
func Printable(s string) string {
	safe := func(r rune) bool { return unicode.IsPrint(r) && r != utf8.RuneError }
	if strings.IndexFunc(s, func(r rune) bool { return !safe(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if safe(r) || r == utf8.RuneError && size > 1 {
			b.WriteString(s[:size])
		} else {
			b.WriteString(strings.Trim(fmt.Sprintf("%q", s[:size]), `"`))
		}
		s = s[size:]
	}
	return b.String()
}
