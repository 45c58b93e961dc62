package cluster

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// lookTime is the time between two looks at whether there is room for what is
// withheld.
const lookTime = time.Minute

// An entry is a status on its way.
type entry struct {
	name string
	waiting
	known Known
}

// Run sends what is handed over until ctx ends, one request at a time. It is called
// once.
func (r *Reporter) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	if r.o.Form == FormNode {
		running.Go(func() { r.follow(ctx) })
	}
	r.send(ctx)
}

func (r *Reporter) send(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if again := r.round(ctx); again > 0 {
			timer.Reset(again)
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
			return
		case <-r.woken:
		case <-timer.C:
		}
	}
}

// round sends what may be sent now. again is the time until more may; zero:
// somebody wakes it.
func (r *Reporter) round(ctx context.Context) (again time.Duration) {
	r.review()
	for ctx.Err() == nil {
		var entries []entry
		var gone []string
		var t *trouble
		if r.o.Form == FormNode {
			if entries, gone, again = r.nextState(); len(entries)+len(gone) > 0 {
				t = r.sendState(ctx, entries, gone)
			}
		} else if entries, again = r.nextEntry(); len(entries) > 0 {
			t = r.sendEntry(ctx, entries[0])
		}
		if len(entries)+len(gone) == 0 {
			return again
		}
		if ctx.Err() == nil {
			r.settle(entries, t)
		}
	}
	return 0
}

// write sends a request of this Reporter.
func (r *Reporter) write(ctx context.Context, request *rest.Request, verb, resource, name string) ([]byte, *trouble) {
	body, t := write(ctx, request, verb, resource, "of "+name)
	if t == nil {
		r.o.Wrote(Written)
	} else {
		r.o.Wrote(Failed)
	}
	return body, t
}

// review lets those that are withheld go on if there is less than there was.
func (r *Reporter) review() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, w := range r.waiting {
		if !w.held {
			continue
		}
		k, ok := r.o.Known(name)
		switch {
		case !ok || k.UID != w.uid:
			r.drop(name)
		case r.room(k) < w.size:
			w.held = false
		}
	}
}

// room is the size of what a status is added to: as long as it does not shrink, what
// did not fit will not.
func (r *Reporter) room(k Known) int {
	if r.o.Form == FormNode {
		return r.state.entries()
	}
	return k.Size
}

// ready lists what may be sent now. again is set to the time until more may.
func (r *Reporter) ready(again *time.Duration) iter.Seq2[string, *waiting] {
	now := r.o.Now()
	later := func(d time.Duration) {
		if *again == 0 || d < *again {
			*again = d
		}
	}
	return func(yield func(string, *waiting) bool) {
		if left := r.pause.left(now); left > 0 {
			*again = left
			return
		}
		for name, w := range r.waiting {
			left := w.pause.left(now)
			switch {
			case w.held:
				later(lookTime)
			case left > 0:
				later(left)
			case !yield(name, w):
				return
			}
		}
	}
}

// nextEntry gives the status that has waited longest, if one may be sent.
func (r *Reporter) nextEntry() (one []entry, again time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		name, first := "", (*waiting)(nil)
		for n, w := range r.ready(&again) {
			if first == nil || w.number < first.number {
				name, first = n, w
			}
		}
		if first == nil {
			return nil, again
		}
		if k, ok := r.o.Known(name); ok && k.UID == first.uid {
			return []entry{{name, *first, k}}, 0
		}
		r.drop(name)
	}
}

// drop gives up a status: its NodeConfig is gone, or was made anew.
func (r *Reporter) drop(name string) {
	delete(r.waiting, name)
	r.move()
}

// settle takes down what became of what was sent.
func (r *Reporter) settle(entries []entry, t *trouble) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.move()
	if t == nil {
		r.worked(entries)
		return
	}
	now := r.o.Now()
	switch {
	case t.scope == scopeNone:
		return
	case t.scope != scopeAll && t.err != nil:
		r.taken() // the server has judged this one
	case t.scope == scopeAll:
		r.failed = t.err
		r.pause.begin(now, t.after, r.o.Jitter)
		if r.o.Cluster != nil && (t.kind == "unreachable" || t.kind == "server") {
			r.o.Cluster.line.doubt()
		}
		if !r.troubles[t.kind] {
			r.troubles[t.kind] = true
			r.o.Log.Error("statuses cannot be sent", "err", t.err)
		}
	}
	for _, e := range entries {
		w := r.waiting[e.name]
		if w == nil || w.uid != e.uid {
			continue // nobody wants to know any more
		}
		r.number++
		w.number = r.number // after the others
		switch {
		case t.scope == scopeGone:
			r.drop(e.name)
			if r.o.Cluster != nil {
				r.o.Cluster.missing(e.name, e.uid)
			}
		case t.scope == scopeAll:
		case len(entries) > 1:
			w.alone = true
		case t.scope == scopeSize:
			r.hold(e, w, r.room(e.known))
		default:
			r.failed = t.err
			w.pause.begin(now, t.after, r.o.Jitter)
			if w.said != t.kind {
				w.said = t.kind
				r.o.Log.Error("status cannot be sent", "target", e.name, "err", t.err)
			}
		}
	}
}

// worked takes down that a request worked, with what it held.
func (r *Reporter) worked(entries []entry) {
	r.taken()
	for _, e := range entries {
		w := r.waiting[e.name]
		if w == nil {
			continue // it was forgotten
		}
		if w.said != "" {
			w.said = ""
			r.o.Log.Info("status is sent again", "target", e.name)
		}
		if w.report == e.report {
			delete(r.waiting, e.name)
		} else {
			w.pause, w.told = pause{}, false
		}
	}
}

// taken takes down that the server takes statuses: no earlier error stands any more.
func (r *Reporter) taken() {
	r.pause, r.failed = pause{}, nil
	if len(r.troubles) > 0 {
		clear(r.troubles)
		r.o.Log.Info("statuses are sent again")
	}
}

// hold withholds a status until what it is added to is less than size.
func (r *Reporter) hold(e entry, w *waiting, size int) {
	w.held, w.size = true, size
	if w.told {
		return
	}
	w.told = true
	r.o.Wrote(Withheld)
	if r.o.Form == FormNode {
		r.o.Log.Error("status is withheld: the NodeState is full", "target", e.name)
		return
	}
	r.o.Log.Error("status is withheld: the NodeConfig is too large with the results of all nodes; run the agents with --status=node", "target", e.name)
	r.o.Event(e.name, e.uid, corev1.EventTypeWarning, "StatusTooLarge", fmt.Sprintf(
		"with the results of all nodes this NodeConfig is too large for the API server, so that of node %s is withheld: run the agents with --status=node", r.o.Node))
}
