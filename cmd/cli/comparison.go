package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/plugin"
)

// comparison collects what diff found.
type comparison struct {
	spec, root string
	// silent says that standard output stays empty when nothing was compared, in
	// JSON too: what the users of an appliance's specification know.
	silent bool
	fields []field
	codes  []int // of what could not be compared
	errors []string
}

// field is one finding, in JSON.
type field struct {
	Field    string        `json:"field"`
	Section  string        `json:"section"`
	Status   drift.Verdict `json:"status"`
	Declared any           `json:"declared"`
	Observed any           `json:"observed"`
	Reason   string        `json:"reason"`
	Note     string        `json:"note"`
}

// counts is how often each verdict was given.
type counts struct {
	Same        int `json:"same"`
	Drift       int `json:"drift"`
	Unknown     int `json:"unknown"`
	NotDeclared int `json:"not_declared"`
	NotCompared int `json:"not_compared"`
}

// comparisonDocument is what diff -o json prints.
type comparisonDocument struct {
	Spec       string  `json:"spec"`
	Root       string  `json:"root"`
	Fields     []field `json:"fields"`
	Counts     counts  `json:"counts"`
	Drift      bool    `json:"drift"`
	Incomplete bool    `json:"incomplete"`
	ExitCode   int     `json:"exit_code"`

	Errors []string `json:"errors,omitempty"` // what could not be compared
}

// failed says on standard error what could not be compared.
func (c *comparison) failed(a *app, err error) {
	code := codeOf(err)
	if code != exitUnreadable && code != exitInvalid {
		code = exitIncomplete
	}
	c.codes = append(c.codes, code)
	c.errors = append(c.errors, strings.Split(err.Error(), "\n")...)
	a.sayError(err)
}

// add takes the findings about one target.
func (c *comparison) add(a *app, r drift.Result) {
	if r.Before == nil && r.Err != nil {
		c.failed(a, exitWith(codeOf(r.Err), named(r.Target, r.Err)))
		return
	}
	for _, f := range r.Before {
		name := f.Path.String()
		if len(f.Path) == 0 || f.Path[0] != r.Target {
			name = strings.TrimSuffix(r.Target+"."+name, ".")
		}
		c.fields = append(c.fields, field{name, r.Target, f.Verdict, f.Declared, f.Observed, f.Reason, f.Note})
	}
}

// counts counts the verdicts.
func (c *comparison) counts() counts {
	var n counts
	for _, f := range c.fields {
		switch f.Status {
		case drift.Same:
			n.Same++
		case drift.Drift:
			n.Drift++
		case drift.NotRead:
			n.Unknown++
		case drift.NotDeclared:
			n.NotDeclared++
		case drift.NotCompared:
			n.NotCompared++
		}
	}
	return n
}

// code is the exit code: 2, 3, 14, 13 or 0.
func (c *comparison) code() int {
	codes := map[int]bool{}
	for _, code := range c.codes {
		codes[code] = true
	}
	n := c.counts()
	codes[exitDrift] = n.Drift > 0
	codes[exitIncomplete] = codes[exitIncomplete] || n.Unknown > 0
	return worst([]int{exitUnreadable, exitInvalid, exitDrift, exitIncomplete}, codes)
}

// print prints the findings. Where nothing could be compared there is no text: a
// summary would read like an answer.
func (c *comparison) print(w io.Writer, form string) error {
	code := c.code()
	nothing := len(c.fields) == 0 && len(c.codes) > 0
	var err error
	switch {
	case nothing && (c.silent || form == formText):
	case form == formJSON:
		err = writeJSON(w, c.document())
	default:
		_, err = io.WriteString(w, c.text())
	}
	if err != nil {
		return err
	}
	return ended(code)
}

func (c *comparison) document() comparisonDocument {
	n := c.counts()
	d := comparisonDocument{
		Spec: c.spec, Root: c.root, Fields: c.fields, Counts: n,
		Drift:      n.Drift > 0,
		Incomplete: n.Unknown > 0 || len(c.codes) > 0,
		ExitCode:   c.code(),
		Errors:     c.errors,
	}
	if d.Fields == nil {
		d.Fields = []field{}
	}
	return d
}

// text is a line for each finding and one that sums up.
func (c *comparison) text() string {
	var b strings.Builder
	for _, f := range c.fields {
		b.WriteString(plugin.Printable(f.line()))
		b.WriteByte('\n')
	}
	n := c.counts()
	state := "no drift"
	switch {
	case n.Drift > 0:
		state = "drift found"
	case n.Unknown > 0 || len(c.codes) > 0:
		state = "no drift, but declared fields could not be observed"
	}
	fmt.Fprintf(&b, "diff: %d same, %d drift, %d unknown, %d not declared, %d not compared; %s\n",
		n.Same, n.Drift, n.Unknown, n.NotDeclared, n.NotCompared, state)
	return b.String()
}

func (f field) line() string {
	declared, observed := drift.Text(f.Declared), drift.Text(f.Observed)
	var about string
	switch f.Status {
	case drift.Same:
		about = declared
	case drift.Drift:
		about = fmt.Sprintf("declared %s, observed %s", declared, observed)
		if f.Note != "" {
			about += "; " + f.Note
		}
	case drift.NotRead:
		about = fmt.Sprintf("declared %s; not inferred: %s", declared, f.Reason)
	case drift.NotDeclared:
		about = "observed " + observed
	case drift.NotCompared:
		about = f.Reason
	}
	return fmt.Sprintf("%s: %s (%s)", f.Field, f.Status, about)
}
