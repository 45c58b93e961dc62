package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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
	a.tally.add(a.env.Out, res, a.settings)
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
	a.tally.add(a.env.Out, res, a.settings)
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
func shown(err error) string { return cut(nodeconfig.OneLine(err), maxShown) }

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
				a.tally.print(a.env.Out, "not begun", id, "")
			}
		}
		return ctx.Err()
	}
	if a.blind != nil {
		return &plugin.Exit{Code: plugin.ExitUnreadable, Err: a.blind}
	}
	unread, invalid := a.source.nameless()
	for _, err := range unread {
		a.tally.add(a.env.Out, drift.Result{Err: &plugin.Exit{Code: plugin.ExitUnreadable, Err: err}}, a.settings)
	}
	for _, err := range invalid {
		a.tally.add(a.env.Out, drift.Result{Err: &plugin.Exit{Code: plugin.ExitInvalid, Err: err}}, a.settings)
	}
	return a.tally.exit()
}

// A tally counts what one pass came to.
type tally struct {
	visits, failed int
	codes          map[int]bool
	lost           error // why lines could not be printed
}

// add counts a result and, in a single pass, prints its line as `keel apply` does.
func (t *tally) add(out io.Writer, res drift.Result, s settings) {
	if !s.Once {
		return
	}
	t.visits++
	word, rest := "unchanged", ""
	switch {
	case res.Err != nil:
		t.failed++
		t.count(res.Err)
		word, rest = "error", nodeconfig.OneLine(res.Err)
		if res.Target != "" {
			rest = ": " + rest
		}
	case s.DryRun && nodeconfig.Acts(steps(res)):
		word = "would change"
		for _, step := range steps(res) {
			rest += "\n  would " + step.Text
		}
	case res.Changed:
		word = "changed"
	default:
		if why := uncompared(res.Last()); why != "" {
			rest = ": " + why
		}
	}
	t.print(out, word, res.Target, rest)
}

func (t *tally) print(out io.Writer, word, target, rest string) {
	if _, err := fmt.Fprintf(out, "%-9s %s%s\n", word, nodeconfig.Printable(target), nodeconfig.Printable(rest)); err != nil {
		t.lost = err // nobody may be listening; the visits go on
	}
}

// uncompared says why nothing that is declared was compared, "" if anything was.
func uncompared(r drift.Report) (reason string) {
	for _, f := range r {
		switch f.Verdict {
		case drift.NotDeclared:
		case drift.NotCompared:
			reason = cmp.Or(reason, f.Reason)
		default:
			return ""
		}
	}
	return reason
}

func steps(res drift.Result) []drift.Step {
	var list []drift.Step
	for _, o := range res.Steps {
		list = append(list, o.Step)
	}
	return list
}

// count notes the exit codes that an error asks for.
func (t *tally) count(err error) {
	if t.codes == nil {
		t.codes = map[int]bool{}
	}
	code := plugin.ExitFailed
	if exit := (*plugin.Exit)(nil); errors.As(err, &exit) {
		code = exit.Code
	}
	t.codes[code] = true
}

// exit is the error that ends the program with the gravest code.
func (t *tally) exit() error {
	var errs []error
	if t.failed > 0 {
		errs = append(errs, fmt.Errorf("%d of %d runs failed", t.failed, t.visits))
	}
	if t.lost != nil {
		errs = append(errs, fmt.Errorf("output was lost: %w", t.lost))
		t.count(t.lost)
	}
	for _, code := range []int{plugin.ExitUnreadable, plugin.ExitInvalid, plugin.ExitNeedsRoot, plugin.ExitFailed} {
		if t.codes[code] {
			return &plugin.Exit{Code: code, Err: errors.Join(errs...)}
		}
	}
	return nil
}
