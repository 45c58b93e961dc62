package node

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/restart"
)

// adopt finds the journals that no run of a NodeConfig will bring to their end.
// Before the agent is ready, or what a NodeConfig references is known, nobody knows
// which those are: only restarts that are pending whatever a NodeConfig says by now
// are adopted then.
func (a *agent) adopt(ctx context.Context) {
	if a.unreached != nil {
		return
	}
	files, err := a.machine.Tree.List(nodeconfig.JournalDir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			a.env.Log.Error("cannot list the restart records; those of NodeConfigs that are gone stay pending", "err", err)
		}
		return
	}
	for _, file := range files {
		name, ok := strings.CutSuffix(file, nodeconfig.Suffix)
		if !ok {
			continue
		}
		id, owner := nodeconfig.LeftoverID+name, a.byFile[file]
		e := a.entries[owner]
		switch {
		case e != nil && a.managed(owner, e):
			if a.entries[id] != nil {
				a.settle(id) // it is the NodeConfig's again
			}
		case a.entries[id] != nil, (!a.began || e != nil && e.unread()) && !a.certain(ctx, file):
		default:
			a.env.Log.Info("restarts of a NodeConfig that is not managed are pending", "target", name)
			left := &entry{}
			a.entries[id] = left
			a.loop.Schedule.Put(drift.Item{
				ID: id, Rank: leftoverRank, Interval: a.settings.DefaultInterval, Target: func() drift.Target { return a.target(id, left) },
			}, a.env.Now(), 0)
		}
	}
}

// settle forgets restarts that are no longer pending, or no longer without an owner.
func (a *agent) settle(id string) {
	delete(a.entries, id)
	a.loop.Schedule.Remove(id)
	a.metrics.Forget(id)
}

// certain reports whether the restarts of a journal are owed whatever the
// NodeConfig says by now: the change was made.
func (a *agent) certain(ctx context.Context, file string) bool {
	rec, open, err := a.machine.Journal(file).Load(ctx)
	return err == nil && open && rec.Phase == restart.Restarting
}

// named lists the names of the NodeConfigs that there are.
func (a *agent) named() map[string]bool {
	names := make(map[string]bool, len(a.entries))
	for id, e := range a.entries {
		if e.config != nil {
			names[id] = true
		}
	}
	return names
}
