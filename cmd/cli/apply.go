package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/host"
	"github.com/tlspu/keel/core/plugin"
)

type applySettings struct {
	documentSettings
	nodeConfigSettings
	onMachine
	DryRun      bool          `flag:"dry-run" usage:"print what would be done, and do nothing"`
	LockTimeout time.Duration `flag:"lock-timeout" usage:"how long to wait for another run on the same root; 0 does not wait"`
	Output      string        `flag:"output" short:"o" usage:"form of the output" enum:"text|json"`
}

func (a *app) applyCommand() *cobra.Command {
	s := &applySettings{onMachine: thisMachine(), LockTimeout: defaultLockTimeout, Output: formText}
	cmd := &cobra.Command{
		Use:   "apply -f FILE|DIR|- [flags]",
		Short: "Bring a machine to the state that documents declare",

		SuggestFor: []string{"plan"}, // which is apply --dry-run
		Long: `Bring a machine to the state that documents declare.

All documents are tried, whatever becomes of the others. A line is printed for
each: "changed", "unchanged", "error", or with --dry-run "would change" and what
would be done. Applied again, everything is unchanged.

The first interrupt (Ctrl-C, SIGTERM, a closed terminal) lets the step that runs
come to its end, checks what it did, and begins no other: what is left is listed
as "not begun". The second ends the process on the spot. Either way the next
apply finds what is left to do.`,
		Example: "  keel apply -f /etc/keel/nodeconfigs --dry-run\n" +
			"  keel apply -f motd.yaml --root /mnt/debian -o json",
		Args:                  cobra.NoArgs,
		DisableFlagsInUseLine: true,
	}
	return a.withSettings(cmd, "apply", func(cmd *cobra.Command, _ []string) error {
		if err := s.need(); err != nil {
			return err
		}
		return a.apply(cmd.Context(), s)
	}, s)
}

// apply ensures what the documents declare, one target after the other.
func (a *app) apply(ctx context.Context, s *applySettings) error {
	env, err := a.reach(a.env(a.log()), "root", s.Root, s.ExecMode, s.DryRun)
	if err != nil {
		return err
	}
	env.LockTimeout = s.LockTimeout
	s.into(&env)
	if !s.DryRun {
		if err := env.NeedRoot("root"); err != nil {
			return err
		}
	}
	docs, err := await(ctx, func() ([]document, error) { return a.documents(ctx, s.Files) })
	if err != nil {
		return err
	}
	v := visits{app: a, env: env, results: plugin.Results{DryRun: s.DryRun}}
	if s.Output == formText {
		v.results.Out = a.out
	}
	v.env.Note = v.note
	if err := v.open(); err != nil {
		return err
	}
	defer v.close()
	for _, d := range docs {
		if d.err != nil {
			v.results.Add(drift.Result{Target: d.doc.Source, Err: exitWith(d.code, d.err)})
		}
	}
	for _, b := range a.batches(docs) {
		v.batch(ctx, b)
	}
	return v.end(ctx)
}

// visits is one run of apply.
type visits struct {
	*app
	env     plugin.Env
	results plugin.Results
	tree    *host.Tree // where the lock is; nil in a dry run
	at      string     // target that waits for the lock, for its notes
}

// open opens the machine for the lock.
func (v *visits) open() (err error) {
	if v.results.DryRun {
		return nil
	}
	tree, err := host.OpenTree(v.env.Root)
	if err != nil {
		return err
	}
	v.tree = tree.Noting(func(sentence string) { v.note(v.at, sentence) })
	return nil
}

// note makes what an operator should know of a target a warning.
func (v *visits) note(target, sentence string) {
	v.say("Warning: %s: %s", plugin.Printable(target), plugin.Printable(sentence))
}

func (v *visits) close() {
	if v.tree != nil {
		_ = v.tree.Close() // it was only held open
	}
}

