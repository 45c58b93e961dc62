package contract

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/drift"
)

// Targets says how to make the targets under test and what must stay as it is
// while they look.
type Targets struct {
	// New makes the targets over a runner that refuses whatever is no query. It
	// is called several times and must not share what it makes between calls.
	New func(t testing.TB, run command.Runner) []drift.Target
	// Run answers the targets' queries; nil when they run no commands.
	Run command.Runner
	// Root is the folder of the machine they look at; empty when there is none.
	Root string
	// Drifted, when set, gives a new target that drifts, and a function that makes
	// the machine as declared behind the target's back.
	Drifted func(t testing.TB) (x drift.Planner, fix func())
	// State fingerprints a machine that is not a folder, such as a driver's
	// memory; nil when there is none.
	State func() string
}

// soon is how long a call with a cancelled context may take. It is generous for
// slow machines under -race; a call that hangs takes far longer.
const soon = 10 * time.Second

// Target holds targets to what the engine expects of every one: looking changes
// nothing, gives the same answer twice and beside others, keeps to the legal
// forms, and never passes silence for an answer.
func Target(t *testing.T, c Targets) {
	t.Helper()
	run := &queries{next: c.Run}
	t.Run("IDs name one target each", func(t *testing.T) { targetIDs(t, c.New(t, run)) })
	t.Run("Observe gives legal leaves once each", func(t *testing.T) { targetLeaves(t, c.New(t, run)) })
	t.Run("Observe twice is equal", func(t *testing.T) { targetTwice(t, c.New(t, run)) })
	t.Run("Observe is safe beside others", func(t *testing.T) { targetBeside(t, c.New(t, run)) })
	t.Run("Observe changes nothing", func(t *testing.T) { targetReadOnly(t, c, run) })
	t.Run("Observe returns soon when cancelled", func(t *testing.T) { targetCancelled(t, c.New(t, run)) })
	t.Run("a leaf that is not observed is unknown", func(t *testing.T) { targetSilence(t, c.New(t, run)) })
	if c.Drifted != nil {
		t.Run("Ensure acts on what it sees under the lock", func(t *testing.T) { targetFresh(t, c) })
	}
}

func targetIDs(t *testing.T, ts []drift.Target) {
	if len(ts) == 0 {
		t.Fatal("New gave no target: nothing is tested")
	}
	seen := map[string]bool{}
	for _, x := range ts {
		if x.ID() == "" {
			t.Error("a target has no ID")
		}
		if seen[x.ID()] {
			t.Errorf("two targets have the ID %q", x.ID())
		}
		seen[x.ID()] = true
	}
}

func targetLeaves(t *testing.T, ts []drift.Target) {
	for _, x := range ts {
		declared, observed := observe(t, x)
		if err := legal(declared); err != nil {
			t.Errorf("%s declared: %v", x.ID(), err)
		}
		if err := legal(observed); err != nil {
			t.Errorf("%s observed: %v", x.ID(), err)
		}
		for i, l := range declared {
			if slices.ContainsFunc(declared[:i], func(o drift.Leaf) bool { return slices.Equal(o.Path, l.Path) }) {
				t.Errorf("%s declares %v twice", x.ID(), l.Path)
			}
		}
	}
}

// legal checks one side.
func legal(s drift.State) error {
	var errs []error
	for i, l := range s {
		if len(l.Path) == 0 || slices.Contains(l.Path, "") {
			errs = append(errs, fmt.Errorf("leaf %d has no path, or an empty segment in it: %q", i, l.Path))
		}
		switch v := l.Value.(type) {
		case drift.Unknown:
			if !slices.Contains(kinds(), v.Kind) || v.Reason == "" {
				errs = append(errs, fmt.Errorf("%v is unknown without a kind or a reason: %+v", l.Path, v))
			}
		case drift.Skip:
			if v.Reason == "" {
				errs = append(errs, fmt.Errorf("%v is skipped without a reason", l.Path))
			}
		default:
			if !reflect.DeepEqual(drift.Canon(v), v) {
				errs = append(errs, fmt.Errorf("%v holds a %T, which is not a legal form: pass it through drift.Canon", l.Path, v))
			}
		}
	}
	return errors.Join(errs...)
}

func kinds() []string {
	return []string{drift.Permission, drift.Absent, drift.Malformed, drift.Offline, drift.Timeout, drift.Unsupported, drift.Bug}
}

func targetTwice(t *testing.T, ts []drift.Target) {
	for _, x := range ts {
		declared, observed := observe(t, x)
		again, seen := observe(t, x)
		sameState(t, x.ID()+" declared", declared, again)
		sameState(t, x.ID()+" observed", observed, seen)
	}
}

func targetBeside(t *testing.T, ts []drift.Target) {
	alone := make([]drift.State, len(ts))
	for i, x := range ts {
		_, alone[i] = observe(t, x)
	}
	var wg sync.WaitGroup
	for range 4 {
		for i, x := range ts {
			wg.Go(func() {
				_, observed, err := x.Observe(t.Context())
				if err != nil {
					t.Errorf("observe %s beside others: %v", x.ID(), err)
					return
				}
				sameState(t, x.ID()+" beside others", alone[i], observed)
			})
		}
	}
	wg.Wait()
}

