package node

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"
	"github.com/tlspu/keel/core/drift"
)

// maxSpread is the longest time over which nodes spread what is new for all of them.
const maxSpread = time.Minute

// The ranks of the schedule: restarts that are left of NodeConfigs that are gone come
// first.
const (
	leftoverRank = iota
	nodeConfigRank
)

// refresh brings the schedule in line with the source, the facts, and the conflicts of
// claims. It costs what changed.
func (a *agent) refresh(ctx context.Context) error {
	now := a.env.Now()
	a.pulse.Turn(now, visitTime+endTime)
	a.arrive()
	changed := a.take()
	if a.collect() {
		for id, e := range a.entries {
			if e.of == nil || e.of.Depends() {
				changed[id] = true
			}
		}
	}
	a.resolve(changed)
	begins := a.ready() && !a.began
	if begins {
		a.began = true
		for id := range a.entries {
			changed[id] = true
		}
	}
	a.machine.Claims.Complete(a.began && a.blind == nil && a.source.complete())
	for id := range changed {
		a.schedule(id, now)
	}
	_, known := a.facts.Get()
	a.settled = a.settled || a.looked && known
	if begins || !a.began || len(changed) > 0 {
		a.adopt(ctx)
	}
	if a.began && a.unswept && a.blind == nil && a.source.complete() {
		a.unswept = false
		a.reports.sweep(a.named())
	}
	return ctx.Err()
}

// begin begins a pass: it looks at the machine afresh, also at where symlinks lead.
func (a *agent) begin(ctx context.Context, due int) {
	a.machine.Handled.Forget()
	a.queue = due
	a.metrics.Queue(due)
	a.adopt(ctx)
}

// take takes in what is new in the source, and gives the IDs of the entries that it
// concerns. That the source cannot be read is logged once.
func (a *agent) take() map[string]bool {
	news, err := a.source.changes(a.settings.Once)
	if nodeconfig.Text(err) != nodeconfig.Text(a.blind) && a.woken == nil {
		if err != nil {
			a.env.Log.Error("cannot read directory; keeping the last valid content of every file", "err", err)
		} else {
			a.env.Log.Info("directory can be read again", "config-dir", a.settings.ConfigDir)
		}
	}
	if !a.looked && err == nil {
		a.looked, a.unswept = true, a.reports != nil
	}
	a.blind = err
	changed := map[string]bool{}
	for _, c := range news.updated {
		e := a.entries[c.Name]
		if e == nil {
			e = &entry{early: !a.settled}
			a.entries[c.Name] = e
			a.byFile[nodeconfig.FileName(c.Name)] = c.Name
		}
		e.config = c
		changed[c.Name] = true
	}
	for _, name := range news.deleted {
		if a.entries[name] != nil {
			a.env.Log.Info("NodeConfig is gone; what it did stays", "target", name)
			a.forget(name)
			changed[name] = true // its journal may be left
		}
	}
	for _, title := range news.data {
		maps.Copy(changed, a.readers[title])
	}
	return changed
}

// forget forgets a NodeConfig.
func (a *agent) forget(name string) {
	e := a.entries[name]
	a.read(name, e, nil)
	delete(a.entries, name)
	delete(a.byFile, nodeconfig.FileName(name))
	a.loop.Schedule.Remove(name)
	a.machine.Claims.Remove(name)
	a.metrics.Forget(name)
	a.unswept = a.reports != nil
}

// resolve finds out what NodeConfigs say on this node and whether they are in conflict,
// those for which anything changed, has the source watch what they reference, and adds
// those whose conflict changed.
func (a *agent) resolve(changed map[string]bool) {
	f, known := a.facts.Get()
	a.inputs = nodeconfig.Inputs{Facts: f, Find: a.source.get}
	for id := range changed {
		e := a.entries[id]
		if e == nil || e.config == nil || !known {
			continue
		}
		e.of = e.config.Effective()
		if e.content = e.of; e.of != nil {
			if e.content = e.of.Resolve(a.inputs, a.env.Handlers); e.content != e.of {
				e.content.Spec, e.content.Hidden = v1alpha1.NodeConfigSpec{}, nil // what templates gave is not kept in memory
			}
		}
		var reads []string
		if e.of != nil && !e.content.Excluded {
			reads = e.of.Reads
		}
		a.read(id, e, reads)
		a.machine.Claims.Set(id, e.claimant())
	}
	if a.rewatch {
		a.rewatch = false
		a.source.watch(slices.Sorted(maps.Keys(a.readers)))
	}
	for _, id := range a.machine.Claims.Changed() {
		changed[id] = true
	}
}

// read notes which ConfigMaps and Secrets an entry references.
func (a *agent) read(id string, e *entry, titles []string) {
	if slices.Equal(e.reads, titles) {
		return
	}
	for _, title := range e.reads {
		if delete(a.readers[title], id); len(a.readers[title]) == 0 {
			delete(a.readers, title)
		}
	}
	for _, title := range titles {
		if a.readers[title] == nil {
			a.readers[title] = map[string]bool{}
		}
		a.readers[title][id] = true
	}
	e.reads, a.rewatch = titles, true
}

// schedule has a NodeConfig run that says something new, or whose state changed: at
// once, or after this node's share of a spread. Before the agent is ready, and while
// nobody can tell what it says, it does not run.
func (a *agent) schedule(id string, now time.Time) {
	e := a.entries[id]
	if e == nil || e.config == nil {
		return
	}
	if !a.began || e.unread() {
		a.loop.Schedule.Remove(id)
		e.put = false
		return
	}
	t := a.trigger(id, e)
	if e.put && e.scheduled == t {
		return
	}
	delay := a.delay(id, e, t)
	a.loop.Schedule.Put(drift.Item{
		ID: id, Rank: nodeConfigRank, Interval: t.interval, Target: func() drift.Target { return a.target(id, e) },
	}, now, delay)
	e.put, e.scheduled = true, t
	if delay >= time.Second {
		a.env.Log.Info("run is delayed to spread a change over the nodes", "target", id, "in", delay.Round(time.Second))
	}
}

// delay is how long what is new waits. What changes on an API server changes for all
// nodes at once, so each waits for its own share of a tenth of the interval, of a minute
// at most. Nothing waits at the start, when it failed before, and when only this node is
// concerned.
func (a *agent) delay(id string, e *entry, t trigger) time.Duration {
	if a.woken == nil || !a.settled || e.said != "" || !e.mass(t) {
		return 0
	}
	window := min(t.interval/10, maxSpread)
	return share(window, a.settings.NodeName, id, strconv.FormatInt(t.generation, 10), t.digest)
}

// mass reports whether what t is of is new for all nodes, and not for this one alone:
// its labels decide whether it is excluded, and then it has no data.
func (e *entry) mass(t trigger) bool {
	if !e.visited {
		return !e.early
	}
	before := e.visitOf
	return t.uid != before.uid || t.generation != before.generation || t.digest != before.digest && t.excluded == before.excluded
}

// share is the part of a window that falls to what the words name: the same for the
// same, so that an agent that was restarted does not draw again.
func share(window time.Duration, words ...string) time.Duration {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	const parts = 1 << 16
	return window * time.Duration(binary.BigEndian.Uint16(sum[:])) / parts
}
