package contract

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tlspu/keel/core/drift"
)

// notes is a target whose machine is a file of lines, one a step.
type notes struct {
	file string
	want []string
}

func (n notes) ID() string { return "notes" }

func (n notes) read() []string {
	b, err := os.ReadFile(n.file)
	if err != nil {
		return nil
	}
	return strings.Fields(string(b))
}

func (n notes) Observe(context.Context) (declared, observed drift.State, err error) {
	return drift.State{leaf(n.want, "lines")}, drift.State{leaf(n.read(), "lines")}, nil
}

func (n notes) Plan(context.Context, drift.Report) ([]drift.Step, error) {
	var steps []drift.Step
	for _, line := range n.want[len(n.read()):] {
		steps = append(steps, drift.Step{Field: "lines", Text: "add " + line, Writes: []drift.Path{{"lines"}}, Do: func(context.Context) (bool, error) {
			return true, n.add(line)
		}})
	}
	return steps, nil
}

func (n notes) add(line string) error {
	f, err := os.OpenFile(n.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

// goodCrashes adds two lines, which must be there once each.
func goodCrashes() Crashes {
	at := func(dir string) notes { return notes{filepath.Join(dir, "lines"), []string{"config", "restart"}} }
	return Crashes{
		Setup: func(testing.TB, string) {},
		Visit: func(ctx context.Context, dir string, hook drift.Hook) drift.Result {
			return drift.Ensure(ctx, at(dir), drift.Options{Hook: hook})
		},
		Check: func(t testing.TB, dir string) {
			if got := strings.Join(at(dir).read(), " "); got != "config restart" {
				t.Errorf("machine: %q, want config restart", got)
			}
		},
	}
}

func TestCrash(t *testing.T) {
	good := goodCrashes()
	tests := []struct {
		name   string
		change func(c *Crashes)
		want   string // in the suite's output; empty: the suite passes
	}{
		{"good", func(*Crashes) {}, ""},
		{"a restart that is lost", func(c *Crashes) {
			c.Visit = func(ctx context.Context, dir string, hook drift.Hook) drift.Result {
				n := notes{filepath.Join(dir, "lines"), []string{"config", "restart"}}
				if len(n.read()) > 0 {
					return drift.Result{} // configured already, it thinks
				}
				return good.Visit(ctx, dir, hook)
			}
		}, `machine: "config", want config restart`},
		{"a restart too many", func(c *Crashes) {
			c.Visit = func(ctx context.Context, dir string, hook drift.Hook) drift.Result {
				n := notes{filepath.Join(dir, "lines"), []string{"config", "restart"}}
				res := good.Visit(ctx, dir, hook)
				if res.Changed && len(res.Steps) < 2 {
					res.Err = n.add("restart")
				}
				return res
			}
		}, `machine: "config restart restart", want config restart`},
		{"a visit that cannot go on after a death", func(c *Crashes) {
			c.Visit = func(ctx context.Context, dir string, hook drift.Hook) drift.Result {
				lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_EXCL, 0o600)
				if err != nil {
					return drift.Result{Err: err}
				}
				defer func() { _ = os.Remove(lock.Name()) }()
				return good.Visit(ctx, dir, hook)
			}
		}, "the next visit: open "},
		{"never done", func(c *Crashes) {
			c.Visit = func(ctx context.Context, dir string, hook drift.Hook) drift.Result {
				res := good.Visit(ctx, dir, hook)
				res.Changed = true
				return res
			}
		}, "the visit after it: {Calls:[] Changed:true Err:}, want that nothing is left to do"},
		{"no steps", func(c *Crashes) {
			c.Visit = func(context.Context, string, drift.Hook) drift.Result { return drift.Result{} }
		}, "never called the hook"},
		{"a failure without any death", func(c *Crashes) {
			c.Visit = func(context.Context, string, drift.Hook) drift.Result {
				return drift.Result{Err: errors.New("no disk")}
			}
		}, "undisturbed: no disk"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := goodCrashes()
			tt.change(&c)
			if os.Getenv("KEEL_TEST_BROKEN") != "" {
				Crash(t, c)
				return
			}
			out, err := child(t, "crash")
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("the suite fails: %v\n%s", err, out)
			case tt.want == "" && strings.Count(out, "--- PASS: TestCrash/good/killed") != 4:
				t.Errorf("the suite does not kill four times:\n%s", out)
			case tt.want != "" && err == nil:
				t.Errorf("the suite passes, want %q", tt.want)
			case !strings.Contains(out, tt.want):
				t.Errorf("the suite does not say %q:\n%s", tt.want, out)
			}
		})
	}
}
