package node

import (
	"context"

	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/handler"
)

// A sensitive target tells its handler that parameters came from a Secret.
type sensitive struct{ drift.Planner }

func (s sensitive) Observe(ctx context.Context) (declared, observed drift.State, err error) {
	return s.Planner.Observe(handler.WithSensitive(ctx))
}

func (s sensitive) Plan(ctx context.Context, r drift.Report) ([]drift.Step, error) {
	steps, err := s.Planner.Plan(handler.WithSensitive(ctx), r)
	for i, step := range steps {
		if do := step.Do; do != nil {
			steps[i].Do = func(ctx context.Context) (bool, error) { return do(handler.WithSensitive(ctx)) }
		}
		if undo := step.Undo; undo != nil {
			steps[i].Undo = func(ctx context.Context) error { return undo(handler.WithSensitive(ctx)) }
		}
	}
	return steps, err
}