// batch ensures the documents of one kind.
func (v *visits) batch(ctx context.Context, b batch) {
	if ctx.Err() != nil {
		v.skip(b)
		return
	}
	if b.kind.Apply != nil {
		v.hand(ctx, b)
		return
	}
	targets, err := await(ctx, func() ([]drift.Target, error) { return b.kind.Targets(ctx, v.env, b.docs) })
	if ctx.Err() != nil {
		v.skip(b)
		return
	}
	if err != nil {
		for _, doc := range b.docs {
			v.results.Add(drift.Result{Target: doc.Source, Err: err})
		}
		return
	}
	options := drift.Options{DryRun: v.results.DryRun}
	if !v.results.DryRun {
		options.Lock = func(ctx context.Context) (func(), error) { return v.env.Lock(ctx, v.tree, "keel apply") }
	}
	var late []*drift.Visit
	for _, t := range targets {
		if r := v.visit(ctx, t, b.kind.Name, options); r != nil {
			late = append(late, r)
		}
	}
	for _, r := range late {
		v.finish(ctx, r)
	}
}

// skip takes note of documents that were left alone.
func (v *visits) skip(b batch) {
	for _, doc := range b.docs {
		v.results.NotBegun(doc.Source)
	}
}

// visit ensures one target, unless the program was told to stop. It gives back what
// has late steps: they follow the changes of all targets.
func (v *visits) visit(ctx context.Context, t drift.Target, kind string, options drift.Options) *drift.Visit {
	if ctx.Err() != nil {
		v.results.NotBegun(t.ID())
		return nil
	}
	p, ok := t.(drift.Planner)
	if !ok {
		v.results.Add(refuse(ctx, t, kind))
		return nil
	}
	v.at = t.ID()
	r := drift.Begin(ctx, p, options)
	if r.Late() {
		return r
	}
	v.finish(ctx, r)
	return nil
}

// finish takes the late steps of a target, and adds its result.
func (v *visits) finish(ctx context.Context, visit *drift.Visit) {
	r := visit.Finish(ctx)
	if ctx.Err() != nil && untouched(r) {
		v.results.NotBegun(r.Target)
		return
	}
	v.results.Add(r)
}

// refuse is the result for a target that cannot be changed: it may have a better
// reason itself, such as a document that is not valid.
func refuse(ctx context.Context, t drift.Target, kind string) drift.Result {
	r := drift.Check(ctx, t)
	if r.Before != nil || r.Err == nil {
		r.Err = fmt.Errorf("kind %s is not applied, only compared: see keel diff", kind)
	}
	return r
}

// untouched reports that a visit ended before anything was tried, because it was
// called off.
func untouched(r drift.Result) bool {
	begun := func(o drift.Outcome) bool { return !o.Skipped }
	return errors.Is(r.Err, context.Canceled) && !slices.ContainsFunc(r.Steps, begun)
}

// hand gives the documents of a kind to the agent or server that looks after it.
func (v *visits) hand(ctx context.Context, b batch) {
	err := errors.New("is handed to an agent, which has no dry run")
	if !v.results.DryRun {
		err = b.kind.Apply(ctx, v.env, b.docs)
	}
	for _, doc := range b.docs {
		v.results.Add(drift.Result{Target: doc.Source, Changed: err == nil, Err: err})
	}
}

// end prints the JSON document and gives the exit code.
func (v *visits) end(ctx context.Context) error {
	code := v.results.Code()
	if ctx.Err() != nil {
		code = exitInterrupted
	}
	if v.results.Out == nil {
		if err := writeJSON(v.out, v.document(code)); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return ended(code)
}

// appliedDocument is what apply -o json prints.
type appliedDocument struct {
	Root    string          `json:"root"`
	DryRun  bool            `json:"dry_run"`
	Results []plugin.Result `json:"results"`
	Counts  struct {
		Changed   int `json:"changed"`
		Unchanged int `json:"unchanged"`
		Would     int `json:"would_change"`
		Errors    int `json:"error"`
		NotBegun  int `json:"not_begun"`
	} `json:"counts"`
	ExitCode int `json:"exit_code"`
}

// document is everything that was done, in the order of the lines.
func (v *visits) document(code int) appliedDocument {
	r := &v.results
	d := appliedDocument{Root: v.env.Root, DryRun: r.DryRun, Results: append([]plugin.Result{}, r.List...), ExitCode: code}
	d.Counts.Changed, d.Counts.Unchanged, d.Counts.Would = r.Count(plugin.Changed), r.Count(plugin.Unchanged), r.Count(plugin.Would)
	d.Counts.Errors, d.Counts.NotBegun = r.Count(plugin.Failed), r.Count(plugin.NotBegun)
	return d
}
