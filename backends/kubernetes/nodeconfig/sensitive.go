package nodeconfig

import (
	"context"
	"fmt"

	"github.com/tlspu/keel/core/drift"
)

// A sensitive target has parameters that came from a Secret, which its handler knows.
// What the handler shows of them nevertheless, in leaves, steps and errors, is hidden.
type sensitive struct {
	drift.Planner
	hiding
}

func (s sensitive) Observe(ctx context.Context) (declared, observed drift.State, err error) {
	defer s.panics()
	declared, observed, err = s.Planner.Observe(ctx)
	if err != nil {
		return nil, nil, s.err(err)
	}
	secret := map[string]bool{} // paths
	for _, state := range []drift.State{declared, observed} {
		for _, leaf := range state {
			if s.holds(drift.Text(leaf.Value)) || leaf.Shown != nil && s.holds(drift.Text(leaf.Shown)) {
				secret[leaf.Path.String()] = true
			}
		}
	}
	return s.state(declared, secret), s.state(observed, secret), nil
}

// state is a state whose secret leaves can be compared and not read.
func (s sensitive) state(state drift.State, secret map[string]bool) drift.State {
	shown := make(drift.State, len(state))
	for i, leaf := range state {
		leaf.Note = s.text(leaf.Note)
		if secret[leaf.Path.String()] {
			leaf.Value, leaf.Shown = s.value(leaf.Value), nil
		}
		shown[i] = leaf
	}
	return shown
}

func (s sensitive) value(value any) any {
	switch v := drift.Canon(value).(type) {
	case nil, drift.Secret:
		return v
	case drift.Unknown:
		v.Reason = s.text(v.Reason)
		return v
	case drift.Skip:
		v.Reason, v.Value, v.Withhold = s.text(v.Reason), nil, true
		return v
	default:
		return drift.NewSecret(fmt.Appendf(nil, "%T %q", v, v))
	}
}

func (s sensitive) Plan(ctx context.Context, r drift.Report) ([]drift.Step, error) {
	defer s.panics()
	steps, err := s.Planner.Plan(ctx, r)
	for i, step := range steps {
		steps[i].Text, steps[i].Note, steps[i].Refuse = s.text(step.Text), s.text(step.Note), s.text(step.Refuse)
		if do := step.Do; do != nil {
			steps[i].Do = func(ctx context.Context) (bool, error) {
				defer s.panics()
				changed, err := do(ctx)
				return changed, s.err(err)
			}
		}
		if undo := step.Undo; undo != nil {
			steps[i].Undo = func(ctx context.Context) error {
				defer s.panics()
				return s.err(undo(ctx))
			}
		}
	}
	return steps, s.err(err)
}

// panics, deferred, lets a panic go on without what it must not show.
func (s sensitive) panics() {
	if v := recover(); v != nil {
		panic(s.text(fmt.Sprint(v))) // the engine makes an error of it
	}
}
