package drift

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A Loop keeps targets on one goroutine, in the order List gives them: Planners
// by Ensure, other Targets by Check.
type Loop struct {
	List     func(ctx context.Context) ([]Target, error)
	Interval time.Duration // between passes; an earlier Wait is honoured
	Deadline time.Duration // of one visit; 0: none
	Options  Options       // of each visit
	// Wake, when set, makes a pass soon after an element comes, whatever Interval is.
	Wake <-chan struct{}
	// Done is told every Result. A List that failed is a Result without Target.
	Done func(Result)
	Now  func() time.Time

	once  sync.Once
	calls chan func(context.Context)
	ended chan struct{}
	// passed is when Run's last pass ended.
	passed time.Time
	waits  map[string]waiting // by target, of those that answered Wait
}

type waiting struct{ first, until time.Time }

// over reports whether the time has come, or the clock was set back to before the
// Wait.
func (w waiting) over(now time.Time) bool { return !now.Before(w.until) || now.Before(w.first) }

// pause is the least time between two passes, so that a Wait until now does not
// make the loop spin.
const pause = 100 * time.Millisecond

// errEnded answers calls that come after Run has ended.
var errEnded = errors.New("the loop has ended")

func (l *Loop) init() {
	l.once.Do(func() {
		l.calls = make(chan func(context.Context))
		l.ended = make(chan struct{})
		l.waits = map[string]waiting{}
	})
}

// Run makes passes until ctx ends, and returns why it ended. A panic is that
// target's error. It may be called once.
func (l *Loop) Run(ctx context.Context) error {
	l.init()
	defer close(l.ended)
	next := l.Now()
	for {
		// A clock that was set back meanwhile makes nobody wait.
		timer := time.NewTimer(min(next.Sub(l.Now()), l.Interval))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case f := <-l.calls:
			timer.Stop()
			f(ctx)
		case <-l.Wake:
			timer.Stop()
			next = l.soon(next)
		case <-timer.C:
			next = l.pass(ctx)
			l.passed = l.Now()
		}
	}
}

// soon is when to make the pass that Wake asks for: at once, but a pause after the
// last, so that a flood of elements does not make the loop spin.
func (l *Loop) soon(next time.Time) time.Time {
	now := l.Now()
	at := l.passed.Add(pause)
	if at.Before(now) || at.Sub(now) > pause {
		at = now
	}
	if at.Before(next) {
		return at
	}
	return next
}

// Pass makes one pass over the targets that do not wait, for a caller that
// wants no loop. It must not be mixed with Run.
func (l *Loop) Pass(ctx context.Context) {
	l.init()
	l.pass(ctx)
}

// pass visits every target that need not wait, and returns when to come again.
func (l *Loop) pass(ctx context.Context) time.Time {
	now := l.Now()
	next := now.Add(l.Interval)
	targets, err := l.list(ctx)
	if err != nil {
		l.Done(Result{Err: err})
		return next
	}
	listed := make(map[string]bool, len(targets))
	for _, t := range targets {
		listed[t.ID()] = true
		l.serve(ctx)
		if ctx.Err() != nil {
			return next
		}
		if w, ok := l.waits[t.ID()]; !ok || w.over(l.Now()) {
			l.visit(ctx, t)
		}
	}
	for id, w := range l.waits {
		if !listed[id] {
			delete(l.waits, id)
		} else if w.until.Before(next) {
			next = w.until
		}
	}
	if soonest := now.Add(min(pause, l.Interval)); next.Before(soonest) {
		return soonest
	}
	return next
}

func (l *Loop) list(ctx context.Context) (ts []Target, err error) {
	err = guard(func() error {
		ts, err = l.List(ctx)
		return err
	})
	return ts, err
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

// visit visits one target, remembers its Wait and tells Done.
func (l *Loop) visit(ctx context.Context, t Target) Result {
	if l.Deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.Deadline)
		defer cancel()
	}
	var res Result
	if p, ok := t.(Planner); ok {
		res = Ensure(ctx, p, l.Options)
	} else {
		res = Check(ctx, t)
	}
	res.Err = l.remember(res)
	l.Done(res)
	return res
}

// remember keeps a Wait until it is due. One that has lasted GiveUp becomes a
// plain error.
func (l *Loop) remember(res Result) error {
	var wait *Wait
	if !errors.As(res.Err, &wait) {
		delete(l.waits, res.Target)
		return res.Err
	}
	w, again := l.waits[res.Target]
	if !again {
		w.first = l.Now()
	}
	w.until = wait.Until
	l.waits[res.Target] = w
	if lasted := l.Now().Sub(w.first); wait.GiveUp > 0 && lasted >= wait.GiveUp {
		return fmt.Errorf("gave up after %s: %s", lasted.Round(time.Second), wait.Reason)
	}
	return res.Err
}

// Do runs first, which may be nil, and then visits one target, both at once on
// the loop's goroutine: what first changed is judged by that visit and by no pass
// in between. That the target was to wait is forgotten. It is an error, and
// nothing is visited, when first fails or when List does not name the target.
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
	targets, err := l.list(ctx)
	if err != nil {
		return Result{}, err
	}
	for _, t := range targets {
		if t.ID() == id {
			delete(l.waits, id)
			return l.visit(ctx, t), nil
		}
	}
	return Result{}, fmt.Errorf("%s: no such target", id)
}

// Call runs f on the loop's goroutine, between two visits: how others touch
// what the loop owns. It returns when f has, or with an error when f was not
// run because ctx or the loop ended first. f is given the loop's context.
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
