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

func TestBackoff(t *testing.T) {
	b := Backoff{Min: time.Second, Max: 300 * time.Second, Reset: time.Minute}
	now := time.Unix(0, 0)
	var s BackoffState
	var armed []string
	for range 11 {
		s = b.Started(s, now)
		armed = append(armed, s.Until.Sub(now).String())
		if b.Ready(s, s.Until.Add(-1)) || !b.Ready(s, s.Until) {
			t.Errorf("not ready exactly at %s", s.Until)
		}
		now = s.Until
	}
	if got, want := strings.Join(armed, " "), "1s 2s 4s 8s 16s 32s 1m4s 2m8s 4m16s 5m0s 5m0s"; got != want {
		t.Errorf("armed %s, want %s", got, want)
	}
}

func TestBackoff_forgetsOnlyAfterUnbrokenRunning(t *testing.T) {
	b := Backoff{Min: time.Second, Max: 300 * time.Second, Reset: time.Minute}
	start := time.Unix(0, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	s := b.Started(b.Started(BackoffState{}, at(0)), at(1))
	steps := []struct {
		second  int
		running bool
		forgets bool
	}{
		{2, true, false},
		{61, true, false},
		{62, true, true},
	}
	seen := s
	for _, step := range steps {
		seen = b.Seen(seen, step.running, at(step.second))
		if (seen.Delay == 0) != step.forgets {
			t.Errorf("at %d s: %+v", step.second, seen)
		}
	}
	broken := b.Seen(b.Seen(b.Seen(s, true, at(2)), false, at(30)), true, at(62))
	if broken.Delay == 0 {
		t.Error("running that was broken was counted")
	}
	if again := b.Started(seen, at(100)); again.Until.Sub(at(100)) != time.Second {
		t.Errorf("after the reset %s was armed", again.Until.Sub(at(100)))
	}
	if back := b.Seen(b.Seen(s, true, at(100)), true, at(10)); back.Up != at(10) {
		t.Error("a clock that went back counted as running")
	}
	if far := (BackoffState{Until: at(100000)}); !b.Ready(far, at(0)) {
		t.Error("a clock that went back blocks a start for longer than Max")
	}
}

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

func TestLoop_passesAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var log []string
		waits := 0
		l := &Loop{
			Interval: 10 * time.Second,
			Now:      time.Now,
			List: func(context.Context) ([]Target, error) {
				return []Target{
					looker{"a", func() error { panic("boom") }},
					looker{"b", func() error {
						if waits++; waits > 3 {
							return nil
						}
						return &Wait{Until: time.Now().Add(4 * time.Second), Reason: "cooling", GiveUp: 8 * time.Second}
					}},
				}, nil
			},
			Done: func(r Result) {
				if r.Target == "b" {
					log = append(log, fmt.Sprintf("%s %v", time.Since(start), r.Err))
				} else if r.Err == nil {
					t.Error("the panic was lost")
				}
			},
		}
		ctx, cancel := context.WithTimeout(t.Context(), 19*time.Second)
		defer cancel()
		if err := l.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended with %v", err)
		}
		want := "0s waits until 2000-01-01T00:00:04Z: cooling\n" +
			"4s waits until 2000-01-01T00:00:08Z: cooling\n" +
			"8s gave up after 8s: cooling\n" +
			"12s <nil>"
		if got := strings.Join(log, "\n"); got != want {
			t.Errorf("got:\n%s\nwant:\n%s", got, want)
		}
	})
}

func TestLoop_waitInThePastDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		visits := 0
		l := &Loop{
			Interval: time.Minute, Now: time.Now,
			List: func(context.Context) ([]Target, error) {
				return []Target{looker{"a", func() error { visits++; return &Wait{Until: time.Now()} }}}, nil
			},
			Done: func(Result) {},
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = l.Run(ctx)
		if visits < 2 || visits > 11 {
			t.Errorf("%d visits in a second", visits)
		}
	})
}

