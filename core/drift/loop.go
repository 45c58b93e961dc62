package drift

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A Loop runs the targets of its Schedule when they are due, on one goroutine:
// Planners by Ensure, other Targets by Check. A pass runs all that are due when it
// begins, each once, in order of rank and ID, and then the late steps of those that
// have some, in the same order.
type Loop struct {
	// Schedule belongs to the loop's goroutine: Refresh and Call change it.
	Schedule Schedule
	// Refresh, when set, brings the Schedule in line with where targets come from. It
	// is called before each pass, after Wake and every Poll, also between two runs of a
	// pass. It takes what is new and must not wait. Its error, which is reported as a
	// Result without Target, keeps the pass from beginning.
	Refresh func(ctx context.Context) error
	// Begin, when set, is called before the first run of a pass, with the number of
	// targets that are due, and before that of Do.
	Begin func(ctx context.Context, due int)
	Poll  time.Duration // 0: Refresh is called for Wake, and for what is due
	// Woken, when set, is as good as Wake without a name for each element.
	Woken <-chan struct{}
	// Deadline is that of one run, without its late steps, and of these; 0: none.
	Deadline time.Duration
	Options  Options // of each run
	// Final, when set, reports errors that no retry can cure before the target has
	// changed: it is run again after its interval, and not after a back-off.
	Final func(error) bool
	// Done is given every Result.
	Done func(Result)
	Now  func() time.Time

	once      sync.Once
	calls     chan func(context.Context)
	woken     chan struct{}
	ended     chan struct{}
	passed    time.Time // when the last pass of Run ended
	refreshed time.Time

	mu    sync.Mutex
	named []string // by Wake
}

// pause is the least time between two passes, so that a Wait until now does not
// make the loop spin.
const pause = 100 * time.Millisecond

// errEnded answers calls that come after Run has ended.
var errEnded = errors.New("the loop has ended")

func (l *Loop) init() {
	l.once.Do(func() {
		l.calls = make(chan func(context.Context))
		l.woken = make(chan struct{}, 1)
		l.ended = make(chan struct{})
	})
}

// Wake has the loop call Refresh soon, and makes the targets that are named due at
// once. It never waits, and is safe for concurrent use. A name that is in no
// Schedule by then has no effect.
func (l *Loop) Wake(ids ...string) {
	l.init()
	l.mu.Lock()
	l.named = append(l.named, ids...)
	l.mu.Unlock()
	select {
	case l.woken <- struct{}{}:
	default: // it has not heard the last one yet
	}
}

// Run makes passes until ctx ends, and returns why it ended. A panic is that
// target's error. It may be called once.
func (l *Loop) Run(ctx context.Context) error {
	l.init()
	defer close(l.ended)
	for {
		l.pass(ctx)
		l.passed = l.Now()
		timer := time.NewTimer(l.rest())
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				timer.Stop()
				return ctx.Err()
			case f := <-l.calls:
				f(ctx)
				timer.Reset(l.rest())
			case <-l.woken:
				timer.Reset(l.gap())
			case <-l.Woken:
				timer.Reset(l.gap())
			case <-timer.C:
				waiting = false
			}
		}
	}
}

// rest is how long the loop has nothing to do.
func (l *Loop) rest() time.Duration {
	const never = time.Hour // a clock may leap ahead meanwhile
	rest := never
	if l.Poll > 0 {
		rest = min(rest, l.Poll, l.Poll-l.Now().Sub(l.passed))
	}
	if next, ok := l.Schedule.Next(); ok {
		rest = min(rest, next.Sub(l.Now()))
	}
	return max(rest, l.gap())
}

// gap is how much of the pause after the last pass is left.
func (l *Loop) gap() time.Duration {
	return min(max(pause-l.Now().Sub(l.passed), 0), pause)
}

// Pass makes one pass over the targets that are due, for a caller that wants no
// loop. It must not be mixed with Run.
func (l *Loop) Pass(ctx context.Context) {
	l.init()
	l.pass(ctx)
}

// stale reports whether there may be something new since the last refresh.
func (l *Loop) stale() bool {
	select {
	case <-l.woken:
		return true
	case <-l.Woken:
		return true
	default:
	}
	since := l.Now().Sub(l.refreshed)
	return l.Poll > 0 && (since >= l.Poll || since < 0)
}

