package contract

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/test/recorded"
)

// Runner runs the suite that every command.Runner passes. Made is called once a
// case, with the commands that the case runs and the answers that a real
// machine gives; a Runner that runs commands for real ignores them. The
// commands are queries, found on every Unix.
func Runner(t *testing.T, made func(t *testing.T, script []recorded.Exchange) command.Runner) {
	query := func(argv ...string) command.Cmd { return command.Cmd{Argv: argv, Query: true} }
	cat := query("cat")
	cat.Stdin = []byte("in\x00put without an end of line")
	variable := query("sh", "-c", "echo $KEEL_TEST")
	variable.Env = []string{"KEEL_TEST=a b"}
	exits := func(code int, stderr string) error { return &command.ExitError{Code: code, Stderr: stderr} }

	tests := []struct {
		name string
		x    recorded.Exchange
	}{
		{"standard output, byte for byte", recorded.Exchange{Cmd: query("printf", `a\n\n`), Stdout: "a\n\n"}},
		{"no output", recorded.Exchange{Cmd: query("true")}},
		{"arguments are not a shell line", recorded.Exchange{Cmd: query("echo", "$HOME", "a  b", "*", ";", "-n"), Stdout: "$HOME a  b * ; -n\n"}},
		{"standard input, byte for byte", recorded.Exchange{Cmd: cat, Stdout: string(cat.Stdin)}},
		{"standard input is empty", recorded.Exchange{Cmd: query("cat")}},
		{"environment is added", recorded.Exchange{Cmd: variable, Stdout: "a b\n"}},
		{"standard error is not output", recorded.Exchange{Cmd: query("sh", "-c", "echo e >&2; echo o"), Stdout: "o\n"}},
		{"an exit code", recorded.Exchange{Cmd: query("false"), Err: exits(1, "")}},
		{"an exit code with output", recorded.Exchange{Cmd: query("sh", "-c", "echo o; echo e >&2; exit 3"), Stdout: "o\n", Err: exits(3, "e\n")}},
		{"a signal", recorded.Exchange{Cmd: query("sh", "-c", "kill -KILL $$"), Err: exits(137, "")}},
		{"no such command", recorded.Exchange{Cmd: query("keel-no-such-command"), Err: fs.ErrNotExist}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run := made(t, []recorded.Exchange{tt.x})
			out, err := run.Run(t.Context(), tt.x.Cmd)
			if string(out) != tt.x.Stdout {
				t.Errorf("standard output: got %q, want %q", out, tt.x.Stdout)
			}
			sameError(t, tt.x.Cmd, err, tt.x.Err)
		})
	}
	t.Run("a cancelled context runs nothing", func(t *testing.T) {
		run := made(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := run.Run(ctx, query("true")); !errors.Is(err, context.Canceled) || isExit(err) {
			t.Errorf("got %v, want it cancelled", err)
		}
	})
	t.Run("beside others", func(t *testing.T) {
		var script []recorded.Exchange
		for range 4 {
			script = append(script, recorded.Exchange{Cmd: query("echo", "a"), Stdout: "a\n"})
		}
		run, done := made(t, script), make(chan error, len(script))
		for range script {
			go func() {
				out, err := run.Run(t.Context(), query("echo", "a"))
				if err == nil && string(out) != "a\n" {
					err = errors.New("got " + string(out))
				}
				done <- err
			}()
		}
		for range script {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// sameError checks what callers branch on: whether the command ran, its code,
// its standard error, and that it is named.
func sameError(t *testing.T, c command.Cmd, got, want error) {
	t.Helper()
	if want == nil {
		if got != nil {
			t.Errorf("got error %v, want none", got)
		}
		return
	}
	wantExit, gotExit := new(command.ExitError), new(command.ExitError)
	if !errors.As(want, &wantExit) {
		if !errors.Is(got, want) || isExit(got) {
			t.Errorf("got error %v, want %v", got, want)
		}
		return
	}
	switch {
	case !errors.As(got, &gotExit):
		t.Errorf("got error %v, want an *ExitError with code %d", got, wantExit.Code)
	case gotExit.Code != wantExit.Code || gotExit.Stderr != wantExit.Stderr:
		t.Errorf("got code %d and standard error %q, want %d and %q", gotExit.Code, gotExit.Stderr, wantExit.Code, wantExit.Stderr)
	case gotExit.Cmd.String() != c.String() || !strings.Contains(got.Error(), c.Argv[0]):
		t.Errorf("got the error of %s: %v; want that of %s", gotExit.Cmd, got, c)
	}
}

func isExit(err error) bool {
	exit := new(command.ExitError)
	return errors.As(err, &exit)
}
