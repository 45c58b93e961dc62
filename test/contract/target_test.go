package contract

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/drift"
)

// sample is a target that keeps to the contract, but for what a test changes.
type sample struct {
	id      string
	observe func(ctx context.Context) (declared, observed drift.State, err error)
}

func (s *sample) ID() string { return s.id }

func (s *sample) Observe(ctx context.Context) (declared, observed drift.State, err error) {
	return s.observe(ctx)
}

// trusting takes what was not observed for what was declared.
type trusting struct{ sample }

func (trusting) Compare(declared, observed drift.State) drift.Report {
	r := drift.Compare(declared, observed)
	for i := range r {
		if r[i].Verdict == drift.NotRead {
			r[i].Verdict = drift.Same
		}
	}
	return r
}

func leaf(value any, path ...string) drift.Leaf { return drift.Leaf{Path: path, Value: value} }

func both(s drift.State) func(context.Context) (declared, observed drift.State, err error) {
	return func(context.Context) (drift.State, drift.State, error) { return s, s, nil }
}

// good has every legal form.
func good() *sample {
	return &sample{"good", func(context.Context) (declared, observed drift.State, err error) {
		return drift.State{
				leaf("a", "text"), leaf(nil, "none"), leaf(true, "bool"), leaf(int64(1), "int"), leaf([]string{"a"}, "list"),
				leaf(drift.NewSecret([]byte("s")), "secret"), leaf(drift.Skip{Reason: "not ours"}, "skipped"),
				leaf("b", "below", "unknown"), leaf("c", "nowhere"),
			}, drift.State{
				leaf("a", "text"), leaf(nil, "none"), leaf(false, "bool"), leaf(int64(1), "int"), leaf([]string{"b"}, "list"),
				leaf(drift.NewSecret([]byte("t")), "secret"), leaf("x", "skipped"),
				leaf(drift.Unknown{Kind: drift.Permission, Reason: "may not"}, "below"), leaf("more", "undeclared"),
			}, nil
	}}
}

type broken struct {
	name string
	make func(root string, run command.Runner) []drift.Target
	want string // in the suite's output; empty: the suite passes
}

func brokenTargets() []broken {
	one := func(f func(root string, run command.Runner, ctx context.Context) (declared, observed drift.State, err error)) func(string, command.Runner) []drift.Target {
		return func(root string, run command.Runner) []drift.Target {
			return []drift.Target{&sample{"x", func(ctx context.Context) (declared, observed drift.State, err error) { return f(root, run, ctx) }}}
		}
	}
	state := func(s drift.State) func(string, command.Runner) []drift.Target {
		return func(string, command.Runner) []drift.Target { return []drift.Target{&sample{"x", both(s)}} }
	}
	var calls atomic.Int64
	return []broken{
		{"good", func(string, command.Runner) []drift.Target { return []drift.Target{good()} }, ""},
		{"none", func(string, command.Runner) []drift.Target { return nil }, "nothing is tested"},
		{"one ID twice", func(string, command.Runner) []drift.Target { return []drift.Target{good(), good()} }, "two targets have the ID"},
		{"an int that is no int64", state(drift.State{leaf(1, "n")}), "not a legal form"},
		{"an unknown of no kind", state(drift.State{leaf(drift.Unknown{Kind: "puzzling", Reason: "?"}, "n")}), "without a kind or a reason"},
		{"a skip without a reason", state(drift.State{leaf(drift.Skip{}, "n")}), "skipped without a reason"},
		{"an empty segment", state(drift.State{leaf("a", "n", "")}), "empty segment"},
		{"declared twice", state(drift.State{leaf("a", "n"), leaf("a", "n")}), "declares n twice"},
		{"another answer each time", one(func(string, command.Runner, context.Context) (declared, observed drift.State, err error) {
			return nil, drift.State{leaf(calls.Add(1), "n")}, nil
		}), "not the same the second time"},
		{"writes", one(func(root string, _ command.Runner, _ context.Context) (declared, observed drift.State, err error) {
			return nil, nil, os.WriteFile(filepath.Join(root, "seen"), nil, 0o600)
		}), "changed the tree"},
		{"writes and tidies up", one(func(root string, _ command.Runner, _ context.Context) (declared, observed drift.State, err error) {
			tmp := filepath.Join(root, "tmp")
			return nil, nil, errors.Join(os.WriteFile(tmp, nil, 0o600), os.Remove(tmp))
		}), "changed the tree"},
		{"runs a command", one(func(_ string, run command.Runner, ctx context.Context) (declared, observed drift.State, err error) {
			_, _ = run.Run(ctx, command.Cmd{Argv: []string{"touch", "x"}})
			return nil, nil, nil
		}), "no query were tried, the last: touch x"},
		{"hides that it was cancelled", one(func(_ string, _ command.Runner, ctx context.Context) (declared, observed drift.State, err error) {
			if ctx.Err() != nil {
				return nil, nil, errors.New("no luck")
			}
			return nil, nil, nil
		}), "hides that it was cancelled"},
		{"takes silence for an answer", func(string, command.Runner) []drift.Target {
			return []drift.Target{&trusting{sample{"x", both(drift.State{leaf("a", "n")})}}}
		}, `its verdict is "same"`},
	}
}

// TestTarget_catches runs the suite in a process of its own on targets that
// break one rule each: a suite that nothing fails would prove nothing.
func TestTarget_catches(t *testing.T) {
	for _, b := range brokenTargets() {
		t.Run(b.name, func(t *testing.T) {
			if os.Getenv("KEEL_TEST_BROKEN") == b.name {
				root := t.TempDir()
				Target(t, Targets{Root: root, New: func(_ testing.TB, run command.Runner) []drift.Target { return b.make(root, run) }})
				return
			}
			out, err := child(t, b.name)
			switch {
			case b.want == "" && err != nil:
				t.Errorf("the suite fails: %v\n%s", err, out)
			case b.want != "" && err == nil:
				t.Errorf("the suite passes, want %q", b.want)
			case !strings.Contains(out, b.want):
				t.Errorf("the suite does not say %q:\n%s", b.want, out)
			}
		})
	}
}

// child runs the calling subtest in a new process, which knows by the
// environment which broken implementation it is for.
func child(t *testing.T, broken string) (out string, err error) {
	t.Helper()
	levels := strings.Split(t.Name(), "/")
	for i, l := range levels {
		levels[i] = "^" + regexp.QuoteMeta(l) + "$"
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+strings.Join(levels, "/"), "-test.v")
	cmd.Env = append(os.Environ(), "KEEL_TEST_BROKEN="+broken)
	b, err := cmd.CombinedOutput()
	return string(b), err
}
