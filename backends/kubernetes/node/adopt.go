package node

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"

	"github.com/tlspu/keel/core/restart"
)

// contest finds out which NodeConfigs claim what an older one owns.
func (a *agent) contest() {
	var all []*nodeconfig.Config
	for _, e := range a.entries {
		if e.config != nil {
			all = append(all, e.claimant())
		}
	}
	lost := nodeconfig.Conflicts(all, &a.machine.Tree.View)
	for _, e := range a.entries {
		if e.config != nil {
			e.lost = lost[e.claimant()]
		}
	}
}

// adopt finds the journals that no visit of a NodeConfig will bring to their end.
// Before the agent is ready, or what a NodeConfig reads is known, nobody knows which
// those are: only restarts that are owed whatever a NodeConfig says by now are
// adopted then.
func (a *agent) adopt(ctx context.Context, ready bool) {
	for id, e := range a.entries {
		if e.kept() {
			owed := nodeconfig.LeftoverID + strings.TrimSuffix(nodeconfig.FileName(id), nodeconfig.Suffix)
			if a.entries[owed] != nil {
				delete(a.entries, owed) // it is the NodeConfig's again
				a.metrics.Forget(owed)
			}
		}
	}
	files, err := a.machine.Tree.List(nodeconfig.JournalDir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			a.env.Log.Error("journals of restarts cannot be listed; those of NodeConfigs that are gone wait", "err", err)
		}
		return
	}
	mine, unread := map[string]bool{}, map[string]bool{}
	for id, e := range a.entries {
		mine[nodeconfig.FileName(id)], unread[nodeconfig.FileName(id)] = e.kept(), e.unread()
	}
	for _, file := range files {
		name, ok := strings.CutSuffix(file, nodeconfig.Suffix)
		if !ok || mine[file] || a.entries[nodeconfig.LeftoverID+name] != nil || (!ready || unread[file]) && !a.certain(ctx, file) {
			continue
		}
		a.env.Log.Info("restarts of a NodeConfig that is not kept are pending", "target", name)
		a.entries[nodeconfig.LeftoverID+name] = &entry{}
	}
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