func targetReadOnly(t *testing.T, c Targets, run *queries) {
	var before Tree
	if c.Root != "" {
		before = Snapshot(t, c.Root)
	}
	var state string
	if c.State != nil {
		state = c.State()
	}
	ts := c.New(t, run)
	for _, x := range ts {
		observe(t, x)
		if r := drift.Check(t.Context(), x); r.Changed || len(r.Steps) > 0 {
			t.Errorf("check of %s acted: %+v", x.ID(), r.Steps)
		}
		if p, ok := x.(drift.Planner); ok {
			drift.Ensure(t.Context(), p, drift.Options{DryRun: true})
		}
	}
	if n := run.refused.Load(); n > 0 {
		t.Errorf("%d commands that are no query were tried, the last: %v", n, run.last.Load())
	}
	if c.Root != "" {
		before.Unchanged(t, c.Root, "looking")
	}
	if c.State != nil {
		if diff := cmp.Diff(state, c.State()); diff != "" {
			t.Errorf("looking changed the machine (-before +after):\n%s", diff)
		}
	}
}

func targetCancelled(t *testing.T, ts []drift.Target) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, x := range ts {
		within(t, "observe "+x.ID(), func() {
			// Either is right: what is already known, or the context's error.
			if _, _, err := x.Observe(ctx); err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("observe %s when cancelled: %v, which hides that it was cancelled", x.ID(), err)
			}
		})
	}
}

// targetSilence deletes the answer for each observed path in turn. Whatever was
// declared there must become unknown: neither same nor drift.
func targetSilence(t *testing.T, ts []drift.Target) {
	for _, x := range ts {
		declared, observed := observe(t, x)
		compare := drift.Compare
		if c, ok := x.(drift.Comparer); ok {
			compare = c.Compare
		}
		for _, gone := range observed {
			there := func(l drift.Leaf) bool { return slices.Equal(l.Path, gone.Path) }
			if !slices.ContainsFunc(declared, there) || skipped(declared, gone.Path) {
				continue
			}
			answered := false
			for _, f := range compare(declared, slices.DeleteFunc(slices.Clone(observed), there)) {
				if !slices.Equal(f.Path, gone.Path) {
					continue
				}
				answered = true
				if f.Verdict != drift.NotRead {
					t.Errorf("%s: with %v not observed its verdict is %q, want %q", x.ID(), f.Path, f.Verdict, drift.NotRead)
				}
			}
			if !answered {
				t.Errorf("%s: with %v not observed the report does not hold it", x.ID(), gone.Path)
			}
		}
	}
}

// targetFresh lets another process correct the drift while Ensure waits for the lock.
func targetFresh(t *testing.T, c Targets) {
	x, fix := c.Drifted(t)
	locked := false
	r := drift.Ensure(t.Context(), x, drift.Options{Lock: func(context.Context) (func(), error) {
		locked = true
		fix()
		return func() {}, nil
	}})
	switch {
	case !locked:
		t.Errorf("%s does not drift: nothing is tested: %+v", x.ID(), r)
	case r.Err != nil:
		t.Errorf("ensure %s: %v", x.ID(), r.Err)
	case len(r.Steps) > 0 || r.Changed || !r.Before.Settled():
		t.Errorf("%s acts on what it saw before the lock: %+v", x.ID(), r)
	}
}

// skipped reports whether a declared Skip covers p.
func skipped(declared drift.State, p drift.Path) bool {
	return slices.ContainsFunc(declared, func(l drift.Leaf) bool {
		_, skip := l.Value.(drift.Skip)
		return skip && l.Path.Covers(p)
	})
}

func observe(t testing.TB, x drift.Target) (declared, observed drift.State) {
	t.Helper()
	declared, observed, err := x.Observe(t.Context())
	if err != nil {
		t.Fatalf("observe %s: %v", x.ID(), err)
	}
	return declared, observed
}

// sameState may be called from any goroutine.
func sameState(t testing.TB, what string, want, got drift.State) {
	t.Helper()
	if !reflect.DeepEqual(want, got) {
		t.Errorf("%s is not the same the second time:\nfirst  %v\nsecond %v", what, want, got)
	}
}

// within fails the test when f does not return soon.
func within(t testing.TB, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(soon):
		t.Fatalf("%s: no return within %v", what, soon)
	}
}

// queries passes queries on, and refuses and counts everything else.
type queries struct {
	next    command.Runner
	refused atomic.Int64
	last    atomic.Value
}

func (q *queries) Run(ctx context.Context, c command.Cmd) ([]byte, error) {
	if !c.Query {
		q.refused.Add(1)
		q.last.Store(c.String())
		return nil, fmt.Errorf("run %s: refused, it is no query", c)
	}
	if q.next == nil {
		return nil, fmt.Errorf("run %s: this test has no machine to run it on", c)
	}
	return q.next.Run(ctx, c)
}
