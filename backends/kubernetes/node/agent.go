// Package node is the agent of one node: a source of NodeConfigs (a directory of
// files, or an API server), the schedule by which they are reconciled, and what is
// reported of it: log, statuses, Events, metrics.
package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tlspu/keel/backends/kubernetes/node/facts"
	"github.com/tlspu/keel/backends/kubernetes/node/monitor"
	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/plugin"
)

// An agent keeps a machine as NodeConfigs say. What it remembers of them belongs to
// the loop's goroutine.
type agent struct {
	settings settings
	env      plugin.Env
	machine  *nodeconfig.Machine
	source   source
	woken    <-chan struct{} // has an element when the source has something new; nil: it is only polled
	reports  reports         // nil in a dry run
	events   events          // nil: none are told
	metrics  *monitor.Metrics
	health   health
	pulse    monitor.Pulse
	ends     []func(context.Context) error // what close does before the machine is closed

	facts     facts.Store
	collected time.Time         // when facts were collected
	told      int               // what the source's told was then
	inputs    nodeconfig.Inputs // of the last time that NodeConfigs were resolved
	unknown   error             // why they could not be collected last time

	loop    drift.Loop
	entries map[string]*entry          // by target ID
	byFile  map[string]string          // names of NodeConfigs, by the file of their journal
	readers map[string]map[string]bool // IDs of those that reference a ConfigMap or Secret, by its title
	rewatch bool                       // readers has other titles than the source watches

	looked    bool            // the source was read once
	settled   bool            // everything that was there at the start is known
	began     bool            // enough is known to run NodeConfigs
	blind     error           // why the source could not be read last time
	unreached error           // why the machine's root could not be opened
	unswept   bool            // statuses of what is gone may be there
	unseen    map[string]bool // names of account
	running   string          // target ID, for notes
	queue     int             // of what is left of a pass
	results   plugin.Results  // of a single pass
}

// newAgent opens everything the agent needs, and touches nothing in a dry run.
func newAgent(ctx context.Context, env plugin.Env, s settings) (*agent, error) {
	if err := s.complete(); err != nil {
		return nil, err
	}
	if err := mayChange(env, s); err != nil {
		return nil, err
	}
	env.LockTimeout = s.LockTimeout
	a := &agent{
		results:  plugin.Results{Out: env.Out, DryRun: s.DryRun},
		settings: s, env: env, entries: map[string]*entry{}, byFile: map[string]string{}, readers: map[string]map[string]bool{},
		metrics: monitor.New(env.Version, env.Handlers.Names()),
	}
	a.env.Note = a.note
	open := a.openFolder
	if s.Source == fromCluster {
		open = a.openCluster
	}
	if err := open(ctx); err != nil {
		return nil, errors.Join(err, a.close(ctx))
	}
	return a, nil
}

// openFolder has the agent keep the NodeConfigs of a folder.
func (a *agent) openFolder(context.Context) (err error) {
	s := a.settings
	if _, err := os.ReadDir(s.ConfigDir); err != nil {
		return &plugin.Exit{Code: plugin.ExitUnreadable, Err: fmt.Errorf("config-dir %s: %w", s.ConfigDir, nodeconfig.Cause(err))}
	}
	if a.machine, err = nodeconfig.OpenMachine(a.env); err != nil {
		return err
	}
	a.source = &folder{dir: s.ConfigDir, facts: s.Facts, handlers: a.env.Handlers, now: a.env.Now, log: a.env.Log}
	if a.collect(); a.unknown != nil || s.DryRun {
		return a.unknown
	}
	statuses, err := openStatuses(s.StateDir, s.ConfigDir, a.env.Log)
	if err == nil {
		a.reports = statuses
		a.ends = append(a.ends, statuses.close)
	}
	return err
}

// run does what the settings ask for.
func (a *agent) run(ctx context.Context) error {
	if a.settings.Once {
		return a.once(ctx)
	}
	save()
	server, err := a.listen(ctx)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() {
		served <- server.Serve(running)
		stop() // without probes nobody would know how it goes
	}()
	err = a.keep(running)
	stop()
	return errors.Join(err, <-served)
}

