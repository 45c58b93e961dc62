package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/plugin"
)

// target makes the target of an entry, when its run begins.
func (a *agent) target(id string, e *entry) drift.Target {
	a.running = id
	a.pulse.Turn(a.env.Now(), visitTime+endTime)
	switch {
	case a.unreached != nil:
		return unreached(id, a.unreached)
	case e.config == nil:
		return a.machine.Leftover(strings.TrimPrefix(id, nodeconfig.LeftoverID))
	case e.of == nil:
		return a.machine.Target(id, e.config)
	}
	return a.machine.Target(id, e.of.Resolve(a.inputs, a.env.Handlers)) // what it gives is not kept in memory
}

// done takes down what became of a visit, logs it, and writes the status.
func (a *agent) done(ctx context.Context, res drift.Result) {
	e := a.entries[res.Target]
	if e == nil {
		if res.Err != nil && ctx.Err() == nil {
			a.env.Log.Error("pass ended early", "err", res.Err)
		}
		return
	}
	now, took := a.env.Now(), res.Took
	a.queue = max(a.queue-1, 0)
	a.metrics.Queue(a.queue)
	was := before{e.pending, e.said}
	wait := (*drift.Wait)(nil)
	e.waits, e.visited, e.visitOf = errors.As(res.Err, &wait), true, e.scheduled
	e.pending = a.owed(ctx, res)
	res.Err = withMistake(e.config, res.Err)
	a.log(e, res, took)
	a.tell(res.Target, e, was, res)
	a.count(res.Target, e, res, took, now)
	a.print(res)
	switch {
	case e.config != nil && a.reports != nil && !e.waits:
		a.reports.save(ctx, res.Target, e.config.UID, e.status(res, now))
	case e.config == nil && res.Err == nil && !a.settings.DryRun:
		a.settle(res.Target)
	}
}

// stopped takes down a visit that a signal ended: it is neither done nor failed,
// and the next agent does the rest. A single pass says how far it came.
func (a *agent) stopped(res drift.Result) {
	e := a.entries[res.Target]
	if e == nil || !slices.ContainsFunc(res.Steps, func(o drift.Outcome) bool { return !o.Skipped }) {
		return
	}
	e.visited = true
	a.print(res)
}

// print records a result of a single pass and prints its line, as `keel apply` does.
func (a *agent) print(res drift.Result) {
	if a.settings.Once {
		a.results.Add(res)
	}
}

// owed reports whether a restart is pending after a visit: as the visit saw it,
// and where it saw nothing, as the journal says. A broken one may stand for some.
func (a *agent) owed(ctx context.Context, res drift.Result) bool {
	if a.unreached != nil {
		return a.entries[res.Target].pending // as was known last
	}
	if f, ok := res.Last().At(drift.Path{nodeconfig.RestartLeaf}); ok {
		return f.Verdict != drift.Same
	}
	_, open, err := a.machine.Journal(nodeconfig.FileName(res.Target)).Load(ctx)
	return open || err != nil
}

// withMistake is the error of a visit to what a NodeConfig said before it had a
// mistake: that one comes first.
func withMistake(c *nodeconfig.Config, err error) error {
	if c == nil || c.Err == nil || c.Last == nil {
		return err
	}
	mistake := &plugin.Exit{Code: plugin.ExitInvalid, Err: fmt.Errorf("%w; what it said before is kept", c.Fault())}
	return errors.Join(mistake, err)
}

// maxShown is the length of the longest error that is logged and remembered.
const maxShown = 4 << 10

// shown is an error as it is logged, and as the next one is compared with it.
func shown(err error) string { return cut(plugin.OneLine(err), maxShown) }

// log says what a visit did. An error is said again only when it changed, for the
// status repeats it. A single pass prints lines instead.
func (a *agent) log(e *entry, res drift.Result, took time.Duration) {
	if a.settings.Once {
		return
	}
	handler := "none"
	if e.config != nil {
		handler = e.config.Handler
	}
	log := a.env.Log.With("target", res.Target, "handler", handler, "changed", res.Changed, "took", took)
	said := shown(res.Err)
	switch {
	case e.waits && said != e.said:
		log.Info("run waits", "err", said)
	case res.Err != nil && said != e.said:
		log.Error("run failed", "err", said, "restart-pending", e.pending)
	case a.settings.DryRun && nodeconfig.Acts(steps(res)):
		log.Info("run would change the machine")
		for _, step := range steps(res) {
			log.Info("run would take a step", "step", step.Text)
		}
	case res.Changed:
		log.Info("run changed the machine")
	case res.Err == nil && e.said != "":
		log.Info("recovered")
	default:
		log.Debug("run done", "err", said)
	}
	e.said = said
}

// once makes one pass over everything and gives the exit code.
func (a *agent) once(ctx context.Context) error {
	if err := a.await(ctx); err != nil {
		return err
	}
	a.prepare(ctx).Pass(ctx)
	if ctx.Err() != nil {
		for _, id := range slices.Sorted(maps.Keys(a.entries)) {
			if !a.entries[id].visited {
				a.results.NotBegun(id)
			}
		}
		return ctx.Err()
	}
	if a.blind != nil {
		return &plugin.Exit{Code: plugin.ExitUnreadable, Err: a.blind}
	}
	unread, invalid := a.source.nameless()
	for _, err := range unread {
		a.results.Add(drift.Result{Err: &plugin.Exit{Code: plugin.ExitUnreadable, Err: err}})
	}
	for _, err := range invalid {
		a.results.Add(drift.Result{Err: &plugin.Exit{Code: plugin.ExitInvalid, Err: err}})
	}
	if failed := a.results.Count(plugin.Failed); failed > 0 {
		return &plugin.Exit{Code: a.results.Code(), Err: fmt.Errorf("%d of %d runs failed", failed, len(a.results.List))}
	}
	return nil
}

func steps(res drift.Result) []drift.Step {
	var list []drift.Step
	for _, o := range res.Steps {
		list = append(list, o.Step)
	}
	return list
}
