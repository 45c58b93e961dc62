package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tlspu/keel/core/plugin"
)

// output is standard output. After the first write that failed nothing more is
// written, and lost, when it is set, is called.
type output struct {
	w io.Writer

	mu   sync.Mutex
	used bool
	lost func()
	err  error
}

// whenLost sets what is called when a write fails.
func (o *output) whenLost(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lost = f
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.used = true
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.w.Write(p)
	if err != nil {
		o.err = err
		if o.lost != nil {
			o.lost()
		}
	}
	return n, err
}

// begun reports whether anything was written, or tried.
func (o *output) begun() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.used
}

// failure is the error of the write that failed, if any did.
func (o *output) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// writeJSON writes v as ASCII with an indent of two: bytes that any program and
// any terminal takes.
func writeJSON(w io.Writer, v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode JSON: %w", err)
	}
	_, err := w.Write(ascii(buf.Bytes()))
	return err
}

// ascii escapes what is not ASCII in a JSON text.
func ascii(text []byte) []byte {
	var b []byte
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r < 0x7f:
			b = append(b, text[0])
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
		text = text[size:]
	}
	return b
}

// writeTable writes rows as aligned columns; the first row is the heading.
func writeTable(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = plugin.Printable(cell)
		}
		if _, err := fmt.Fprintln(t, strings.TrimRight(strings.Join(row, "\t"), "\t")); err != nil {
			return err
		}
	}
	return t.Flush()
}

// orDash is a cell of a table: what is empty is seen to be.
func orDash(cell string) string {
	if cell == "" {
		return "-"
	}
	return cell
}

// wrap breaks text between words into lines of at most width bytes, where words
// allow.
func wrap(text string, width int) []string {
	lines := []string{""}
	for word := range strings.FieldsSeq(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case len(*last)+1+len(word) <= width:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}
