package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	correlator "k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/record/util"

	"github.com/tlspu/keel/api/v1alpha1"
)

const (
	// component is who says what Events say.
	component = "keel-node-agent"
	// maxQueue is how many Events wait at most, as when the API server is away.
	maxQueue = 256
	// maxRemembered is how many Events are known, to count them when they happen again.
	maxRemembered = 512
	// maxForbidden is how often an Event is tried that may not be written: a server that
	// starts does not know anybody's rights at first.
	maxForbidden = 4
)

// EventsOptions are what Events need. Wrote, which may be nil, is told of every
// write.
type EventsOptions struct {
	Client *Client
	Node   string // name of the agent's Node
	Now    func() time.Time
	Log    *slog.Logger
	Wrote  func(Outcome)
	Jitter func(d time.Duration) time.Duration // as that of ReporterOptions
}

// Events tells people what happened, on the NodeConfigs it happened to. What
// happens again is counted in the same Event, and who says too much is not heard, as
// with all of Kubernetes' components.
//
// An Event may be lost: when more than 256 wait while the API server is away, when
// the server refuses it, and when the program ends.
//
// It takes client-go's correlator and not its broadcaster, which cannot say when
// everything was sent, and gives up after two minutes.
type Events struct {
	o     EventsOptions
	queue chan *corev1.Event

	mu    sync.Mutex
	left  int           // not sent yet
	moved chan struct{} // closed and made anew when less waits
	err   error         // of the last request, if it failed
}

// NewEvents makes Events, which sends nothing before Run.
func NewEvents(o EventsOptions) *Events {
	if o.Wrote == nil {
		o.Wrote = func(Outcome) {}
	}
	if o.Jitter == nil {
		o.Jitter = jitter
	}
	return &Events{o: o, queue: make(chan *corev1.Event, maxQueue), moved: make(chan struct{})}
}

// Event says that something happened to the NodeConfig with that UID on this node.
// kind is Normal or Warning, reason one word in CamelCase. It never blocks.
func (e *Events) Event(name string, uid types.UID, kind, reason, message string) {
	now := metav1.Time{Time: e.o.Now()}
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: util.GenerateEventName(name, now.UnixNano()), Namespace: metav1.NamespaceDefault},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: name, UID: uid,
		},
		Reason:              reason,
		Message:             e.o.Node + ": " + message,
		Source:              corev1.EventSource{Component: component, Host: e.o.Node},
		FirstTimestamp:      now,
		LastTimestamp:       now,
		Count:               1,
		Type:                kind,
		ReportingController: component,
		ReportingInstance:   e.o.Node,
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case e.queue <- event:
		e.left++
	default:
		e.o.Wrote(Withheld)
	}
}

// Run sends Events until ctx ends. It is called once.
func (e *Events) Run(ctx context.Context) {
	seen := correlator.NewEventCorrelatorWithOptions(correlator.CorrelatorOptions{LRUCacheSize: maxRemembered, Clock: eventClock{e.o.Now}})
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-e.queue:
			e.send(ctx, seen, event)
			e.mu.Lock()
			e.left--
			close(e.moved)
			e.moved = make(chan struct{})
			e.mu.Unlock()
		}
	}
}

// Flush waits until all Events were sent, while Run runs. If ctx ends before, the
// error says why they were not.
func (e *Events) Flush(ctx context.Context) error {
	for {
		e.mu.Lock()
		left, moved, err := e.left, e.moved, e.err
		e.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			if err == nil {
				err = ctx.Err()
			}
			return fmt.Errorf("%d Events not sent: %w", left, err)
		}
	}
}

// send sends an Event, again and again while the server cannot take it.
func (e *Events) send(ctx context.Context, seen *correlator.EventCorrelator, event *corev1.Event) {
	known, err := seen.EventCorrelate(event)
	if err != nil {
		e.o.Log.Error("Event cannot be made", "target", event.InvolvedObject.Name, "err", err)
		return
	}
	if known.Skip {
		e.o.Wrote(Withheld)
		return
	}
	var p pause
	for tries := 1; ; tries++ {
		t := e.write(ctx, known)
		if ctx.Err() != nil {
			return
		}
		e.heard(t)
		if t == nil || t.scope != scopeAll || t.kind == "forbidden" && tries == maxForbidden {
			return // or it would be refused again
		}
		now := e.o.Now()
		p.begin(now, t.after, e.o.Jitter)
		timer := time.NewTimer(p.left(now))
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// heard logs how a request went, if the last one went otherwise.
func (e *Events) heard(t *trouble) {
	e.mu.Lock()
	before := e.err
	e.err = nil
	if t != nil {
		e.err = t.err
	}
	e.mu.Unlock()
	switch {
	case t != nil && before == nil:
		e.o.Log.Error("Events cannot be sent, some may be lost", "err", t.err)
	case t == nil && before != nil:
		e.o.Log.Info("Events are sent again")
	}
}

// write makes an Event, or adds to what the server has of it.
func (e *Events) write(ctx context.Context, r *correlator.EventCorrelateResult) *trouble {
	core := e.o.Client.core
	if r.Event.Count > 1 {
		t := e.request(ctx, core.Patch(types.StrategicMergePatchType).Name(r.Event.Name).Body(r.Patch), "patch")
		if t == nil || t.scope != scopeGone { // the server forgets them after an hour
			return t
		}
	}
	body, err := json.Marshal(r.Event)
	if err != nil {
		return &trouble{scope: scopeOne, err: err}
	}
	return e.request(ctx, core.Post().Body(body).SetHeader("Content-Type", "application/json"), "create")
}

func (e *Events) request(ctx context.Context, request *rest.Request, verb string) *trouble {
	_, t := write(ctx, request.Namespace(metav1.NamespaceDefault).Resource("events"), verb, "events", "in namespace "+metav1.NamespaceDefault)
	if t == nil {
		e.o.Wrote(Written)
	} else {
		e.o.Wrote(Failed)
	}
	return t
}

// An eventClock is what the correlator asks for the time.
type eventClock struct{ now func() time.Time }

func (c eventClock) Now() time.Time                  { return c.now() }
func (c eventClock) Since(t time.Time) time.Duration { return c.now().Sub(t) }
