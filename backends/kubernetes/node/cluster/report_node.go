package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tlspu/keel/api/v1alpha1"
)

// maxEntries is how many entries a NodeState may hold; its CRD says so.
const maxEntries = 1000

// state is what is known of the NodeState.
type state struct {
	synced bool                // it was read, if it is there
	object *v1alpha1.NodeState // the newest of what the watch showed and what the server answered; nil: there is none
	lost   int                 // how often it went
	gone   map[string]bool     // entries to be removed
	keep   func(string) bool   // names the entries to be kept, before they are known
	err    error               // of the watch
}

// has reports whether there is an entry that is not to be removed.
func (s *state) has(name string) bool {
	if s.object == nil || s.gone[name] {
		return false
	}
	_, ok := s.object.Status.Configs[name]
	return ok
}

// entries is the number of those.
func (s *state) entries() (n int) {
	if s.object != nil {
		for name := range s.object.Status.Configs {
			if s.has(name) {
				n++
			}
		}
	}
	return n
}

// follow keeps state in line with the API server until ctx ends.
func (r *Reporter) follow(ctx context.Context) {
	f := feed{
		client: r.o.Client.keel, resource: "nodestates", name: r.o.Node, example: &v1alpha1.NodeState{},
		store: &single[v1alpha1.NodeState]{taken: r.watched},
	}
	if r.o.Cluster != nil {
		f.line = r.o.Cluster.line
	}
	f.heard = func(err error) {
		r.mu.Lock()
		before := r.state.err
		r.state.err = err
		r.mu.Unlock()
		say(r.o.Log, f.String(), before, err)
	}
	f.run(ctx)
}

// watched takes what the watch shows.
func (r *Reporter) watched(s *v1alpha1.NodeState, synced bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s == nil {
		r.lose()
	} else {
		r.adopt(s)
	}
	r.state.synced = r.state.synced || synced
	r.wake()
}

// adopt takes the NodeState as the watch or an answer shows it. What is older than
// what is known is ignored: the watch comes after the answer.
func (r *Reporter) adopt(s *v1alpha1.NodeState) {
	if known := r.state.object; known != nil && newer(known.ResourceVersion, s.ResourceVersion) {
		return
	}
	s.ManagedFields = nil
	r.state.object = s
	r.sweepState()
}

// lose takes down that there is no NodeState any more, as when somebody deletes it,
// or the garbage collector does after its Node.
func (r *Reporter) lose() {
	r.state.lost++
	r.state.object = nil
	clear(r.state.gone)
	r.repeat()
}

// repeat has all statuses sent again that this agent has sent.
func (r *Reporter) repeat() {
	for name, s := range r.sent {
		if r.waiting[name] == nil {
			r.number++
			r.waiting[name] = &waiting{uid: s.uid, status: s.status, number: r.number, report: r.number}
		}
	}
}

// sweepState marks what Sweep found to be gone, once it is known what there is.
func (r *Reporter) sweepState() {
	if r.state.object == nil || r.state.keep == nil {
		return
	}
	for name := range r.state.object.Status.Configs {
		if !r.state.keep(name) {
			r.state.gone[name] = true
		}
	}
	r.state.keep = nil
}

// stateBefore is Before in the node form. The entries of a NodeState that another
// Node owned, of the same name, are of another machine.
func (r *Reporter) stateBefore(name string, k Known) (s v1alpha1.NodeStatus, ok bool) {
	if !r.state.has(name) || r.foreign() {
		return s, false
	}
	if sent, ok := r.sent[name]; ok && sent.uid != k.UID {
		return s, false
	}
	return r.state.object.Status.Configs[name], true
}

// foreign reports whether the NodeState belongs to a Node that is not there any more.
func (r *Reporter) foreign() bool {
	uid := r.o.NodeUID()
	return uid != "" && r.state.object != nil && !slices.ContainsFunc(r.state.object.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "Node" && o.UID == uid
	})
}

// nextState gives all that may be sent together, and the entries to be removed.
func (r *Reporter) nextState() (entries []entry, gone []string, again time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if left := r.pause.left(r.o.Now()); left > 0 || !r.state.synced {
		return nil, nil, left // the watch wakes
	}
	for name, w := range r.ready(&again) {
		if k, ok := r.o.Known(name); ok && k.UID == w.uid {
			entries = append(entries, entry{name, *w, k})
		} else {
			r.drop(name)
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.number, b.number) })
	room := maxEntries - r.state.entries()
	entries = slices.DeleteFunc(entries, func(e entry) bool {
		if r.state.has(e.name) {
			return false
		}
		room--
		if room < 0 {
			r.hold(e, r.waiting[e.name], maxEntries)
		}
		return room < 0
	})
	if i := slices.IndexFunc(entries, func(e entry) bool { return e.alone }); i >= 0 && len(entries) > 1 {
		one := entries[i : i+1]
		if entries = slices.DeleteFunc(slices.Clone(entries), func(e entry) bool { return e.alone }); len(entries) == 0 {
			entries = one
		}
	}
	return entries, slices.Sorted(maps.Keys(r.state.gone)), again
}

