package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tlspu/keel/core/drift"
)

// What became of a target, as its line says.
const (
	Changed   = "changed"
	Unchanged = "unchanged"
	Would     = "would change"
	Failed    = "error"
	NotBegun  = "not begun" // it was interrupted before
)

// A Result is what became of one target, in JSON and as a line. Changed is true
// beside an error when something was changed before it.
type Result struct {
	Target  string `json:"target"`
	Result  string `json:"result"`
	Changed bool   `json:"changed"`
	Steps   []Step `json:"steps"`
	Error   string `json:"error"`
	Reason  string `json:"reason"` // why nothing was compared, or empty
}

// A Step is one step of a plan. Result is "changed", "unchanged", "would change",
// "undone", "skipped", "noted", "refused" or "failed"; Error is why it failed,
// was refused or is only noted.
type Step struct {
	Text   string `json:"text"`
	Result string `json:"result"`
	Error  string `json:"error"`
}

// Results are what became of the targets of one run, in the order of their lines.
type Results struct {
	Out    io.Writer // of the lines; nil: none are printed
	DryRun bool
	List   []Result

	codes map[int]bool
}

// Add records one result and prints its line.
func (r *Results) Add(res drift.Result) {
	if res.Err != nil {
		if r.codes == nil {
			r.codes = map[int]bool{}
		}
		r.codes[failedCode(res.Err)] = true
	}
	r.add(resultOf(res, r.DryRun))
}

// NotBegun records a target that was left alone because the program was told to
// stop, and prints its line.
func (r *Results) NotBegun(target string) {
	r.add(Result{Target: target, Result: NotBegun, Steps: []Step{}})
}

func (r *Results) add(result Result) {
	r.List = append(r.List, result)
	if r.Out != nil {
		_, _ = io.WriteString(r.Out, result.lines()) // Env.Out keeps the error
	}
}

// Count is the number of targets with a result, one of the constants.
func (r *Results) Count(result string) (n int) {
	for _, one := range r.List {
		if one.Result == result {
			n++
		}
	}
	return n
}

// failedCodes are the codes of targets, the gravest first.
func failedCodes() []int { return []int{ExitUnreadable, ExitInvalid, ExitNeedsRoot, ExitFailed} }

// Code is the exit code that the gravest error asks for, 0 when there is none.
func (r *Results) Code() int {
	for _, code := range failedCodes() {
		if r.codes[code] {
			return code
		}
	}
	return 0
}

// failedCode is the code of one target's error.
func failedCode(err error) int {
	if exit := (*Exit)(nil); errors.As(err, &exit) && slices.Contains(failedCodes(), exit.Code) {
		return exit.Code
	}
	return ExitFailed
}

func resultOf(r drift.Result, dryRun bool) Result {
	a := Result{Target: r.Target, Changed: r.Changed, Steps: []Step{}}
	would := false
	for _, o := range r.Steps {
		s := stepOf(o, dryRun)
		would = would || s.Result == Would
		a.Steps = append(a.Steps, s)
	}
	switch {
	case r.Err != nil:
		a.Result, a.Error = Failed, OneLine(r.Err)
	case would:
		a.Result = Would
	case r.Changed:
		a.Result = Changed
	default:
		a.Result, a.Reason = Unchanged, notCompared(r.Last())
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

func stepOf(o drift.Outcome, dryRun bool) Step {
	s := Step{Text: o.Step.Text}
	switch {
	case o.Refused != "":
		s.Result, s.Error = "refused", o.Refused
	case o.Err != nil && !o.Skipped:
		s.Result, s.Error = "failed", OneLine(o.Err)
	case o.Step.Note != "":
		s.Result, s.Error = "noted", o.Step.Note
	case dryRun:
		s.Result = Would
	case o.Skipped:
		s.Result = "skipped"
	case o.Undone:
		s.Result = "undone"
	case o.Changed:
		s.Result = Changed
	default:
		s.Result = Unchanged
	}
	return s
}

// lines is the result for a person: one line, and in a dry run one more for each
// step.
func (a Result) lines() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-9s ", a.Result)
	about := []string{a.Target, cmp.Or(a.Error, a.Reason)} // what has no name has an error
	about = slices.DeleteFunc(about, func(s string) bool { return s == "" })
	b.WriteString(Printable(strings.Join(about, ": ")) + "\n")
	for _, s := range a.Steps {
		switch {
		case s.Result == Would:
			fmt.Fprintf(&b, "  would %s\n", Printable(s.Text))
		case a.Result == Would && s.Error != "":
			fmt.Fprintf(&b, "  %s: %s: %s\n", s.Result, Printable(s.Text), Printable(s.Error))
		}
	}
	return b.String()
}
