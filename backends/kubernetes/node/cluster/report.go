package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/tlspu/keel/api/v1alpha1"
)

// Form is where statuses are written.
type Form string

const (
	// FormMap writes them to status.nodes of each NodeConfig.
	FormMap Form = "map"
	// FormNode writes them to status.configs of the Node's NodeState.
	FormNode Form = "node"
)

// Outcome is what became of a write.
type Outcome string

// Withheld is what is not tried: the server would not take it.
const (
	Written  Outcome = "done"
	Failed   Outcome = "failed"
	Withheld Outcome = "withheld"
)

// ReporterOptions are what a Reporter needs. Its functions must not call the
// Reporter.
type ReporterOptions struct {
	Client  *Client
	Node    string // name of the agent's Node
	Form    Form
	Known   func(name string) (Known, bool) // what the watch said last of a NodeConfig
	NodeUID func() types.UID                // of the Node; empty: nobody knows, or it is gone
	// Cluster is told of doubts about what it knows, and says when an outage is over.
	// Nil: the Reporter goes by its pauses alone.
	Cluster *Cluster
	Now     func() time.Time
	Log     *slog.Logger
	// Event is told what an operator should know of a NodeConfig, Wrote of every
	// write. Both may be nil.
	Event func(name string, uid types.UID, kind, reason, message string)
	Wrote func(Outcome)
	// Jitter gives a time near d, so that not all agents try again together. Nil:
	// from d/2 to d.
	Jitter func(d time.Duration) time.Duration
}

// A Reporter tells the API server what became of visits. Of each NodeConfig the
// latest status is sent, and tried again until the server has it. What still waits
// when the program ends is lost: the next agent visits and tells anew.
//
// Its methods are safe for concurrent use, and only Run and Flush wait.
type Reporter struct {
	o     ReporterOptions
	woken chan struct{}

	mu       sync.Mutex
	waiting  map[string]*waiting
	sent     map[string]sent
	state    state           // in the node form
	number   int             // of the last Report
	pause    pause           // before anything is sent
	troubles map[string]bool // kinds that were logged
	failed   error           // of the last request that failed; nil after one that did not, and when nothing is to be sent
	moved    chan struct{}   // closed and made anew when less waits, or for another reason
}

// waiting is a status that the server does not have yet.
type waiting struct {
	uid    types.UID // of the NodeConfig it is of
	status v1alpha1.NodeStatus
	number int    // of the Report, or of the last try: the lowest is sent first
	report int    // number of the Report: another one may come while this one is sent
	pause  pause  // before this one is sent
	alone  bool   // it is not sent together with others
	held   bool   // it is withheld until there is less than size
	size   int    // of what there was when it was withheld
	told   bool   // an Event said so
	said   string // kind of trouble that was logged
}

// sent is a status that the server took.
type sent struct {
	uid    types.UID // of the NodeConfig that has it
	status v1alpha1.NodeStatus
	rv     string // in the map form: the NodeConfig's resourceVersion with it
	wrong  bool   // it is another one's: the NodeConfig was made anew meanwhile
}

// NewReporter makes a Reporter, which sends nothing before Run.
func NewReporter(o ReporterOptions) *Reporter {
	if o.Event == nil {
		o.Event = func(string, types.UID, string, string, string) {}
	}
	if o.Wrote == nil {
		o.Wrote = func(Outcome) {}
	}
	if o.Jitter == nil {
		o.Jitter = jitter
	}
	r := &Reporter{
		o: o, woken: make(chan struct{}, 1), moved: make(chan struct{}),
		waiting: map[string]*waiting{}, sent: map[string]sent{}, troubles: map[string]bool{},
		state: state{gone: map[string]bool{}},
	}
	if o.Cluster != nil {
		o.Cluster.line.follow(r.retry, r.restored)
	}
	return r
}

// retry ends the pause after failures: an outage is over.
func (r *Reporter) retry() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.troubles["throttled"] {
		r.pause = pause{}
	}
	r.wake()
}

// restored forgets what was sent: the server has gone back to an earlier state.
func (r *Reporter) restored() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.o.Form == FormNode {
		r.lose()
	} else {
		clear(r.sent)
	}
	r.wake()
}

// Report hands over the status of a NodeConfig, in place of one that still waits.
// uid is that of the NodeConfig that was visited: one of that name that was made
// anew does not get it.
func (r *Reporter) Report(name string, uid types.UID, s v1alpha1.NodeStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	w := r.waiting[name]
	if w == nil || w.uid != uid {
		w = &waiting{uid: uid, number: r.number}
		r.waiting[name] = w
	}
	w.status, w.report, w.alone = s, r.number, false
	r.wake()
}

