package node

import (
	"errors"
	"sync"
)

// health is what the probe of readiness asks for. It is safe for concurrent use.
type health struct {
	mu    sync.Mutex
	ready bool
	why   error // why not, or what is wrong although it is
}

func (h *health) set(ready bool, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ready, h.why = ready, why
}

// Ready is an error while the agent does not know enough to keep the node, or not
// whether what it knows is still so.
func (h *health) Ready() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ready && h.why == nil {
		return errors.New("the agent has just started")
	}
	return h.why
}

// show has the probe of readiness and the metrics say the same of the source.
func (a *agent) show(ready bool, why error) {
	a.health.set(ready, why)
	if a.woken != nil {
		a.metrics.Reachable(a.blind == nil && (a.reports == nil || a.reports.err() == nil))
		return
	}
	unread, invalid := a.source.nameless()
	n := len(unread) + len(invalid)
	if a.blind != nil {
		n++
	}
	a.metrics.SourceErrors(n)
	if ready {
		a.account()
	}
}

// account shows the NodeConfigs that an earlier agent has reconciled and that no
// document names, as failed, while a document cannot be read: they may stand in it.
func (a *agent) account() {
	if a.unseen == nil {
		a.unseen = map[string]bool{}
		if s, ok := a.reports.(*statuses); ok {
			a.unseen = s.names()
		}
	}
	whole := a.blind == nil && a.source.complete()
	for name := range a.unseen {
		switch {
		case a.entries[name] != nil:
			delete(a.unseen, name) // its own results are shown
		case whole:
			delete(a.unseen, name)
			a.metrics.Forget(name)
		default:
			a.metrics.Missing(name)
		}
	}
}
