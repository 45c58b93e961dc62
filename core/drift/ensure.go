package drift

import (
	"context"
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

// Ensure checks, plans, runs, and checks again: Begin, and then Finish.
func Ensure(ctx context.Context, t Planner, o Options) Result {
	return Begin(ctx, t, o).Finish(ctx)
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