// refresh brings the schedule up to date.
func (l *Loop) refresh(ctx context.Context) bool {
	l.refreshed = l.Now()
	l.mu.Lock()
	named := l.named
	l.named = nil
	l.mu.Unlock()
	if l.Refresh != nil {
		if err := guard(func() error { return l.Refresh(ctx) }); err != nil {
			l.Done(Result{Err: err})
			return false
		}
	}
	for _, id := range named {
		l.Schedule.Ask(id, l.Now())
	}
	return true
}

// pass runs what is due.
func (l *Loop) pass(ctx context.Context) {
	if !l.refresh(ctx) {
		return
	}
	due := l.Schedule.take(l.Now())
	if len(due) > 0 && l.Begin != nil {
		l.Begin(ctx, len(due))
	}
	var late []*run
	for i, e := range due {
		l.serve(ctx)
		if i > 0 && l.stale() {
			l.refresh(ctx)
		}
		switch {
		case ctx.Err() != nil:
			l.Schedule.give(e)
		case l.Schedule.holds(e):
			if r := l.begin(ctx, e); r.visit != nil && r.visit.Late() {
				late = append(late, r)
			} else {
				l.end(ctx, r)
			}
		}
	}
	for _, r := range late {
		l.serve(ctx)
		l.end(ctx, r)
	}
	l.Schedule.align(due)
}

// serve runs the calls that came in the meantime.
func (l *Loop) serve(ctx context.Context) {
	for {
		select {
		case f := <-l.calls:
			f(ctx)
		default:
			return
		}
	}
}

// A run is one of a target that was taken.
type run struct {
	entry *entry
	why   Why
	visit *Visit // nil: the target is only checked, or there is none
	res   Result
	took  time.Duration
}

// timed calls f within the deadline of a run, and counts the time.
func (l *Loop) timed(ctx context.Context, r *run, f func(context.Context)) {
	if l.Deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.Deadline)
		defer cancel()
	}
	began := l.Now()
	f(ctx)
	r.took += l.Now().Sub(began)
}

// begin runs one target but for its late steps.
func (l *Loop) begin(ctx context.Context, e *entry) *run {
	r := &run{entry: e, why: e.why, res: Result{Target: e.item.ID}}
	l.timed(ctx, r, func(ctx context.Context) {
		var t Target
		r.res.Err = guard(func() error { t = e.item.Target(); return nil })
		if p, ok := t.(Planner); ok {
			r.visit = Begin(ctx, p, l.Options)
		} else if t != nil {
			r.res = Check(ctx, t)
		}
	})
	return r
}

// end runs the late steps, and reports the Result.
func (l *Loop) end(ctx context.Context, r *run) Result {
	if r.visit != nil {
		l.timed(ctx, r, func(ctx context.Context) { r.res = r.visit.Finish(ctx) })
	}
	r.res.Why, r.res.Took = r.why, r.took
	r.res.Err = l.Schedule.ran(r.entry, r.res.Err, l.Final, l.Now())
	l.Done(r.res)
	return r.res
}

// Do runs first, which may be nil, and then one target, both at once on the loop's
// goroutine: what first changed is judged by that run and by no pass in between. It
// is an error, and nothing is run, when first fails or when the Schedule has no such
// target.
func (l *Loop) Do(ctx context.Context, id string, first func(context.Context) error) (res Result, err error) {
	called := l.Call(ctx, func(ctx context.Context) { res, err = l.do(ctx, id, first) })
	return res, cmp.Or(called, err)
}

func (l *Loop) do(ctx context.Context, id string, first func(context.Context) error) (Result, error) {
	if first != nil {
		if err := first(ctx); err != nil {
			return Result{}, err
		}
	}
	e := l.Schedule.pick(id)
	if e == nil {
		return Result{}, fmt.Errorf("%s: no such target", id)
	}
	if l.Begin != nil {
		l.Begin(ctx, 1)
	}
	return l.end(ctx, l.begin(ctx, e)), nil
}

// Call runs f on the loop's goroutine, between two runs: how others touch what the
// loop owns. It returns when f has, or with an error when f was not run because ctx
// or the loop ended first. f is given the loop's context.
func (l *Loop) Call(ctx context.Context, f func(context.Context)) error {
	l.init()
	done := make(chan error, 1)
	call := func(ctx context.Context) {
		done <- guard(func() error { f(ctx); return nil })
	}
	select {
	case l.calls <- call:
		return <-done
	case <-ctx.Done():
		return ctx.Err()
	case <-l.ended:
		return errEnded
	}
}
