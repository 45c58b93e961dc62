package drift

import (
	"context"
	"fmt"
	"reflect"
	"slices"
)

// rounds is how often a Visit plans at most: one to correct, one for what only the
// correction made visible, and one more.
const rounds = 3

// A Visit is an Ensure in two parts, so that a pass over several targets can make
// the changes of all of them before the late steps of any. See Step.Late.
type Visit struct {
	target   Planner
	options  Options
	res      Result
	outcomes []Outcome // of the last round
	late     []Step    // for Finish
}

// Begin checks, plans, runs all steps but the late ones, and checks again. It makes
// at most three rounds, and ends when one changed nothing, left every leaf as it
// was, left nothing but late steps to do, or failed. A Wait from Plan ends the Visit
// with its Result filled. Once ctx has ended no further step is begun; the check
// after those that were taken is made nevertheless, within the deadline of ctx.
func Begin(ctx context.Context, t Planner, o Options) *Visit {
	v := &Visit{target: t, options: o, res: Result{Target: t.ID()}}
	v.res.Before, v.res.Err = look(ctx, t)
	if v.res.Err != nil || v.res.Before.Settled() {
		return v
	}
	if o.Lock != nil && !o.DryRun {
		unlock, err := v.lock(ctx)
		if err != nil {
			v.res.Err = err
			return v
		}
		defer unlock()
		v.res.Before, v.res.Err = look(ctx, t)
		if v.res.Err != nil || v.res.Before.Settled() {
			return v
		}
	}
	for range rounds {
		if more := v.round(ctx); !more {
			break
		}
	}
	return v
}

// Late reports whether Finish has steps to run.
func (v *Visit) Late() bool { return len(v.late) > 0 }

// Finish runs the late steps, under the lock again, checks what they did, and gives
// the Result of the whole. A step that failed in Begin keeps the late steps of its
// field from running. It is to be called once, also when there is nothing late.
func (v *Visit) Finish(ctx context.Context) Result {
	if !v.Late() {
		return v.res
	}
	if v.options.Lock != nil && ctx.Err() == nil {
		unlock, err := v.lock(ctx)
		if err != nil {
			v.res.Err = err
			return v.res
		}
		defer unlock()
	}
	late := resume(ctx, v.res.Last(), v.outcomes, v.late, v.options.Hook)
	v.judge(ctx, late)
	return v.res
}

// lock takes the lock, and makes the target forget what it remembers: another
// process may have changed the machine meanwhile.
func (v *Visit) lock(ctx context.Context) (unlock func(), err error) {
	unlock, err = v.options.Lock(ctx)
	if err != nil {
		return nil, err
	}
	if f, ok := v.target.(Forgetter); ok {
		f.Forget()
	}
	return unlock, nil
}

// round plans and runs once, and reports whether another round may help.
func (v *Visit) round(ctx context.Context) (more bool) {
	before := v.res.Last()
	var steps []Step
	err := guard(func() (err error) {
		steps, err = v.target.Plan(ctx, before)
		return err
	})
	if err != nil {
		v.res.Err = err
		return false
	}
	if v.options.DryRun {
		v.res.Steps = rehearse(before, steps)
		v.res.Err = judgeVisit(before, v.res.Steps)
		return false
	}
	v.outcomes = nil
	if late := filter(steps, true); len(late) > 0 {
		v.late = late
	}
	changed := v.judge(ctx, Run(ctx, before, filter(steps, false), v.options.Hook))
	return changed && len(failures(v.outcomes)) == 0 && !v.done() && !reflect.DeepEqual(before, v.res.Last())
}

// judge adds outcomes to the Result, looks again when something was done, and
// reports whether anything changed.
func (v *Visit) judge(ctx context.Context, outcomes []Outcome) (changed bool) {
	v.res.Steps = append(v.res.Steps, outcomes...)
	v.outcomes = append(v.outcomes, outcomes...)
	acted := false
	for _, o := range outcomes {
		changed = changed || o.Changed && !o.Undone
		acted = acted || o.Step.Do != nil && o.Refused == "" && !o.Skipped
	}
	v.res.Changed = v.res.Changed || changed
	if acted {
		// It belongs to the steps: what was done when the visit was called off is
		// known all the same.
		again, cancel := finish(ctx)
		defer cancel()
		after, err := look(again, v.target)
		if err != nil {
			v.res.Err = join(append(failures(v.outcomes), fmt.Errorf("look again: %w", err)))
			return false
		}
		v.res.After = after
	}
	v.res.Err = judgeVisit(v.res.Last(), v.outcomes)
	return changed
}

// done reports whether nothing is left but what the late steps settle.
func (v *Visit) done() bool {
	left := slices.DeleteFunc(slices.Clone(v.res.Last()), func(f Finding) bool {
		return slices.ContainsFunc(v.late, func(s Step) bool { return touches(s, f.Path) })
	})
	return left.Settled()
}

// filter gives the steps that are late, or those that are not.
func filter(steps []Step, late bool) []Step {
	return slices.DeleteFunc(slices.Clone(steps), func(s Step) bool { return s.Late != late })
}