// sendState takes the next step: the NodeState is made, is given to its Node, or
// gets all that waits in one patch.
func (r *Reporter) sendState(ctx context.Context, entries []entry, gone []string) *trouble {
	r.mu.Lock()
	object, lost, foreign := r.state.object, r.state.lost, r.foreign()
	r.mu.Unlock()
	switch {
	case object != nil && !foreign:
		return r.patchState(ctx, entries, gone, lost)
	case object != nil:
		return r.step(r.mendState(ctx, object.UID), lost)
	case len(entries) == 0:
		return &trouble{scope: scopeNone} // it went, and with it what was to be removed
	}
	return r.step(r.createState(ctx), lost)
}

// step says how to go on after a request that was not for the statuses themselves.
func (r *Reporter) step(t *trouble, lost int) *trouble {
	switch {
	case t == nil:
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.foreign() {
			return &trouble{scope: scopeAll, kind: "owner", err: fmt.Errorf("the NodeState %s did not become the Node's", r.o.Node)}
		}
		return &trouble{scope: scopeNone}
	case t.scope == scopeGone:
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.state.lost == lost { // else the watch has said so
			r.lose()
		}
		return &trouble{scope: scopeNone}
	}
	t.scope = scopeAll
	return t
}

// stateMeta is the metadata of a NodeState as an agent writes it.
type stateMeta struct {
	Name            string                  `json:"name,omitempty"`
	UID             types.UID               `json:"uid,omitempty"`
	OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
}

func (r *Reporter) owned() (stateMeta, *trouble) {
	uid := r.o.NodeUID()
	if uid == "" {
		return stateMeta{}, &trouble{scope: scopeAll, kind: "node", err: fmt.Errorf(
			"create nodestates of %s: the Node, which is to own it, is not known", r.o.Node)}
	}
	return stateMeta{OwnerReferences: []metav1.OwnerReference{
		{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Node", Name: r.o.Node, UID: uid},
	}}, nil
}

func (r *Reporter) createState(ctx context.Context) *trouble {
	m, t := r.owned()
	if t != nil {
		return t
	}
	m.Name = r.o.Node
	body, err := json.Marshal(struct {
		APIVersion string    `json:"apiVersion"`
		Kind       string    `json:"kind"`
		Metadata   stateMeta `json:"metadata"`
	}{v1alpha1.GroupVersion.String(), "NodeState", m})
	if err != nil {
		return &trouble{kind: "refused", err: err}
	}
	request := r.o.Client.keel.Post().Resource("nodestates").Body(body).SetHeader("Content-Type", "application/json")
	answer, t := r.write(ctx, request, "create", "nodestates", r.o.Node)
	if t != nil {
		return t
	}
	return r.answered(answer, func(*v1alpha1.NodeState) bool { return true })
}

// mendState gives the NodeState to the Node that is there now, before the garbage
// collector removes it. What another agent has written is removed: it was on another
// machine.
func (r *Reporter) mendState(ctx context.Context, uid types.UID) *trouble {
	m, t := r.owned()
	if t != nil {
		return t
	}
	m.UID = uid // that of another NodeState is refused
	body, err := json.Marshal(map[string]stateMeta{"metadata": m})
	if err != nil {
		return &trouble{kind: "refused", err: err}
	}
	request := r.o.Client.keel.Patch(types.MergePatchType).Resource("nodestates").Name(r.o.Node).Body(body)
	answer, t := r.write(ctx, request, "patch", "nodestates", r.o.Node)
	if t != nil {
		return t
	}
	return r.answered(answer, func(s *v1alpha1.NodeState) bool {
		r.repeat()
		for name := range s.Status.Configs {
			if r.waiting[name] == nil {
				r.state.gone[name] = true
			}
		}
		return true
	})
}

// patchState writes statuses and removes entries, if the NodeState has not gone
// meanwhile.
func (r *Reporter) patchState(ctx context.Context, entries []entry, gone []string, lost int) *trouble {
	configs := map[string]*v1alpha1.NodeStatus{}
	for _, name := range gone {
		configs[name] = nil
	}
	for _, e := range entries {
		configs[e.name] = &e.status
	}
	body, err := json.Marshal(map[string]any{"status": map[string]any{"configs": configs}})
	if err != nil {
		return &trouble{scope: scopeOne, kind: "refused", err: err}
	}
	request := r.o.Client.keel.Patch(types.MergePatchType).Resource("nodestates").Name(r.o.Node).SubResource("status").Body(body)
	answer, t := r.write(ctx, request, "patch", "nodestates/status", r.o.Node)
	switch {
	case t != nil && t.scope == scopeGone, t != nil && len(entries) == 0:
		return r.step(t, lost)
	case t != nil:
		return t
	}
	there := false
	t = r.answered(answer, func(*v1alpha1.NodeState) bool {
		if there = r.state.lost == lost; !there {
			return false
		}
		for _, name := range gone {
			delete(r.state.gone, name)
		}
		for _, e := range entries {
			r.sent[e.name] = sent{uid: e.uid, status: e.status}
		}
		return true
	})
	if t == nil && !there {
		return &trouble{scope: scopeNone}
	}
	return t
}

// answered takes the NodeState that a request was answered with, if done, which
// takes down what was sent, says that it counts.
func (r *Reporter) answered(answer []byte, done func(*v1alpha1.NodeState) bool) *trouble {
	s := new(v1alpha1.NodeState)
	if err := json.Unmarshal(answer, s); err != nil {
		return &trouble{kind: "refused", err: fmt.Errorf("read the answer to a write of nodestates of %s: %w", r.o.Node, err)}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if done(s) {
		r.adopt(s)
	}
	return nil
}
