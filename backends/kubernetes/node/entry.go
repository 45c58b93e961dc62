package node

import (
	"context"
	"errors"
	"time"

	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tlspu/keel/backends/kubernetes/node/cluster"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/plugin"
)

// backoff gives the time between two visits of a NodeConfig that fails.
func backoff() drift.Backoff { return drift.Backoff{Min: time.Second, Max: 5 * time.Minute} }

// An entry is what the agent remembers of one NodeConfig between two visits. Of
// visits that found nothing to do nothing else is written down anywhere.
type entry struct {
	config  *nodeconfig.Config // as the folder has it; nil: only a journal is left
	of      *nodeconfig.Config // what is kept of it; nil: nothing
	content *nodeconfig.Config // of, resolved with the inputs of edition; without what templates gave
	edition int
	lost    error // why it is not kept although it is sound

	early   bool      // it was there when the agent started
	held    trigger   // what from is of
	from    time.Time // when what is new is visited
	holding bool      // from is of a visit that was not made yet
	visited bool
	last    time.Time // of the last visit's end
	visitOf trigger   // what the last visit was of
	waits   bool      // the last visit ended with a Wait
	failing bool
	retry   drift.BackoffState
	pending bool   // a restart is not proven
	said    string // error that was logged
	target  *lazy  // while it is listed
}

// claimant is the content whose claims count.
func (e *entry) claimant() *nodeconfig.Config {
	if e.content != nil {
		return e.content
	}
	return e.config
}

// kept reports whether visits bring the machine to what the NodeConfig says, or
// leave it alone because it is suspended.
func (e *entry) kept() bool {
	return e.content != nil && e.content.Err == nil && !e.content.Excluded && e.lost == nil
}

// unread reports whether something that the NodeConfig reads is not known yet, so
// that nobody can tell what it says.
func (e *entry) unread() bool {
	return e.content != nil && errors.Is(e.content.Err, cluster.ErrPending)
}

// A trigger is what a visit is of. Another one makes the entry due, at once or
// when hold says.
type trigger struct {
	uid               types.UID
	generation        int64
	digest, err, lost string
	secrets           drift.Secret
	excluded          bool
}

func (e *entry) trigger() trigger {
	if e.config == nil {
		return trigger{}
	}
	t := trigger{uid: e.config.Uid, generation: e.config.Generation, err: nodeconfig.Text(e.config.Err), lost: nodeconfig.Text(e.lost)}
	if c := e.content; c != nil {
		t.digest, t.secrets, t.excluded = c.Digest, c.Secrets, c.Excluded
		if c.Err != nil {
			t.err += "\n" + c.Err.Error()
		}
	}
	return t
}

// due reports whether the entry is to be visited at now: it is new, it says
// something else, its interval has passed, or it failed and has waited for long
// enough. One that waits for something is listed, and the loop knows until when.
func (e *entry) due(now time.Time, interval time.Duration) bool {
	switch {
	case e.unread():
		return false
	case e.waits:
		return true
	case !e.visited || e.trigger() != e.visitOf:
		return !now.Before(e.from) || e.from.Sub(now) > maxSpread // a clock was set back
	}
	if e.failing {
		return backoff().Ready(e.retry, now)
	}
	since := now.Sub(e.last)
	return since >= e.interval(interval) || since < 0 // a clock that was set back makes nobody wait
}

// interval is the time between two visits; usual is that of a NodeConfig that names
// none.
func (e *entry) interval(usual time.Duration) time.Duration {
	if e.config != nil && e.config.Interval > 0 {
		return e.config.Interval
	}
	return usual
}

// note takes down what a visit that ended at now came to. A Wait is no failure. A
// mistake in the NodeConfig itself is not tried again before it is mended.
func (e *entry) note(res drift.Result, now time.Time) {
	wait, invalid := (*drift.Wait)(nil), (*plugin.Exit)(nil)
	e.waits = errors.As(res.Err, &wait)
	e.visited, e.last, e.visitOf, e.target, e.holding = true, now, e.trigger(), nil, false
	switch {
	case e.waits:
	case res.Err == nil, errors.As(res.Err, &invalid) && invalid.Code == nodeconfig.ExitInvalid:
		e.failing, e.retry = false, drift.BackoffState{}
	default:
		e.failing, e.retry = true, backoff().Started(e.retry, now)
	}
}

// A lazy target is made when its visit begins and dropped when it ends, so that
// a long list of them costs little.
type lazy struct {
	id    string
	make  func() drift.Planner
	now   func() time.Time
	made  drift.Planner
	began time.Time
}

func (l *lazy) get() drift.Planner {
	if l.made == nil {
		l.began = l.now()
		l.made = l.make()
	}
	return l.made
}

func (l *lazy) ID() string { return l.id }

func (l *lazy) Observe(ctx context.Context) (declared, observed drift.State, err error) {
	return l.get().Observe(ctx)
}

func (l *lazy) Compare(declared, observed drift.State) drift.Report {
	if c, ok := l.made.(drift.Comparer); ok { // it was observed
		return c.Compare(declared, observed)
	}
	return drift.Compare(declared, observed)
}

func (l *lazy) Plan(ctx context.Context, r drift.Report) ([]drift.Step, error) {
	return l.get().Plan(ctx, r)
}
