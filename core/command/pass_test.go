package command_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/tlspu/keel/core/command"
)

// runFunc is a Runner made of a function.
type runFunc func(ctx context.Context, c command.Cmd) ([]byte, error)

func (f runFunc) Run(ctx context.Context, c command.Cmd) ([]byte, error) { return f(ctx, c) }

func query(argv ...string) command.Cmd { return command.Cmd{Argv: argv, Query: true} }

// counting answers each command with how many ran before it.
type counting struct {
	mu sync.Mutex
	n  int
}

func (r *counting) Run(_ context.Context, c command.Cmd) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	if c.Argv[0] == "fail" {
		return nil, &command.ExitError{Cmd: c, Code: r.n}
	}
	return fmt.Appendf(nil, "%d", r.n), nil
}

func TestPass_remembers(t *testing.T) {
	write := command.Cmd{Argv: []string{"write"}}
	failedWrite := command.Cmd{Argv: []string{"fail"}}
	tests := []struct {
		name string
		run  []command.Cmd
		want string // the last answer
	}{
		{"an equal query", []command.Cmd{query("a"), query("a")}, "1"},
		{"across other queries", []command.Cmd{query("a"), query("b"), query("a")}, "1"},
		{"not across a write", []command.Cmd{query("a"), write, query("a")}, "3"},
		{"not across a write that failed", []command.Cmd{query("a"), failedWrite, query("a")}, "3"},
		{"not what is no query", []command.Cmd{write, write}, "2"},
		{"not another argument", []command.Cmd{query("a", "b"), query("a b")}, "2"},
		{"not another split", []command.Cmd{query("a", "bc"), query("ab", "c")}, "2"},
		{"not another environment", []command.Cmd{query("a"), {Argv: []string{"a"}, Env: []string{"B=1"}, Query: true}}, "2"},
		{"not an argument as environment", []command.Cmd{query("a", "b"), {Argv: []string{"a"}, Env: []string{"b"}, Query: true}}, "2"},
		{"not another input", []command.Cmd{query("a"), {Argv: []string{"a"}, Stdin: []byte("x"), Query: true}}, "2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := command.NewPass(new(counting))
			var out []byte
			for _, c := range tt.run {
				out, _ = p.Run(t.Context(), c)
			}
			if string(out) != tt.want {
				t.Errorf("got answer %s, want %s", out, tt.want)
			}
		})
	}
}

func TestPass_forgets(t *testing.T) {
	p := command.NewPass(new(counting))
	first, _ := p.Run(t.Context(), query("a"))
	first[0] = 'x' // what a caller does to its answer is its own
	if again, _ := p.Run(t.Context(), query("a")); string(again) != "1" {
		t.Errorf("got %s, want the first answer", again)
	}
	p.Forget()
	if later, _ := p.Run(t.Context(), query("a")); string(later) != "2" {
		t.Errorf("after Forget: got %s, want a new answer", later)
	}
}

func TestPass_doesNotRememberErrors(t *testing.T) {
	p := command.NewPass(new(counting))
	for want := 1; want <= 2; want++ {
		_, err := p.Run(t.Context(), query("fail"))
		var exit *command.ExitError
		if !errors.As(err, &exit) || exit.Code != want {
			t.Errorf("got %v, want code %d", err, want)
		}
	}
}

func TestPass_asksOnceInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next, release := new(counting), make(chan struct{})
		p := command.NewPass(runFunc(func(ctx context.Context, c command.Cmd) ([]byte, error) {
			<-release
			return next.Run(ctx, c)
		}))
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				if out, err := p.Run(t.Context(), query("a")); string(out) != "1" || err != nil {
					t.Errorf("got %s, %v", out, err)
				}
			})
		}
		synctest.Wait()
		close(release)
		wait.Wait()
	})
}

func TestPass_cancelOfTheFirstCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := command.NewPass(runFunc(func(ctx context.Context, _ command.Cmd) ([]byte, error) {
			select {
			case <-release:
				return []byte("answer"), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}))
		ctx, cancel := context.WithCancel(t.Context())
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { _, err := p.Run(ctx, query("a")); first <- err }()
		synctest.Wait()
		go func() { _, err := p.Run(t.Context(), query("a")); second <- err }()
		synctest.Wait()
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("first: got %v, want it cancelled", err)
		}
		close(release)
		if err := <-second; err != nil {
			t.Errorf("second: %v, want the answer", err)
		}
	})
}

func TestPass_cancelOfTheLastCallerEndsTheQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := 0
		p := command.NewPass(runFunc(func(ctx context.Context, _ command.Cmd) ([]byte, error) {
			if ended > 0 {
				return []byte("new"), nil
			}
			<-ctx.Done()
			ended++
			return nil, ctx.Err()
		}))
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() { _, err := p.Run(ctx, query("a")); first <- err }()
		synctest.Wait()
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) || ended != 1 {
			t.Errorf("got %v with %d ended, want it cancelled and the query ended", err, ended)
		}
		if out, err := p.Run(t.Context(), query("a")); string(out) != "new" || err != nil {
			t.Errorf("next caller: got %s, %v, want a new query", out, err)
		}
	})
}

func TestPass_answerAskedBeforeAWriteIsNotRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next, release := new(counting), make(chan struct{})
		p := command.NewPass(runFunc(func(ctx context.Context, c command.Cmd) ([]byte, error) {
			out, err := next.Run(ctx, c)
			if string(out) == "1" {
				<-release
			}
			return out, err
		}))
		early := make(chan string, 1)
		go func() { out, _ := p.Run(t.Context(), query("a")); early <- string(out) }()
		synctest.Wait()
		if _, err := p.Run(t.Context(), command.Cmd{Argv: []string{"write"}}); err != nil {
			t.Fatal(err)
		}
		if out, _ := p.Run(t.Context(), query("a")); string(out) != "3" {
			t.Errorf("after the write: got %s, want a query of its own", out)
		}
		close(release)
		if got := <-early; got != "1" {
			t.Errorf("early caller: got %s, want its own answer", got)
		}
		if out, _ := p.Run(t.Context(), query("a")); string(out) != "3" {
			t.Errorf("later: got %s, want the answer from after the write", out)
		}
	})
}

func TestPass_panicIsAnError(t *testing.T) {
	p := command.NewPass(runFunc(func(context.Context, command.Cmd) ([]byte, error) { panic("boom") }))
	_, err := p.Run(t.Context(), query("a"))
	if want := "run a: panic: boom"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Run: got %v, want an error that holds %q", err, want)
	}
}
