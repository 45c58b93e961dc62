package node

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/node/monitor"
	"github.com/tlspu/keel/core/drift"
)

// events is where operators are told what happened to a NodeConfig. None of them
// may ever be seen: they are for people, and nothing depends on them.
type events interface {
	Event(name string, uid types.UID, kind, reason, message string)
}

// Reasons of Events; docs/spec/monitoring.md explains them.
const (
	reasonChanged        = "Changed"
	reasonFailed         = "Failed"
	reasonConflict       = "Conflict"
	reasonRecovered      = "Recovered"
	reasonRestartPending = "RestartPending"
)

// before is what was known of an entry before a visit.
type before struct {
	pending bool
	said    string
}

// tell says by Events what a visit changed: an error that lasts is said once.
func (a *agent) tell(name string, e *entry, was before, res drift.Result) {
	if a.events == nil || e.config == nil || e.waits {
		return
	}
	event := func(kind, reason, message string) {
		a.events.Event(name, e.config.UID, kind, reason, cut(message, v1alpha1.MaxMessage))
	}
	said := shown(res.Err)
	if res.Changed {
		event(corev1.EventTypeNormal, reasonChanged, did(res))
	}
	switch {
	case res.Err != nil && said != was.said && a.machine.Claims.Conflict(name) != nil:
		event(corev1.EventTypeWarning, reasonConflict, said)
	case res.Err != nil && said != was.said:
		event(corev1.EventTypeWarning, reasonFailed, said)
	case res.Err == nil && was.said != "":
		event(corev1.EventTypeNormal, reasonRecovered, "recovered")
	}
	if e.pending && !was.pending {
		event(corev1.EventTypeWarning, reasonRestartPending, "services wait for a restart that a change needs")
	}
}

// count has metrics count a visit, also of the restarts that a NodeConfig which is
// gone still owes: nothing else but the log tells of them.
func (a *agent) count(name string, e *entry, res drift.Result, took time.Duration, now time.Time) {
	restarts := a.machine.Proven
	a.machine.Proven = 0
	handler := monitor.NoHandler
	if e.config != nil {
		handler = e.config.Handler
	}
	v := monitor.Visit{
		NodeConfig: name, Handler: handler, Changed: res.Changed, Pending: e.pending, Took: took, End: now,
		Restarts: restarts, Result: monitor.Succeeded, Excluded: e.content != nil && e.content.Excluded,
	}
	switch {
	case e.waits:
		v.Result = monitor.Waiting
	case res.Err != nil:
		v.Result = monitor.Failed
	}
	a.metrics.Visited(v)
}
