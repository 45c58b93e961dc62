package handler

import (
	"context"
	"maps"
	"strings"

	"github.com/tlspu/keel/core/drift"
)

// Target presents an Observer to the engine as one step around Ensure. Every
// handler in plugins/all is Observer and Described.
func Target(id string, h Observer, m Machine, root string, params map[string]string) drift.Planner {
	return &target{id, h, m, root, maps.Clone(params)}
}

type target struct {
	id      string
	handler Observer
	machine Machine
	root    string
	params  map[string]string
}

func (t *target) ID() string { return t.id }

// Forget drops the answers of the machine.
func (t *target) Forget() { t.machine.Forget() }

func (t *target) Observe(ctx context.Context) (declared, observed drift.State, err error) {
	return t.handler.Observe(ctx, t.machine, t.params)
}

func (t *target) Plan(_ context.Context, r drift.Report) ([]drift.Step, error) {
	step := drift.Step{Text: text(t.handler, t.params, r)}
	for _, f := range r {
		if f.Verdict != drift.NotDeclared {
			step.Writes = append(step.Writes, f.Path)
		}
	}
	step.Do = func(ctx context.Context) (bool, error) {
		defer t.machine.Forget()
		return t.handler.Ensure(ctx, t.root, t.params)
	}
	return []drift.Step{step}, nil
}

// text is what a step around Ensure says it does: what it is about, and what of
// that is not as declared. Where nothing is declared to be there it removes.
func text(h Handler, params map[string]string, r drift.Report) string {
	what := h.Name()
	if d, ok := h.(Described); ok {
		if claims := d.Claims(params); len(claims) > 0 {
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

// applied is the one leaf of an Opaque target.
const applied = "applied"

// Opaque presents a plain three-method Handler: one declared leaf, "applied",
// unknown until Ensure succeeded in this visit. Such a handler cannot be looked
// at, so every visit that may change something calls Ensure.
func Opaque(id string, h Handler, root string, params map[string]string) drift.Planner {
	return &opaque{id: id, handler: h, root: root, params: maps.Clone(params)}
}

type opaque struct {
	id      string
	handler Handler
	root    string
	params  map[string]string
	// ensured is set by Ensure and answers one look: the one that follows it in
	// the same visit.
	ensured bool
}

func (o *opaque) ID() string { return o.id }

func (o *opaque) Observe(context.Context) (declared, observed drift.State, err error) {
	path := drift.Path{applied}
	var answer any = drift.Unknown{
		Kind:   drift.Unsupported,
		Reason: "the handler " + o.handler.Name() + " cannot look without acting",
	}
	if o.ensured {
		o.ensured, answer = false, true
	}
	return drift.State{{Path: path, Value: true}}, drift.State{{Path: path, Value: answer}}, nil
}

func (o *opaque) Plan(_ context.Context, r drift.Report) ([]drift.Step, error) {
	return []drift.Step{{
		Text:   text(o.handler, o.params, r),
		Writes: []drift.Path{{applied}},
		Blind:  true,
		Do: func(ctx context.Context) (bool, error) {
			changed, err := o.handler.Ensure(ctx, o.root, o.params)
			o.ensured = err == nil
			return changed, err
		},
	}}, nil
}
