package nodeconfig

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/restart"
)

// A target is a NodeConfig: what its handler keeps, and then the restarts that
// a change needs.
//
// A crash may come between any two of the steps that Plan gives. What the journal
// holds decides what the next visit does:
//
//	nothing: nothing was changed, or everything was proven.
//	"ensuring": the change may have been made, wholly or in part. The handler is
//	  run again; when it succeeds the units are restarted, also when it found
//	  nothing left to change.
//	"restarting": the change was made. Each unit is restarted unless its id says
//	  that it was already. While the handler's own leaves are as declared nothing
//	  else is done; when they are not, the change to come needs restarts of its
//	  own, so the journal goes back to "ensuring", and a unit that was restarted
//	  already is restarted once more, after it.
type target struct {
	drift.Planner // the handler's
	restarts
	services []string
	// What the last look gave, and whether the next gives it again: a handler that
	// cannot look answers once after it acted, and the restarts need a second look.
	mu                 sync.Mutex // looks may run beside each other
	declared, observed drift.State
	again              bool
}

// Observe appends the leaf of the restarts to the handler's.
func (t *target) Observe(ctx context.Context) (declared, observed drift.State, err error) {
	if declared, observed = t.repeated(); declared == nil {
		if declared, observed, err = t.Planner.Observe(ctx); err != nil {
			return nil, nil, err
		}
	}
	t.mu.Lock()
	t.declared, t.observed = declared, observed
	t.mu.Unlock()
	none, units := t.leaf(ctx)
	return append(slices.Clip(declared), none), append(slices.Clip(observed), units), nil
}

// repeated is the last look once more, where the next is to give it again.
func (t *target) repeated() (declared, observed drift.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.again {
		return nil, nil
	}
	t.again = false
	return t.declared, t.observed
}

// Compare uses the handler's own rules where it has some.
func (t *target) Compare(declared, observed drift.State) drift.Report {
	if c, ok := t.Planner.(drift.Comparer); ok {
		return c.Compare(declared, observed)
	}
	return drift.Compare(declared, observed)
}

// Plan gives, for a NodeConfig with services, four steps of one field: save the
// journal, ensure, note what must be restarted, restart and prove.
func (t *target) Plan(ctx context.Context, r drift.Report) ([]drift.Step, error) {
	rec, open, err := t.journal.Load(ctx)
	if err != nil {
		return []drift.Step{t.refuse(r, err)}, nil
	}
	others := slices.DeleteFunc(slices.Clone(r), func(f drift.Finding) bool { return f.Path.String() == RestartLeaf })
	if open && len(t.services) == 0 {
		return t.dropping(ctx, others)
	}
	if open && others.Settled() {
		if rec.Phase == restart.Restarting {
			return []drift.Step{t.prove(rec.Names(), t.only)}, nil
		}
		others = r // the handler's step is for the restarts' sake
	}
	steps, err := t.Planner.Plan(ctx, others)
	if err != nil || len(t.services) == 0 || !Acts(steps) {
		return steps, err
	}
	return t.around(r, steps, rec, open), nil
}

// dropping gives the handler's steps and one that drops the record: no unit is listed
// any more.
func (t *target) dropping(ctx context.Context, others drift.Report) (steps []drift.Step, err error) {
	if !others.Settled() {
		if steps, err = t.Planner.Plan(ctx, others); err != nil {
			return nil, err
		}
	}
	return append(slices.Clip(steps), drift.Step{
		Text:   "drop the pending restarts of units that are not listed any more",
		Writes: []drift.Path{{RestartLeaf}},
		Do:     func(ctx context.Context) (bool, error) { return true, t.journal.Clear(ctx) },
	}), nil
}

// Acts reports whether any step does something.
func Acts(steps []drift.Step) bool {
	return slices.ContainsFunc(steps, func(s drift.Step) bool { return s.Do != nil })
}

// around puts the handler's steps between those of the journal. before is the
// record that was there, when there was one.
func (t *target) around(r drift.Report, steps []drift.Step, before restart.Record, open bool) []drift.Step {
	units := map[string]string{}
	for _, unit := range t.services {
		units[unit] = ""
	}
	names := strings.Join(t.services, ", ")
	field := "nodeconfig " + t.ID()
	save := drift.Step{
		Field:  field,
		Text:   "note that " + names + " may need a restart",
		Writes: []drift.Path{{RestartLeaf}},
		Blind:  true,
		Do: func(ctx context.Context) (bool, error) {
			return false, t.journal.Save(ctx, restart.Record{Phase: restart.Ensuring, Units: units, Order: t.services, Reload: true})
		},
	}
	made := false
	ensure := make([]drift.Step, 0, len(steps))
	for _, s := range steps {
		// What would refuse the handler's step refuses the journal's before it:
		// no mark is left for a change that is not tried.
		save.Writes = append(save.Writes, s.Writes...)
		save.Blind = save.Blind && s.Blind
		ensure = append(ensure, noting(s, field, &made))
	}
	settle := drift.Step{
		Field: field,
		Text:  "note what must be restarted",
		Do: func(ctx context.Context) (bool, error) {
			same, err := made && t.same(ctx, r), ctx.Err()
			if err != nil {
				return false, err
			}
			switch {
			case made && !same || open && before.Phase == restart.Ensuring:
				return false, restart.Changed(ctx, t.run, t.journal)
			case open: // nothing new: what was proven already stays so
				return false, t.journal.Save(ctx, before)
			}
			return false, t.journal.Clear(ctx)
		},
	}
	prove := t.prove(t.services, t.only)
	prove.Field = field
	if do := prove.Do; save.Blind {
		prove.Do = func(ctx context.Context) (bool, error) {
			t.mu.Lock()
			t.again = true
			t.mu.Unlock()
			return do(ctx)
		}
	}
	return slices.Concat([]drift.Step{save}, ensure, []drift.Step{settle, prove})
}

// only is what a run does first with a journal: a unit that is not listed any more is
// not required any more.
func (t *target) only(ctx context.Context) error { return restart.Only(ctx, t.journal, t.services) }

// same reports whether every leaf that drifted before still does, as it did: such a
// change did not last, as chmod does not on some file systems, and needs no restart.
func (t *target) same(ctx context.Context, before drift.Report) bool {
	declared, observed, err := t.Planner.Observe(ctx)
	if err != nil {
		return false
	}
	after := t.Compare(declared, observed)
	drifts := 0
	for _, f := range before {
		if f.Verdict != drift.Drift || f.Path.String() == RestartLeaf {
			continue
		}
		drifts++
		if !slices.ContainsFunc(after, func(g drift.Finding) bool { return reflect.DeepEqual(f, g) }) {
			return false
		}
	}
	return drifts > 0
}

// noting is the handler's step s in another field; it sets made when it changed
// something.
func noting(s drift.Step, field string, made *bool) drift.Step {
	s.Field = field
	if do := s.Do; do != nil {
		s.Do = func(ctx context.Context) (bool, error) {
			changed, err := do(ctx)
			*made = *made || changed
			return changed, err
		}
	}
	return s
}
