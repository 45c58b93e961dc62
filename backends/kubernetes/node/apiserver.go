package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/node/cluster"
	"github.com/tlspu/keel/backends/kubernetes/node/monitor"
	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"
	"github.com/tlspu/keel/core/plugin"
)

const (
	// endTime is how long the end of the agent may take once the last visit ended:
	// statuses that wait are sent in it.
	endTime = 10 * time.Second
	// settleTime is how long a single pass waits for everything it has to know.
	settleTime = time.Minute
)

// openCluster has the agent keep the NodeConfigs of an API server. It does not wait
// for the server: whether that can be reached shows in the log and by the probe of
// readiness.
func (a *agent) openCluster(ctx context.Context) (err error) {
	s := a.settings
	client, err := cluster.Connect(s.Kubeconfig, "keel-node-agent")
	if err != nil {
		return &plugin.Exit{Code: plugin.ExitUnreadable, Err: err}
	}
	if err := client.CheckNode(s.NodeName); err != nil {
		return &plugin.Exit{Code: plugin.ExitInvalid, Err: err}
	}
	if a.machine, err = nodeconfig.OpenMachine(a.env); err != nil {
		return err
	}
	namespaces := s.SourceNamespaces
	if len(namespaces) == 0 && client.Namespace != "" {
		namespaces = []string{client.Namespace}
	}
	c := cluster.New(cluster.Options{Client: client, Node: s.NodeName, Namespaces: namespaces, Log: a.env.Log})
	a.source = &clustered{cluster: c, handlers: a.env.Handlers, log: a.env.Log}
	a.woken = c.Woken()
	running, stop := context.WithCancel(context.WithoutCancel(ctx)) // what the last visit came to is still sent
	a.ends = append(a.ends, func(context.Context) error { stop(); c.Wait(); return nil })
	c.Start(running)
	if !s.DryRun {
		a.report(running, client, c)
	}
	return nil
}

// report has results written to the API server.
func (a *agent) report(ctx context.Context, client *cluster.Client, c *cluster.Cluster) {
	events := cluster.NewEvents(cluster.EventsOptions{
		Client: client, Node: a.settings.NodeName, Now: a.env.Now, Log: a.env.Log,
		Wrote: func(o cluster.Outcome) { a.metrics.Wrote(monitor.Event, monitor.Outcome(o)) },
	})
	reporter := cluster.NewReporter(cluster.ReporterOptions{
		Client: client, Node: a.settings.NodeName, Form: cluster.Form(a.settings.Status),
		Cluster: c, Known: c.Known, NodeUID: c.UID, Now: a.env.Now, Log: a.env.Log, Event: events.Event,
		Wrote: func(o cluster.Outcome) { a.metrics.Wrote(monitor.Status, monitor.Outcome(o)) },
	})
	a.metrics.Withheld(reporter.Held)
	a.reports, a.events = told{reporter}, events
	var running sync.WaitGroup
	running.Go(func() { reporter.Run(ctx) })
	running.Go(func() { events.Run(ctx) })
	stop := a.ends[0]
	a.ends[0] = func(ending context.Context) error {
		err := errors.Join(reporter.Flush(ending), events.Flush(ending))
		_ = stop(ending)
		running.Wait()
		if err != nil && !a.settings.Once {
			// It did what it was told: nobody is to look for the reason in an exit code.
			a.env.Log.Warn("not everything was sent before the end; the next agent reconciles and reports again", "err", plugin.OneLine(err))
			return nil
		}
		return err
	}
}

// told are the reports to an API server.
type told struct{ *cluster.Reporter }

// save tells nothing of a NodeConfig that never was for this node: thousands of
// nodes would say so of one that is for three.
func (t told) save(_ context.Context, name string, uid types.UID, s v1alpha1.NodeStatus) {
	before, there := t.Before(name)
	if there && news(before, s) || !there && !strings.HasPrefix(s.Message, nodeconfig.Excluded) {
		t.Report(name, uid, s)
	}
}

func (t told) err() error { return t.Err() }

func (t told) sweep(names map[string]bool) {
	names = maps.Clone(names)
	t.Sweep(func(name string) bool { return names[name] })
}

// await waits, before a single pass, until everything is known that decides what is
// run and what for.
func (a *agent) await(ctx context.Context) error {
	if a.woken == nil {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	a.prepare(ctx)
	for {
		if err := a.refresh(ctx); err != nil {
			return err
		}
		missing := a.missing()
		if missing == nil {
			return nil
		}
		select {
		case <-a.woken:
		case <-waiting.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return &plugin.Exit{Code: plugin.ExitUnreadable, Err: fmt.Errorf("after %s: %w", settleTime, missing)}
		}
	}
}

// missing says what a single pass would have to know.
func (a *agent) missing() error {
	_, known := a.facts.Get()
	if !a.looked || !known {
		return a.waiting(known)
	}
	var unread []string
	for id, e := range a.entries {
		if e.unread() {
			unread = append(unread, id+": "+e.content.Err.Error())
		}
	}
	if len(unread) == 0 {
		return nil
	}
	slices.Sort(unread)
	return errors.New(strings.Join(unread, "; "))
}
