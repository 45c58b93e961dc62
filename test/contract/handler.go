package contract

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/core/host"
	"github.com/tlspu/keel/test/parts"
)

// Handlers says how to make the handler under test and what to give it.
type Handlers struct {
	// New makes the handler, as plugins/all does.
	New func() handler.Handler
	// Machine makes the runner that plays, or is, the machine at root; nil when
	// the handler runs no commands.
	Machine func(t testing.TB, root string) command.Runner
	// Good cases must work; together they use every parameter.
	Good []Good
	// Bad cases must be refused.
	Bad []Bad
	// Doc is the page that documents the handler, from the test's folder; it
	// holds Table of its parameters.
	Doc string
	// May lists folders of the machine that Ensure may change beside its claims,
	// such as a package manager's database.
	May []string
}

// Good is a set of parameters and a machine on which they can be met.
type Good struct {
	Name   string
	Params map[string]string
	// Setup brings an empty folder to the machine before the first Ensure; nil
	// leaves it empty.
	Setup func(t testing.TB, root string)
	// Met says that Setup leaves nothing to do: the first Ensure is false too.
	Met bool
	// Sensitive marks the calls.
	Sensitive bool
	// Needs names parts this case cannot do without.
	Needs []string
}

// Bad is a set of parameters that must be refused with an error naming Key.
type Bad struct {
	Name   string
	Params map[string]string
	Key    string
}

// described is what every handler in plugins/all is.
type described interface {
	handler.Handler
	handler.Described
}

// Handler holds a handler to its contract.
func Handler(t *testing.T, c Handlers) {
	t.Helper()
	s := &handlers{c}
	t.Run("is Described under one lower-case name", s.name)
	t.Run("Params are complete", s.params)
	t.Run("the page holds the table of Params", s.documented)
	t.Run("a missing required param is named", s.required)
	t.Run("a bad param is named and touches nothing", s.bad)
	for _, g := range c.Good {
		t.Run(g.Name, func(t *testing.T) {
			parts.Need(t, g.Needs...)
			t.Run("Validate accepts it, and what it need not judge", func(t *testing.T) { s.valid(t, g) })
			t.Run("Ensure twice is true then false", func(t *testing.T) { s.twice(t, g) })
			t.Run("Observe after Ensure is the same", func(t *testing.T) { s.same(t, g) })
			t.Run("Claims cover what changes, and nothing outside root does", func(t *testing.T) { s.claims(t, g) })
			t.Run("before Ensure", func(t *testing.T) { s.target(t, g, false) })
			t.Run("after Ensure", func(t *testing.T) { s.target(t, g, true) })
			t.Run("a cancelled context returns soon and changes nothing", func(t *testing.T) { s.cancelled(t, g) })
			t.Run("a failing Runner is an error and changed is the truth", func(t *testing.T) { s.failing(t, g) })
			t.Run("a failing Runner is never an answer", func(t *testing.T) { s.unasked(t, g) })
			t.Run("a sensitive call shows no text", func(t *testing.T) { s.secret(t, g) })
		})
	}
}

type handlers struct{ Handlers }

// machine is one prepared machine of a case.
type machine struct {
	handler   described
	outer     string // folder around root, in which nothing may change
	root      string
	run       *faults
	params    map[string]string
	sensitive bool
}

// prepare makes a new machine for a case.
func (s *handlers) prepare(t testing.TB, g Good) machine {
	t.Helper()
	outer := t.TempDir()
	m := machine{outer: outer, root: filepath.Join(outer, "machine"), params: maps.Clone(g.Params), run: &faults{}}
	for _, dir := range []string{m.root, filepath.Join(outer, "etc")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if g.Setup != nil {
		g.Setup(t, m.root)
	}
	if s.Machine != nil {
		m.run.next = s.Machine(t, m.root)
	}
	m.handler = s.make(t)
	m.sensitive = g.Sensitive
	return m
}

func (s *handlers) make(t testing.TB) described {
	t.Helper()
	h, ok := s.New().(described)
	if !ok {
		t.Fatal("the handler is not handler.Described")
	}
	return h
}

// call is a call of the handler, as the engine would make it.
func (m machine) call(t testing.TB) handler.Call {
	t.Helper()
	c := Call(t, m.root, m.run, m.params)
	c.Sensitive = m.sensitive
	return c
}

// observe looks at the machine, as the engine would.
func (m machine) observe(ctx context.Context, t testing.TB) (declared, observed drift.State, err error) {
	t.Helper()
	return m.handler.Observe(ctx, m.call(t).Look)
}

func (m machine) ensure(ctx context.Context, t testing.TB) (changed bool, err error) {
	t.Helper()
	return m.handler.Ensure(ctx, m.call(t))
}

// Open opens the machine at root until the test ends.
func Open(t testing.TB, root string) *host.Tree {
	t.Helper()
	tree, err := host.OpenTree(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.Close(); err != nil {
			t.Errorf("close the tree of %s: %v", root, err)
		}
	})
	return tree
}

// Machine opens the machine at root, whose commands run has, until the test ends. A
// run that is nil has none.
func Machine(t testing.TB, root string, run command.Runner) *handler.Machine {
	t.Helper()
	return handler.NewMachine(root, Open(t, root), run)
}

// Call is a call of a handler on the machine at root, open until the test ends.
func Call(t testing.TB, root string, run command.Runner, params map[string]string) handler.Call {
	t.Helper()
	tree := Open(t, root)
	return handler.Call{
		Look: handler.Look{
			ID: "sample", Params: params, Files: &tree.View, Query: command.NewReadOnly(command.NewPass(run)),
			Others: func() ([]string, bool) { return nil, false },
		},
		Tree: tree, Run: run, Note: func(sentence string) { t.Logf("noted: %s", sentence) },
	}
}

// View opens the machine at root until the test ends.
func View(t testing.TB, root string) *host.View {
	t.Helper()
	view, err := host.OpenView(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := view.Close(); err != nil {
			t.Errorf("close the view of %s: %v", root, err)
		}
	})
	return view
}
