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