// A clock that is set back, in the middle of a pass or while a target waits, makes
// nobody wait for longer.
func TestLoop_clockThatIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back time.Duration
		now := func() time.Time { return time.Now().Add(-back) }
		visits := 0
		l := &Loop{
			Interval: time.Second, Now: now,
			List: func(context.Context) ([]Target, error) {
				return []Target{looker{"a", func() error {
					visits++
					back += time.Hour
					return nil
				}}, looker{"b", func() error { return &Wait{Until: now().Add(30 * time.Second)} }}}, nil
			},
			Done: func(Result) {},
		}
		ctx, cancel := context.WithTimeout(t.Context(), 9500*time.Millisecond)
		defer cancel()
		_ = l.Run(ctx)
		if visits != 10 {
			t.Errorf("%d visits in 10 seconds, want one a second", visits)
		}
		waits := 0
		l = &Loop{
			Interval: time.Second, Now: now,
			List: func(context.Context) ([]Target, error) {
				return []Target{looker{"b", func() error { waits++; return &Wait{Until: now().Add(time.Hour)} }}}, nil
			},
			Done: func(Result) {},
		}
		l.Pass(t.Context())
		back += time.Hour
		l.Pass(t.Context())
		if waits != 2 {
			t.Errorf("%d visits, want 2: the clock was set back to before the Wait", waits)
		}
	})
}

func TestLoop_failedListIsAResult(t *testing.T) {
	var got []string
	l := &Loop{
		Interval: time.Second, Now: time.Now,
		List: func(context.Context) ([]Target, error) { return nil, errors.New("no folder") },
		Done: func(r Result) { got = append(got, fmt.Sprintf("%q %v", r.Target, r.Err)) },
	}
	l.Pass(t.Context())
	if want := `"" no folder`; strings.Join(got, "|") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLoop_doAndCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		visits, waiting := 0, true
		l := &Loop{
			Interval: time.Hour, Now: time.Now,
			List: func(context.Context) ([]Target, error) {
				return []Target{looker{"a", func() error {
					visits++
					if waiting {
						return &Wait{Until: time.Now().Add(time.Hour), Reason: "cooling"}
					}
					return nil
				}}}, nil
			},
			Done: func(Result) {},
		}
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
		l = &Loop{
			Interval: time.Hour, Now: time.Now,
			List: func(context.Context) ([]Target, error) {
				return []Target{
					looker{"a", func() error {
						go func() {
							called <- l.Call(t.Context(), func(context.Context) { log = append(log, "call") })
						}()
						synctest.Wait()
						return nil
					}},
					looker{"b", nil},
				}, nil
			},
			Done: func(r Result) { log = append(log, r.Target) },
		}
		l.Pass(t.Context())
		if err := <-called; err != nil || strings.Join(log, " ") != "a call b" {
			t.Errorf("order %q, %v", log, err)
		}
	})
}

func TestLoop_deadlineOfAVisit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got error
		l := &Loop{
			Deadline: time.Second, Interval: time.Hour, Now: time.Now,
			List: func(context.Context) ([]Target, error) { return []Target{hang{}}, nil },
			Done: func(r Result) { got = r.Err },
		}
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
		wake := make(chan struct{}, 1)
		var mu sync.Mutex
		var passes []time.Duration
		seen := func() []time.Duration {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(passes)
		}
		l := Loop{
			Interval: time.Hour, Now: time.Now, Wake: wake, Done: func(Result) {},
			List: func(context.Context) ([]Target, error) {
				mu.Lock()
				defer mu.Unlock()
				passes = append(passes, time.Since(start))
				return nil, nil
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = l.Run(ctx) }()
		synctest.Wait()
		<-time.After(time.Second)
		for range 5 { // a flood: the first at once, the rest in one pass a pause later
			wake <- struct{}{}
			synctest.Wait()
		}
		<-time.After(10 * time.Second)
		want := []time.Duration{0, time.Second, time.Second + pause}
		if got := seen(); !slices.Equal(got, want) {
			t.Errorf("passes at %v, want %v", got, want)
		}
		<-time.After(time.Hour)
		if got := seen(); len(got) != 4 {
			t.Errorf("passes at %v: the interval counts from the last", got)
		}
	})
}
