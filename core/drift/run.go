package drift

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
)

// Run takes the steps in order. A failed step skips the rest of its field and
// undoes that field's changed steps in reverse; other fields go on. A panic is
// that step's error and undoes nothing. Once ctx has ended no further step is
// begun and nothing is undone: what was done is found by the next visit.
func Run(ctx context.Context, r Report, steps []Step, h Hook) []Outcome {
	return resume(ctx, r, nil, steps, h)
}

// resume is Run after earlier steps, and gives the outcomes of its own.
func resume(ctx context.Context, r Report, earlier []Outcome, steps []Step, h Hook) []Outcome {
	run := runner{ctx: ctx, report: r, hook: h, failed: map[string]bool{}, outcomes: make([]Outcome, 0, len(steps))}
	for _, o := range earlier {
		if field := o.Step.Field; field != "" && o.Failed() {
			run.failed[field] = true
		}
	}
	for i, s := range steps {
		o := Outcome{Step: s}
		switch {
		case ctx.Err() != nil:
			o.Skipped, o.Err = true, ctx.Err()
		case run.failed[s.Field]:
			o.Skipped = true
		default:
			run.take(len(earlier)+i, &o)
		}
		run.outcomes = append(run.outcomes, o)
		if o.Failed() && !o.Skipped {
			run.fail(s.Field, o.Err)
		}
	}
	return run.outcomes
}

type runner struct {
	ctx      context.Context
	report   Report
	hook     Hook
	failed   map[string]bool // by field
	outcomes []Outcome
}

// take does one step, or refuses it.
func (r *runner) take(i int, o *Outcome) {
	o.Refused, o.Err = refusal(r.report, o.Step)
	if o.Failed() || o.Step.Do == nil {
		return
	}
	ctx, cancel := finish(r.ctx)
	defer cancel()
	o.Err = guard(func() (err error) {
		if r.hook != nil {
			if err := r.hook(r.ctx, i, o.Step, nil); err != nil {
				return err
			}
		}
		o.Changed, err = o.Step.Do(ctx)
		return err
	})
	if r.hook != nil {
		_ = r.hook(r.ctx, i, o.Step, o) // its text says that this is not looked at
	}
}

// refusal says why a step may not be done: it says so itself, or what it
// writes is noted or unknown. A step that is not exactly one of Do, Note and
// Refuse is an error.
func refusal(report Report, s Step) (refused string, err error) {
	kinds := 0
	for _, set := range []bool{s.Do != nil, s.Note != "", s.Refuse != ""} {
		if set {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return "", fmt.Errorf("step %q must have exactly one of Do, Note and Refuse (a defect in Keel)", s.Text)
	case s.Refuse != "":
		return s.Refuse, nil
	case s.Do == nil:
		return "", nil
	}
	for _, f := range report {
		if !touches(s, f.Path) {
			continue
		}
		if f.Note != "" {
			return fmt.Sprintf("%s is left as it is: %s", f.Path, f.Note), nil
		}
		if f.Verdict == NotRead && !s.Blind {
			return fmt.Sprintf("%s is unknown: %s", f.Path, f.Reason), nil
		}
	}
	return "", nil
}

// touches reports whether step s writes the leaf p, or a part of it.
func touches(s Step, p Path) bool {
	for _, w := range s.Writes {
		if w.Covers(p) || p.Covers(w) {
			return true
		}
	}
	return false
}

// fail ends a field: its changed steps are undone, the newest first, unless
// the step that failed panicked. The empty field holds nothing but that step.
func (r *runner) fail(field string, cause error) {
	last := len(r.outcomes) - 1
	first := last
	if field != "" {
		r.failed[field] = true
		first = 0
	}
	if p := (*Panic)(nil); errors.As(cause, &p) {
		return
	}
	ctx := context.WithoutCancel(r.ctx)
	for i := last; i >= first; i-- {
		o := &r.outcomes[i]
		if o.Step.Field != field || !o.Changed || o.Undone || o.Step.Undo == nil {
			continue
		}
		if err := guard(func() error { return o.Step.Undo(ctx) }); err != nil {
			o.Err = join([]error{o.Err, fmt.Errorf("undo: %w", err)})
			continue
		}
		o.Undone = true
	}
}

// finish is a context for work that has begun: the end of ctx does not reach
// it, the deadline of ctx does.
func finish(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithoutCancel(ctx), func() {}
	}
	return context.WithDeadline(context.WithoutCancel(ctx), deadline)
}

// guard turns a panic of f into a *Panic.
func guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &Panic{Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}
