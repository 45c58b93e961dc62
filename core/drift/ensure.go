package drift

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Result is everything known about one visit. After is nil when nothing was
// done. Err is set when a step failed, when drift that was to be mended is still
// there, and when a declared leaf is unknown: an unread target is not a success.
type Result struct {
	Target        string
	Before, After Report // nil: nothing could be asked
	Steps         []Outcome
	Changed       bool // something was changed, and not taken back
	Err           error
	Why           Why           // what a Loop ran it for
	Took          time.Duration // of a run by a Loop
}

// Last is the newest report: After, or Before when nothing was done.
func (r Result) Last() Report {
	if r.After != nil {
		return r.After
	}
	return r.Before
}

// Options of one visit.
type Options struct {
	DryRun bool // plan, do nothing
	Hook   Hook
	// Lock, when set, is taken before anything may be changed, and only when a
	// look without it saw something to change. Ensure then makes the target forget
	// what it remembers, see Forgetter, and looks again.
	Lock func(ctx context.Context) (unlock func(), err error)
}

// rounds is how often Ensure plans at most: one to mend, one for what only the
// mending made visible, and one more.
const rounds = 3

// Check observes and compares. Drift is no error of a check.
func Check(ctx context.Context, t Target) Result {
	res := Result{Target: t.ID()}
	res.Before, res.Err = look(ctx, t)
	if res.Err == nil {
		res.Err = judgeCheck(res.Before)
	}
	return res
}

// CheckAll checks targets side by side, at most parallel at once and at least
// one, and keeps their order.
func CheckAll(ctx context.Context, ts []Target, parallel int) []Result {
	results := make([]Result, len(ts))
	slots := make(chan struct{}, max(parallel, 1))
	var wg sync.WaitGroup
	for i, t := range ts {
		slots <- struct{}{}
		wg.Go(func() {
			results[i] = Check(ctx, t)
			<-slots
		})
	}
	wg.Wait()
	return results
}

// Ensure checks, plans, runs, and checks again; at most three rounds, ending
// when a round changed nothing or a step failed. A Wait from Plan ends the visit
// with the Result filled. Once ctx has ended no further step is begun; the check
// after those that were taken is made nevertheless, within the deadline of ctx.
func Ensure(ctx context.Context, t Planner, o Options) Result {
	v := visit{target: t, options: o, res: Result{Target: t.ID()}}
	v.res.Before, v.res.Err = look(ctx, t)
	if v.res.Err != nil || v.res.Before.Settled() {
		return v.res
	}
	if o.Lock != nil && !o.DryRun {
		unlock, err := o.Lock(ctx)
		if err != nil {
			v.res.Err = err
			return v.res
		}
		defer unlock()
		if f, ok := t.(Forgetter); ok {
			f.Forget()
		}
		v.res.Before, v.res.Err = look(ctx, t)
		if v.res.Err != nil || v.res.Before.Settled() {
			return v.res
		}
	}
	for range rounds {
		if more := v.round(ctx); !more {
			break
		}
	}
	return v.res
}

type visit struct {
	target  Planner
	options Options
	res     Result
}

// round plans and runs once, and reports whether another round may help.
func (v *visit) round(ctx context.Context) (more bool) {
	var steps []Step
	err := guard(func() (err error) {
		steps, err = v.target.Plan(ctx, v.res.Last())
		return err
	})
	if err != nil {
		v.res.Err = err
		return false
	}
	if v.options.DryRun {
		v.res.Steps = rehearse(v.res.Before, steps)
		v.res.Err = judgeVisit(v.res.Before, v.res.Steps)
		return false
	}
	outcomes := Run(ctx, v.res.Last(), steps, v.options.Hook)
	v.res.Steps = append(v.res.Steps, outcomes...)
	changed, acted := false, false
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
			v.res.Err = join(append(failures(outcomes), fmt.Errorf("look again: %w", err)))
			return false
		}
		v.res.After = after
	}
	v.res.Err = judgeVisit(v.res.Last(), outcomes)
	return changed && len(failures(outcomes)) == 0 && !v.res.Last().Settled()
}

// look observes and compares; a panic is an error.
func look(ctx context.Context, t Target) (r Report, err error) {
	err = guard(func() error {
		declared, observed, err := t.Observe(ctx)
		if err != nil {
			return err
		}
		if c, ok := t.(Comparer); ok {
			r = c.Compare(declared, observed)
		} else {
			r = Compare(declared, observed)
		}
		return nil
	})
	if err == nil && r == nil {
		r = Report{}
	}
	return r, err
}

// rehearse gives the outcomes of a dry run: what would be refused is.
func rehearse(r Report, steps []Step) []Outcome {
	outcomes := make([]Outcome, len(steps))
	for i, s := range steps {
		outcomes[i] = Outcome{Step: s, Skipped: true}
		outcomes[i].Refused, outcomes[i].Err = refusal(r, s)
	}
	return outcomes
}

// Refused is a target that answers every visit with err: a declaration that
// cannot be used, in its place among those that can.
func Refused(id string, err error) Planner { return refused{id, err} }

type refused struct {
	id  string
	err error
}

func (r refused) ID() string { return r.id }

func (r refused) Observe(context.Context) (declared, observed State, err error) {
	return nil, nil, r.err
}

// Plan is never reached: there is no report to plan from.
func (r refused) Plan(context.Context, Report) ([]Step, error) { return nil, r.err }
