package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tlspu/keel/core/drift"
)

// What became of a target, as apply prints it.
const (
	resultChanged   = "changed"
	resultUnchanged = "unchanged"
	resultWould     = "would change"
	resultError     = "error"
	resultNotBegun  = "not begun" // it was interrupted before
)

// applied is what became of one target, in JSON. Changed is true beside an error
// when something was changed before it.
type applied struct {
	Target  string `json:"target"`
	Result  string `json:"result"`
	Changed bool   `json:"changed"`
	Steps   []step `json:"steps"`
	Error   string `json:"error"`
	Reason  string `json:"reason"` // why nothing was compared, or empty
}

// step is one step of a plan. Result is "changed", "unchanged", "would change",
// "undone", "skipped", "noted", "refused" or "failed"; Error is why it failed,
// was refused or is only noted.
type step struct {
	Text   string `json:"text"`
	Result string `json:"result"`
	Error  string `json:"error"`
}

// appliedDocument is what apply -o json prints.
type appliedDocument struct {
	Root    string    `json:"root"`
	DryRun  bool      `json:"dry_run"`
	Results []applied `json:"results"`
	Counts  struct {
		Changed   int `json:"changed"`
		Unchanged int `json:"unchanged"`
		Would     int `json:"would_change"`
		Errors    int `json:"error"`
		NotBegun  int `json:"not_begun"`
	} `json:"counts"`
	ExitCode int `json:"exit_code"`
}

// add takes note of one result and prints its line.
func (v *visits) add(r drift.Result) {
	if r.Err != nil {
		v.codes[v.codeOf(r.Err)] = true
	}
	v.print(summary(r, v.dryRun))
}

// notBegun takes note of what was left alone because the program was told to
// stop.
func (v *visits) notBegun(target string) {
	v.print(applied{Target: target, Result: resultNotBegun, Steps: []step{}})
}

func (v *visits) print(a applied) {
	v.list = append(v.list, a)
	if v.text {
		_, _ = io.WriteString(v.out, a.lines()) // v.out keeps the error
	}
}

// untouched reports that a visit ended before anything was tried, because it was
// called off.
func untouched(r drift.Result) bool {
	begun := func(o drift.Outcome) bool { return !o.Skipped }
	return errors.Is(r.Err, context.Canceled) && !slices.ContainsFunc(r.Steps, begun)
}

// codeOf is the code of one target's error: 2, 3, 15 or 16.
func (v *visits) codeOf(err error) int {
	switch code := codeOf(err); code {
	case exitUnreadable, exitInvalid, exitNeedsRoot:
		return code
	}
	return exitFailed
}

func summary(r drift.Result, dryRun bool) applied {
	a := applied{Target: r.Target, Changed: r.Changed, Steps: []step{}}
	would := false
	for _, o := range r.Steps {
		s := outcome(o, dryRun)
		would = would || s.Result == resultWould
		a.Steps = append(a.Steps, s)
	}
	switch {
	case r.Err != nil:
		a.Result, a.Error = resultError, oneLine(r.Err)
	case would:
		a.Result = resultWould
	case r.Changed:
		a.Result = resultChanged
	default:
		a.Result, a.Reason = resultUnchanged, notCompared(r.Last())
	}
	return a
}

// notCompared is why nothing that is declared was compared; empty when something
// was.
func notCompared(r drift.Report) string {
	var reasons []string
	for _, f := range r {
		switch f.Verdict {
		case drift.NotDeclared:
		case drift.NotCompared:
			if !slices.Contains(reasons, f.Reason) {
				reasons = append(reasons, f.Reason)
			}
		default:
			return ""
		}
	}
	return strings.Join(reasons, "; ")
}

func outcome(o drift.Outcome, dryRun bool) step {
	s := step{Text: o.Step.Text}
	switch {
	case o.Refused != "":
		s.Result, s.Error = "refused", o.Refused
	case o.Err != nil && !o.Skipped:
		s.Result, s.Error = "failed", oneLine(o.Err)
	case o.Step.Note != "":
		s.Result, s.Error = "noted", o.Step.Note
	case dryRun:
		s.Result = resultWould
	case o.Skipped:
		s.Result = "skipped"
	case o.Undone:
		s.Result = "undone"
	case o.Changed:
		s.Result = resultChanged
	default:
		s.Result = resultUnchanged
	}
	return s
}

// lines is the result for a person: one line, and in a dry run one more for each
// step.
func (a applied) lines() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-9s %s", a.Result, printable(a.Target))
	if why := a.Error + a.Reason; why != "" { // never both
		fmt.Fprintf(&b, ": %s", printable(why))
	}
	b.WriteByte('\n')
	for _, s := range a.Steps {
		switch {
		case s.Result == resultWould:
			fmt.Fprintf(&b, "  would %s\n", printable(s.Text))
		case a.Result == resultWould && s.Error != "":
			fmt.Fprintf(&b, "  %s: %s: %s\n", s.Result, printable(s.Text), printable(s.Error))
		}
	}
	return b.String()
}

// oneLine is an error's text on one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// document is everything that was done, in the order of the lines.
func (v *visits) document(code int) appliedDocument {
	d := appliedDocument{Root: v.env.Root, DryRun: v.dryRun, Results: v.list, ExitCode: code}
	if d.Results == nil {
		d.Results = []applied{}
	}
	for _, r := range d.Results {
		switch r.Result {
		case resultChanged:
			d.Counts.Changed++
		case resultUnchanged:
			d.Counts.Unchanged++
		case resultWould:
			d.Counts.Would++
		case resultNotBegun:
			d.Counts.NotBegun++
		default:
			d.Counts.Errors++
		}
	}
	return d
}
