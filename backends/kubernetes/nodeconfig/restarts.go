package nodeconfig

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/restart"
)

// RestartLeaf is the leaf that holds the units whose restart is not proven. It
// is declared as nil, so that an open journal is drift.
const RestartLeaf = "restart"

// The restarts that the changes of one NodeConfig need.
type restarts struct {
	name    string // of the NodeConfig
	journal restart.Journal
	run     command.Runner
	forget  func()          // drops what was remembered of the machine
	proved  func(units int) // is told of restarts that were proven
}

// Forget drops what is remembered of the machine, for the handler's target too: both
// look at the same.
func (r restarts) Forget() { r.forget() }

// leaf gives both sides of the restarts: none is declared, and the open journal's
// units are observed.
func (r restarts) leaf(ctx context.Context) (declared, observed drift.Leaf) {
	declared.Path, observed.Path = drift.Path{RestartLeaf}, drift.Path{RestartLeaf}
	switch rec, open, err := r.journal.Load(ctx); {
	case err != nil:
		observed.Value = drift.Unread(err)
	case open:
		observed.Value = slices.Sorted(maps.Keys(rec.Units))
	}
	return declared, observed
}

// prove is the step that restarts units and proves it. only takes out of the journal
// what is not to be restarted any more.
func (r restarts) prove(units []string, only func(context.Context) error) drift.Step {
	return drift.Step{
		Text:   "restart " + strings.Join(units, ", "),
		Writes: []drift.Path{{RestartLeaf}},
		Late:   true, // one restart serves all NodeConfigs of a pass
		Do: func(ctx context.Context) (bool, error) {
			if _, open, err := r.journal.Load(ctx); err != nil || !open {
				return false, err
			}
			defer r.forget()
			if err := only(ctx); err != nil {
				return false, err
			}
			rec, open, err := r.journal.Load(ctx)
			if err != nil {
				return false, err
			}
			if !open {
				return true, nil
			}
			if err := restart.Prove(ctx, r.run, r.journal); err != nil {
				return false, err
			}
			r.proved(len(rec.Units))
			return true, nil
		},
	}
}

// refuse does nothing to a NodeConfig whose journal is broken: nobody knows what
// is to be restarted, or whether a change was made.
func (r restarts) refuse(report drift.Report, err error) drift.Step {
	step := drift.Step{
		Text:   "keep " + r.name,
		Refuse: "nobody knows which restarts are pending: " + err.Error(),
	}
	for _, f := range report {
		step.Writes = append(step.Writes, f.Path)
	}
	return step
}

// A leftover is the journal of a NodeConfig that is gone, or no longer says what
// to keep: its restarts are still owed to the change that was made.
type leftover struct{ restarts }

// LeftoverID begins the ID of a leftover; no name of a NodeConfig holds a slash.
const LeftoverID = "restart/"

func (l leftover) ID() string { return LeftoverID + l.name }

func (l leftover) Observe(ctx context.Context) (declared, observed drift.State, err error) {
	none, units := l.leaf(ctx)
	return drift.State{none}, drift.State{units}, nil
}

func (l leftover) Plan(ctx context.Context, r drift.Report) ([]drift.Step, error) {
	switch rec, open, err := l.journal.Load(ctx); {
	case err != nil:
		return []drift.Step{l.refuse(r, err)}, nil
	case open:
		return []drift.Step{l.prove(rec.Names(), func(ctx context.Context) error {
			return restart.Forgive(ctx, l.run, l.journal, nil)
		})}, nil
	}
	return nil, nil
}

// Skip is the target of a NodeConfig that leaves the machine alone, and says why.
func Skip(id, reason string) drift.Planner { return idle{id, reason} }

type idle struct{ id, reason string }

func (s idle) ID() string { return s.id }

func (s idle) Observe(context.Context) (declared, observed drift.State, err error) {
	return drift.State{{Path: drift.Path{"spec"}, Value: drift.Skip{Reason: s.reason}}}, nil, nil
}

func (s idle) Plan(context.Context, drift.Report) ([]drift.Step, error) { return nil, nil }
