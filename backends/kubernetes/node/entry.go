package node

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tlspu/keel/backends/kubernetes/node/cluster"
	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"
	"github.com/tlspu/keel/core/drift"
)

// An entry is what the agent knows of one NodeConfig between two runs. Of runs that
// found nothing to do nothing else is written down anywhere.
type entry struct {
	config  *nodeconfig.Config // as the source has it; nil: only a journal is left
	of      *nodeconfig.Config // what is managed of it; nil: nothing
	content *nodeconfig.Config // of, resolved on this node; without what templates gave
	reads   []string           // titles of the ConfigMaps and Secrets that it references

	early     bool    // it was there when the agent started
	scheduled trigger // of what the schedule has
	put       bool    // the schedule has it
	visited   bool
	visitOf   trigger // what the last run was of
	waits     bool    // the last run ended with a Wait
	pending   bool    // a restart is not proven
	said      string  // error that was logged
}

// claimant is the content whose claims count.
func (e *entry) claimant() *nodeconfig.Config {
	if e.content != nil {
		return e.content
	}
	return e.config
}

// unread reports whether something that the NodeConfig references is not known yet, so
// that nobody can tell what it says.
func (e *entry) unread() bool {
	return e.content != nil && errors.Is(e.content.Err, cluster.ErrPending)
}

// A trigger is what a run is of. Another one makes the entry due, at once or after its
// share of a spread.
type trigger struct {
	uid                   types.UID
	generation            int64
	interval              time.Duration
	digest, err, conflict string
	secrets               drift.Secret
	excluded              bool
}

func (a *agent) trigger(id string, e *entry) trigger {
	if e.config == nil {
		return trigger{}
	}
	t := trigger{
		uid: e.config.UID, generation: e.config.Generation, interval: a.interval(e),
		err: nodeconfig.Text(e.config.Err), conflict: nodeconfig.Text(a.machine.Claims.Conflict(id)),
	}
	if c := e.content; c != nil {
		t.digest, t.secrets, t.excluded = c.Digest, c.Secrets, c.Excluded
		if c.Err != nil {
			t.err += "\n" + c.Err.Error()
		}
	}
	return t
}

// managed reports whether runs bring the machine to what the NodeConfig says, or leave
// it alone because it is suspended.
func (a *agent) managed(id string, e *entry) bool {
	return e.content != nil && e.content.Err == nil && !e.content.Excluded && a.machine.Claims.Conflict(id) == nil
}

// interval is the time between two runs of an entry.
func (a *agent) interval(e *entry) time.Duration {
	if e.config != nil && e.config.Interval > 0 {
		return e.config.Interval
	}
	return a.settings.DefaultInterval
}