// listen opens the addresses of metrics and probes.
func (a *agent) listen(ctx context.Context) (*monitor.Server, error) {
	a.pulse.Turn(a.env.Now(), visitTime+endTime) // it is about to begin
	probes := monitor.Probes{Alive: a.pulse.Alive, Ready: a.health.Ready, Now: a.env.Now}
	s := a.settings
	return monitor.Listen(ctx, s.MetricsAddr, s.HealthAddr, a.metrics.Handler(a.env.Log), probes.Handler(), a.env.Log)
}

// close ends everything that was opened, in a bounded time.
func (a *agent) close(ctx context.Context) error {
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	var errs []error
	for _, end := range a.ends {
		errs = append(errs, end(ending))
	}
	if a.machine != nil {
		_ = a.machine.Tree.Close() // what was written was synced
	}
	return errors.Join(errs...)
}

// prepare fills in the loop that runs what is due. The end of ctx keeps no status
// from being written.
func (a *agent) prepare(ctx context.Context) *drift.Loop {
	writing := context.WithoutCancel(ctx)
	l := &a.loop
	l.Schedule.Backoff = drift.Backoff{Min: time.Second, Max: 5 * time.Minute}
	l.Refresh, l.Begin, l.Final, l.Now = a.refresh, a.begin, invalidConfig, a.env.Now
	l.Poll, l.Woken, l.Deadline = poll, a.woken, visitTime
	l.Options = drift.Options{DryRun: a.settings.DryRun, Lock: a.lock}
	l.Done = func(res drift.Result) {
		if ctx.Err() != nil && errors.Is(res.Err, context.Canceled) {
			a.stopped(res)
			return
		}
		a.done(writing, res)
	}
	return l
}

// invalidConfig reports an error in a NodeConfig itself: before it is fixed there is
// nothing to retry.
func invalidConfig(err error) bool {
	exit := (*plugin.Exit)(nil)
	return errors.As(err, &exit) && exit.Code == plugin.ExitInvalid
}

// mayChange refuses to change this machine without uid 0.
func mayChange(env plugin.Env, s settings) error {
	if s.DryRun {
		return nil
	}
	return env.NeedRoot("host-root")
}

// lock takes the machine's lock for one visit.
func (a *agent) lock(ctx context.Context) (func(), error) {
	tree := a.machine.Tree.Noting(func(sentence string) { a.note(a.running, sentence) })
	return a.env.Lock(ctx, tree, "keel node-agent")
}

// keep visits NodeConfigs as they fall due until ctx ends. A step that began is
// finished first.
func (a *agent) keep(ctx context.Context) error {
	a.env.Log.Info("agent started", "source", a.settings.Source, "root", a.env.Root, "dry-run", a.settings.DryRun)
	err := a.prepare(ctx).Run(ctx)
	if ctx.Err() != nil {
		a.env.Log.Info("agent ended")
		return nil
	}
	return err
}

// note logs what is worth knowing of a target and no error: attributes a file lost,
// whom the lock waits for.
func (a *agent) note(target, sentence string) {
	a.env.Log.Warn("note on a target", "target", target, "note", sentence)
}

// ready reports whether enough is known to visit NodeConfigs: all of them, and the
// facts. Before that, nobody could tell what is missing from what is not read yet.
func (a *agent) ready() bool {
	_, known := a.facts.Get()
	ready := a.looked && known
	a.show(ready, a.waiting(known))
	return ready
}

// waiting says what a start waits for, or nothing.
func (a *agent) waiting(known bool) error {
	switch {
	case !a.looked && a.blind != nil:
		return a.blind
	case !a.looked:
		return errors.New("the NodeConfigs were not read yet")
	case !known && a.unknown != nil:
		return a.unknown
	case !known:
		return errors.New("the facts were not collected yet")
	case a.reports != nil:
		return errors.Join(a.blind, a.reports.err())
	}
	return a.blind
}