// Before gives the best that is known of the status that the server has, or is
// about to have: what waits to be sent, else what was sent and the watch has not
// shown yet, else what the watch showed. It is false when there is none.
func (r *Reporter) Before(name string) (v1alpha1.NodeStatus, bool) {
	k, known := r.o.Known(name)
	if !known {
		return v1alpha1.NodeStatus{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.waiting[name]; w != nil && w.uid == k.UID {
		return w.status, true
	}
	if r.o.Form == FormNode {
		return r.stateBefore(name, k)
	}
	if s, ok := r.sent[name]; ok && s.uid == k.UID {
		switch {
		case s.wrong:
			return v1alpha1.NodeStatus{}, false
		case newer(s.rv, k.ResourceVersion):
			return s.status, true
		}
		delete(r.sent, name)
	}
	if k.Own == nil {
		return v1alpha1.NodeStatus{}, false
	}
	return *k.Own, true
}

// newer reports whether a resourceVersion is later than another. What cannot be
// compared is not.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}

// Err says why no status can be sent at the moment, while one is to be sent. That a
// single one is refused is only logged.
func (r *Reporter) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.troubles) == 0 {
		return nil
	}
	return r.failed
}

// Sweep says that all NodeConfigs are gone but those that keep names, also those
// that went while no agent ran: nothing of them is sent any more, and their entries
// are removed from the NodeState. keep may be called once more after Sweep has
// returned.
func (r *Reporter) Sweep(keep func(name string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.waiting {
		if !keep(name) {
			r.forget(name)
		}
	}
	for name := range r.sent {
		if !keep(name) {
			r.forget(name)
		}
	}
	r.state.keep = keep
	r.sweepState()
	r.move()
}

func (r *Reporter) forget(name string) {
	delete(r.waiting, name)
	delete(r.sent, name)
}

// Flush waits until everything that was handed over was sent, while Run runs. If
// ctx ends before, or what is left is withheld, the error says what was not sent,
// and why. A pause after a failure ends at once.
func (r *Reporter) Flush(ctx context.Context) error {
	r.review()
	r.mu.Lock()
	r.pause = pause{}
	for _, w := range r.waiting {
		w.pause = pause{}
	}
	r.wake()
	r.mu.Unlock()
	for {
		r.mu.Lock()
		err, hopeless, moved := r.unsent(), r.hopeless(), r.moved
		r.mu.Unlock()
		if err == nil || hopeless {
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return err
		}
	}
}

// hopeless reports whether all that waits is withheld.
func (r *Reporter) hopeless() bool {
	for _, w := range r.waiting {
		if !w.held {
			return false
		}
	}
	return len(r.state.gone) == 0
}

// unsent says what was not sent; nil: everything was.
func (r *Reporter) unsent() error {
	const most = 5
	names := slices.Sorted(maps.Keys(r.waiting))
	if len(names) == 0 && len(r.state.gone) == 0 {
		return nil
	}
	why := r.failed
	switch {
	case r.hopeless():
		why = errors.New("there is no room for it: run the agents with --status=node")
		if r.o.Form == FormNode {
			why = errors.New("the NodeState is full")
		}
	case why == nil && r.o.Form == FormNode && !r.state.synced:
		why = cmp.Or(r.state.err, errors.New("the NodeState was not read yet"))
	case why == nil:
		why = errors.New("there was no time")
	}
	switch {
	case len(names) == 0:
		return fmt.Errorf("entries of NodeConfigs that are gone were not removed from the NodeState: %w", why)
	case len(names) > most:
		names = append(names[:most], fmt.Sprintf("%d more", len(names)-most))
	}
	return fmt.Errorf("status not sent of %s: %w", strings.Join(names, ", "), why)
}

// wake has Run look at what waits.
func (r *Reporter) wake() {
	select {
	case r.woken <- struct{}{}:
	default: // it is to look already
	}
}

// Held is the number of statuses that are withheld.
func (r *Reporter) Held() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.waiting {
		if w.held {
			n++
		}
	}
	return n
}

// move tells Flush and Run that less waits, or for another reason. What is not to be
// sent any more takes its error with it: nothing would be sent that could disprove it.
func (r *Reporter) move() {
	if r.hopeless() {
		r.failed = nil
		clear(r.troubles)
	}
	close(r.moved)
	r.moved = make(chan struct{})
	r.wake()
}
