package drift

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A looker is a target whose Observe does what a test says.
type looker struct {
	id   string
	look func() error
}

func (s looker) ID() string { return s.id }

func (s looker) Observe(context.Context) (declared, observed State, err error) {
	if s.look != nil {
		err = s.look()
	}
	return nil, nil, err
}

// loop makes a Loop of the targets of a test, which reports nothing.
func loop(interval time.Duration, targets ...Target) *Loop {
	l := &Loop{Now: time.Now, Done: func(Result) {}}
	for i, target := range targets {
		l.Schedule.Put(Item{ID: target.ID(), Rank: i, Interval: interval, Target: func() Target { return target }}, time.Now(), 0)
	}
	return l
}

func TestLoop_passesAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var log []string
		waits := 0
		l := loop(10*time.Second,
			looker{"a", func() error { panic("boom") }},
			looker{"b", func() error {
				if waits++; waits > 3 {
					return nil
				}
				return &Wait{Until: time.Now().Add(4 * time.Second), Reason: "cooling", GiveUp: 8 * time.Second}
			}})
		l.Done = func(r Result) {
			if r.Target == "b" {
				log = append(log, fmt.Sprintf("%s %s %v", time.Since(start), r.Why, r.Err))
			} else if r.Err == nil {
				t.Error("the panic was lost")
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 19*time.Second)
		defer cancel()
		if err := l.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended with %v", err)
		}
		want := "0s new waits until 2000-01-01T00:00:04Z: cooling\n" +
			"4s wait over waits until 2000-01-01T00:00:08Z: cooling\n" +
			"8s wait over gave up after 8s: cooling\n" +
			"12s wait over <nil>"
		if got := strings.Join(log, "\n"); got != want {
			t.Errorf("got:\n%s\nwant:\n%s", got, want)
		}
	})
}

func TestLoop_waitInThePastDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		visits := 0
		l := loop(time.Minute, looker{"a", func() error { visits++; return &Wait{Until: time.Now()} }})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = l.Run(ctx)
		if visits < 2 || visits > 11 {
			t.Errorf("%d visits in a second", visits)
		}
	})
}

// A clock that is set back in the middle of each pass makes nobody wait for longer.
func TestLoop_clockThatIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back time.Duration
		now := func() time.Time { return time.Now().Add(-back) }
		runs, waits := 0, 0
		l := loop(time.Second, looker{"a", func() error {
			runs++
			back += time.Hour
			return nil
		}}, looker{"b", func() error {
			waits++
			return &Wait{Until: now().Add(3 * time.Second)}
		}})
		l.Now = now
		ctx, cancel := context.WithTimeout(t.Context(), 9500*time.Millisecond)
		defer cancel()
		_ = l.Run(ctx)
		if runs != 10 || waits != 4 {
			t.Errorf("%d runs and %d waits in 9.5 seconds, want 10 and 4: one a second, and one in three", runs, waits)
		}
	})
}

func TestLoop_failedRefreshIsAResult(t *testing.T) {
	var got []string
	l := loop(time.Second, looker{"a", nil})
	l.Refresh = func(context.Context) error { return errors.New("no directory") }
	l.Done = func(r Result) { got = append(got, fmt.Sprintf("%q %v", r.Target, r.Err)) }
	l.Pass(t.Context())
	if want := `"" no directory`; strings.Join(got, "|") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLoop_doAndCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		visits, waiting := 0, true
		l := loop(time.Hour, looker{"a", func() error {
			visits++
			if waiting {
				return &Wait{Until: time.Now().Add(time.Hour), Reason: "cooling"}
			}
			return nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		synctest.Wait()
		enough := func(context.Context) error { waiting = false; return nil }
		if res, err := l.Do(ctx, "a", enough); err != nil || res.Target != "a" || res.Err != nil || visits != 2 {
			t.Errorf("Do: %+v, %v after %d visits", res, err, visits)
		}
		no := errors.New("not allowed")
		if _, err := l.Do(ctx, "a", func(context.Context) error { return no }); !errors.Is(err, no) || visits != 2 {
			t.Errorf("Do whose first step failed: %v after %d visits", err, visits)
		}
		if _, err := l.Do(ctx, "b", nil); fmt.Sprint(err) != "b: no such target" {
			t.Errorf("Do of a stranger: %v", err)
		}
		if err := l.Call(ctx, func(context.Context) { panic("boom") }); err == nil {
			t.Error("a panic in a call was lost")
		}
		gone, stop := context.WithCancel(t.Context())
		stop()
		if err := l.Call(gone, func(context.Context) {}); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("call with an ended context: %v", err)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		if err := l.Call(t.Context(), func(context.Context) { t.Error("ran") }); !errors.Is(err, errEnded) {
			t.Errorf("call after the end: %v", err)
		}
	})
}

func TestLoop_callsAreServedBetweenVisits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		called := make(chan error, 1)
		var l *Loop
		l = loop(time.Hour, looker{"a", func() error {
			go func() {
				called <- l.Call(t.Context(), func(context.Context) { log = append(log, "call") })
			}()
			synctest.Wait()
			return nil
		}}, looker{"b", nil})
		l.Done = func(r Result) { log = append(log, r.Target) }
		l.Pass(t.Context())
		if err := <-called; err != nil || strings.Join(log, " ") != "a call b" {
			t.Errorf("order %q, %v", log, err)
		}
	})
}

