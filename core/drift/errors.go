package drift

import (
	"fmt"
	"strings"
)

// several is more than one error, on one line.
type several []error

func (s several) Error() string {
	texts := make([]string, len(s))
	for i, err := range s {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (s several) Unwrap() []error { return s }

// join is errors.Join on one line.
func join(errs []error) error {
	var some several
	for _, err := range errs {
		if err != nil {
			some = append(some, err)
		}
	}
	switch len(some) {
	case 0:
		return nil
	case 1:
		return some[0]
	}
	return some
}

// judgeCheck is the error of a visit that only looked: what is unknown.
func judgeCheck(r Report) error {
	var errs []error
	for _, f := range r {
		if f.Verdict == NotRead {
			errs = append(errs, unread(f))
		}
	}
	return join(errs)
}

// judgeVisit is the error of a visit: what went wrong in its steps, and what
// is not settled although no step that failed speaks for it.
func judgeVisit(r Report, outcomes []Outcome) error {
	errs := failures(outcomes)
	for _, f := range r {
		if f.Verdict == Drift || f.Verdict == NotRead {
			errs = append(errs, unsettled(f, outcomes))
		}
	}
	return join(errs)
}

// unsettled says what is wrong with a leaf that is not as declared after the
// steps were taken, or rehearsed. nil: a failed step or a note says it already.
func unsettled(f Finding, outcomes []Outcome) error {
	var by *Outcome
	for i, o := range outcomes {
		if !touches(o.Step, f.Path) {
			continue
		}
		if o.Failed() || (o.Undone || o.Step.Do != nil && o.Skipped) && f.Verdict == Drift {
			return nil
		}
		by = &outcomes[i]
	}
	switch {
	case f.Verdict == NotRead:
		return unread(f)
	case by == nil:
		return fmt.Errorf("%s is not as declared and nothing here can correct it: declared %s, observed %s",
			f.Path, Text(f.Declared), Text(f.Observed))
	case by.Step.Do != nil:
		return fmt.Errorf("%s is not as declared after %q: declared %s, observed %s",
			f.Path, by.Step.Text, Text(f.Declared), Text(f.Observed))
	}
	return nil
}

func unread(f Finding) error { return fmt.Errorf("%s is unknown: %s", f.Path, f.Reason) }

// failures lists what went wrong in the steps. That the visit ended before
// some of them began is said once.
func failures(outcomes []Outcome) []error {
	var errs []error
	ended := false
	for _, o := range outcomes {
		switch {
		case o.Refused != "":
			errs = append(errs, fmt.Errorf("%s: refused: %s", o.Step.Text, o.Refused))
		case o.Err != nil && o.Skipped:
			if !ended {
				errs = append(errs, fmt.Errorf("%s: not begun: %w", o.Step.Text, o.Err))
			}
			ended = true
		case o.Err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", o.Step.Text, o.Err))
		}
	}
	return errs
}
