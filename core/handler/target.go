package handler

import (
	"context"
	"maps"
	"strings"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/host"
)

// A Machine is an open machine, and what is remembered of it until Forget.
type Machine struct {
	root string
	tree *host.Tree
	run  command.Runner
	pass *command.Pass
}

// NewMachine is the machine at root, which tree has open and run reaches. Who opened
// tree closes it.
func NewMachine(root string, tree *host.Tree, run command.Runner) *Machine {
	return &Machine{root: root, tree: tree, run: run, pass: command.NewPass(run)}
}

// Forget drops what is remembered: after anything was changed by others, and when a
// new pass begins.
func (m *Machine) Forget() {
	m.pass.Forget()
	m.tree.Forget()
}

// A Spec is one setting of a machine.
type Spec struct {
	ID        string
	Handler   Handler
	Params    map[string]string
	Sensitive bool
	Others    func() (claims []string, known bool) // nil: nothing is known of others
	Note      func(sentence string)                // nil: what the handler notes is dropped
}

// Target presents a setting to the engine as one step around Ensure.
func (m *Machine) Target(s Spec) drift.Planner {
	s.Params = maps.Clone(s.Params)
	if s.Others == nil {
		s.Others = func() ([]string, bool) { return nil, false }
	}
	if s.Note == nil {
		s.Note = func(string) {}
	}
	return &target{machine: m, spec: s}
}

type target struct {
	machine *Machine
	spec    Spec
	// ensured answers the one look that follows an Ensure in the same run, for a
	// handler that cannot look.
	ensured bool
}

func (t *target) ID() string { return t.spec.ID }

// Forget has the next look ask the machine again.
func (t *target) Forget() { t.machine.pass.Forget() }

func (t *target) look() Look {
	return Look{
		ID: t.spec.ID, Params: t.spec.Params, Files: &t.machine.tree.View, Query: command.NewReadOnly(t.machine.pass),
		Sensitive: t.spec.Sensitive, Others: t.spec.Others,
	}
}

func (t *target) Observe(ctx context.Context) (declared, observed drift.State, err error) {
	declared, observed, err = t.spec.Handler.Observe(ctx, t.look())
	if t.ensured {
		t.ensured, observed = false, declared
	}
	return declared, observed, err
}

func (t *target) Plan(_ context.Context, r drift.Report) ([]drift.Step, error) {
	step := drift.Step{Text: text(t.spec, r), Blind: blind(t.spec.Handler)}
	for _, f := range r {
		if f.Verdict != drift.NotDeclared {
			step.Writes = append(step.Writes, f.Path)
		}
	}
	step.Do = func(ctx context.Context) (bool, error) {
		defer t.Forget()
		changed, err := t.spec.Handler.Ensure(ctx, Call{
			Look: t.look(), Tree: t.machine.tree.Noting(t.spec.Note), Run: t.machine.run, Note: t.spec.Note, root: t.machine.root,
		})
		t.ensured = err == nil && step.Blind
		return changed, err
	}
	return []drift.Step{step}, nil
}

// text is what a step around Ensure says it does: what it is about, and what of
// that is not as declared. Where nothing is declared to be there it removes.
func text(s Spec, r drift.Report) string {
	what := s.Handler.Name()
	if d, ok := s.Handler.(Described); ok {
		if claims := d.Claims(s.Params); len(claims) > 0 {
			what = claims[0]
		}
	}
	verb := "remove"
	var leaves []string
	for _, f := range r {
		if f.Verdict != drift.NotDeclared && f.Declared != nil {
			verb = "ensure"
		}
		if f.Verdict == drift.Drift || f.Verdict == drift.NotRead {
			leaves = append(leaves, f.Path.String())
		}
	}
	return verb + " " + what + " (" + strings.Join(leaves, ", ") + ")"
}
