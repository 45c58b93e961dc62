package node

import (
	"fmt"
	"time"

	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/plugin"
)

// arrive sees to it, at the start of a pass, that the open machine is the one at
// the root's path. Handlers go by the path; without this the agent would look at
// one folder while they write to another. When it is another one, or cannot be
// told, what was found before counts for nothing: everything is due.
func (a *agent) arrive() {
	replaced, err := a.machine.Tree.Replaced()
	if err == nil && replaced {
		err = a.reopen()
	}
	switch before := a.unreached; {
	case err != nil && nodeconfig.Text(err) == nodeconfig.Text(before), err == nil && before == nil && !replaced:
		return
	case err != nil:
		a.env.Log.Error("root cannot be opened; nothing is kept until it can", "root", a.env.Root, "err", err)
	case replaced:
		a.env.Log.Warn("another directory is at the root's path, or is mounted there; reconciling everything", "root", a.env.Root)
	default:
		a.env.Log.Info("root can be opened again; reconciling everything", "root", a.env.Root)
	}
	a.unreached = err
	a.collected = time.Time{} // what is known of the other machine is not of this one
	for id, e := range a.entries {
		e.visited = false
		if e.config != nil {
			a.machine.Claims.Set(id, e.claimant())
		}
	}
	a.loop.Schedule.All(a.env.Now())
}

// reopen opens the machine at the root's path in place of the one that was open.
func (a *agent) reopen() error {
	if err := mayChange(a.env, a.settings); err != nil {
		return err
	}
	m, err := nodeconfig.OpenMachine(a.env)
	if err != nil {
		return err
	}
	_ = a.machine.Tree.Close() // what was written was synced
	a.machine = m
	return nil
}

// unreached is the target of an entry while the root cannot be opened.
func unreached(id string, err error) drift.Planner {
	return drift.Refused(id, &plugin.Exit{Code: plugin.ExitUnreadable, Err: fmt.Errorf("the machine is out of reach: %w", err)})
}