func TestLoop_deadlineOfAVisit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got error
		l := loop(time.Hour, hang{})
		l.Deadline, l.Done = time.Second, func(r Result) { got = r.Err }
		l.Pass(t.Context())
		if !errors.Is(got, context.DeadlineExceeded) {
			t.Errorf("got %v", got)
		}
	})
}

type hang struct{}

func (hang) ID() string { return "hang" }

func (hang) Observe(ctx context.Context) (declared, observed State, err error) {
	<-ctx.Done()
	return nil, nil, ctx.Err()
}

func TestLoop_wakesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex
		var passes []time.Duration
		seen := func() []time.Duration {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(passes)
		}
		l := loop(time.Hour)
		l.Poll = time.Hour
		l.Refresh = func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			passes = append(passes, time.Since(start))
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = l.Run(ctx) }()
		synctest.Wait()
		<-time.After(time.Second)
		for range 5 { // a flood: the first at once, the rest in one pass a pause later
			l.Wake()
			synctest.Wait()
		}
		<-time.After(10 * time.Second)
		want := []time.Duration{0, time.Second, time.Second + pause}
		if got := seen(); !slices.Equal(got, want) {
			t.Errorf("passes at %v, want %v", got, want)
		}
		<-time.After(time.Hour)
		if got := seen(); len(got) != 4 {
			t.Errorf("passes at %v: Poll counts from the last", got)
		}
	})
}

// What Wake names costs one run and no pass over the others; a stranger is nothing.
func TestLoop_wakesByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		l := loop(time.Hour, looker{"a", nil}, looker{"b", nil}, looker{"c", nil})
		l.Done = func(r Result) { log = append(log, r.Target+" "+string(r.Why)) }
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		<-time.After(time.Second)
		l.Wake("b", "stranger")
		<-time.After(time.Second)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		if got, want := strings.Join(log, ", "), "a new, b new, c new, b asked"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// What changes while a pass runs is taken in before the next run: a target that went
// is not run, and one that says something else is run as it says now.
func TestLoop_refreshesBeforeEachRun(t *testing.T) {
	var log []string
	change := false
	var l *Loop
	l = loop(time.Hour, looker{"a", func() error { change = true; l.Wake(); return nil }}, looker{"b", nil}, looker{"c", nil})
	l.Refresh = func(context.Context) error {
		if change {
			change = false
			l.Schedule.Remove("b")
			other := looker{"c", func() error { return errors.New("other") }}
			l.Schedule.Put(Item{ID: "c", Interval: time.Hour, Target: func() Target { return other }}, time.Now(), 0)
		}
		return nil
	}
	l.Done = func(r Result) { log = append(log, fmt.Sprint(r.Target, " ", r.Why, " ", r.Err)) }
	l.Pass(t.Context())
	l.Pass(t.Context())
	if got, want := strings.Join(log, ", "), "a new <nil>, c changed other"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// What ran in one pass is due in one pass, however long each run took.
func TestLoop_passesStayTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begins := 0
		slow := func() error { <-time.After(300 * time.Millisecond); return nil }
		l := loop(5*time.Second, looker{"a", slow}, looker{"b", slow}, looker{"c", slow})
		l.Begin = func(context.Context, int) { begins++ }
		ctx, cancel := context.WithTimeout(t.Context(), 18*time.Second)
		defer cancel()
		_ = l.Run(ctx)
		if begins != 4 {
			t.Errorf("%d passes in 18 s, want 4", begins)
		}
	})
}
