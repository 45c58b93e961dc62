package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tlspu/keel/api/v1alpha1"
)

const (
	states     = " /apis/keel.tlspu.io/v1alpha1/nodestates"
	ownerNode1 = `"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n1","uid":"node-1"}]`
	creation   = `POST` + states + ` {"apiVersion":"keel.tlspu.io/v1alpha1","kind":"NodeState","metadata":{"name":"n1",` + ownerNode1 + `}}`
)

// patchedState is a patch of the entries of n1's NodeState.
func patchedState(configs string) string {
	return `PATCH` + states + `/n1/status {"status":{"configs":{` + configs + `}}}`
}

// A stateServer is as much of an API server as a NodeState needs.
type stateServer struct {
	object *v1alpha1.NodeState
	rv     int
	made   int
	says   func(request string) (answer, bool) // before it looks
}

func (s *stateServer) answer(request string) answer {
	if s.says != nil {
		if a, ok := s.says(request); ok {
			return a
		}
	}
	verb, rest, _ := strings.Cut(request, " ")
	path, body, _ := strings.Cut(rest, " ")
	var patch struct {
		Metadata metav1.ObjectMeta
		Status   struct {
			Configs map[string]*v1alpha1.NodeStatus
		}
	}
	if err := json.Unmarshal([]byte(body), &patch); err != nil {
		return answer{code: 400, body: err.Error()}
	}
	s.rv++
	switch {
	case verb == "POST" && s.object != nil:
		return refusal(409, metav1.StatusReasonAlreadyExists, "already exists", "")
	case verb == "POST":
		s.made++
		s.object = &v1alpha1.NodeState{ObjectMeta: patch.Metadata}
		s.object.UID = types.UID(fmt.Sprint("state-", s.made))
	case s.object == nil:
		return refusal(404, metav1.StatusReasonNotFound, `nodestates "n1" not found`, "")
	case !strings.HasSuffix(path, "/status"):
		s.object.OwnerReferences = patch.Metadata.OwnerReferences
	default:
		configs := maps.Clone(s.object.Status.Configs)
		for name, c := range patch.Status.Configs {
			if c == nil {
				delete(configs, name)
			} else {
				if configs == nil {
					configs = map[string]v1alpha1.NodeStatus{}
				}
				configs[name] = *c
			}
		}
		s.object.Status.Configs = configs
	}
	s.object.ResourceVersion = fmt.Sprint(s.rv)
	data, err := json.Marshal(s.object)
	if err != nil {
		return answer{code: 500, body: err.Error()}
	}
	return answer{code: 200, body: string(data)}
}

// stored is a NodeState with those entries, as an earlier agent left it.
func stored(owner types.UID, configs ...string) *v1alpha1.NodeState {
	s := &v1alpha1.NodeState{Status: v1alpha1.NodeStateStatus{Configs: map[string]v1alpha1.NodeStatus{}}}
	s.Name, s.UID, s.ResourceVersion = "n1", "state-0", "1"
	s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: owner}}
	for _, name := range configs {
		s.Status.Configs[name] = statusOf("stored", 0)
	}
	return s
}

// newStateDesk is a desk in the node form, whose watch has shown what the server has.
func newStateDesk(t *testing.T, object *v1alpha1.NodeState) (*desk, *stateServer) {
	s := &stateServer{object: object, rv: 1}
	d := newDesk(t, FormNode, s.answer)
	for _, name := range []string{"motd", "sshd", "issue"} {
		d.know(name, Known{UID: "a"})
	}
	if object == nil {
		d.watched(nil, true)
	} else {
		d.watched(object.DeepCopy(), true)
	}
	return d, s
}

// of removes the times of requests.
func (d *desk) of(requests []string) (list []string) {
	for _, r := range requests {
		_, r, _ = strings.Cut(r, " ")
		list = append(list, r)
	}
	return list
}

func (d *desk) wants(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, d.of(d.after(0))); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func (d *desk) has(t *testing.T, name, want string) {
	t.Helper()
	if s, ok := d.Before(name); ok != (want != "") || s.Message != want {
		t.Errorf("before, of %s: %v, %v, want %q", name, s, ok, want)
	}
}

func TestReporter_makesItsNodeState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := newStateDesk(t, nil)
		d.wants(t)
		d.node("")
		d.Report("motd", "a", statusOf("m", 1))
		d.Report("sshd", "a", statusOf("s", 2))
		d.wants(t)
		if got := d.log.said(); !strings.Contains(got, "the Node, which is to own it, is not known") {
			t.Errorf("log:\n%s", got)
		}
		d.node("node-1")
		want := []string{creation, patchedState(`"motd":` + entryOf("m", 1) + `,"sshd":` + entryOf("s", 2))}
		if diff := cmp.Diff(want, d.of(d.after(time.Second))); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		d.has(t, "motd", "m")
		d.Report("motd", "a", statusOf("m2", 1))
		d.wants(t, patchedState(`"motd":`+entryOf("m2", 1)))
		d.has(t, "motd", "m2")
		if err := d.Flush(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestReporter_readsItsNodeState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stateServer{object: stored("node-1", "motd", "sshd", "gone", "late"), rv: 1}
		d := newDesk(t, FormNode, s.answer)
		d.know("motd", Known{UID: "a"})
		d.know("sshd", Known{UID: "a"})
		d.Report("motd", "a", statusOf("m", 1))
		d.Sweep(func(name string) bool { return name == "motd" || name == "sshd" || name == "late" })
		d.wants(t)
		d.has(t, "sshd", "")
		if err := d.Flush(deadline(t, time.Second)); err == nil || err.Error() != "status not sent of motd: the NodeState was not read yet" || d.synced() {
			t.Error(err)
		}
		d.watched(s.object.DeepCopy(), true)
		d.wants(t, patchedState(`"gone":null,"motd":`+entryOf("m", 1)))
		d.has(t, "sshd", "stored")
		if !d.synced() {
			t.Error("it is not synced")
		}
		// What came after the sweep stays.
		d.know("issue", Known{UID: "a"})
		d.Report("issue", "a", statusOf("i", 1))
		d.wants(t, patchedState(`"issue":`+entryOf("i", 1)))
		d.wants(t)
		d.Sweep(but("issue"))
		d.Sweep(but("late"))
		d.wants(t, patchedState(`"issue":null,"late":null`))
		d.Sweep(but("never"))
		d.wants(t)

		// The watch says what somebody else did.
		changed := s.object.DeepCopy()
		changed.ResourceVersion = "100"
		delete(changed.Status.Configs, "sshd")
		d.watched(changed, false)
		d.has(t, "sshd", "")
		old := stored("node-1", "sshd") // it comes late
		d.watched(old, false)
		d.has(t, "sshd", "")
		// And the NodeConfig is made anew.
		d.has(t, "motd", "m")
		d.know("motd", Known{UID: "b"})
		d.has(t, "motd", "")
		d.Sweep(func(string) bool { return false })
		d.wants(t, patchedState(`"motd":null`))
		if got := slices.Sorted(maps.Keys(s.object.Status.Configs)); len(got) != 1 || got[0] != "sshd" {
			t.Errorf("entries %v", got)
		}
	})
}

// A NodeState that somebody deletes is made anew with what this agent has sent,
// whether the watch tells it or a request fails.
func TestReporter_losesItsNodeState(t *testing.T) {
	all := patchedState(`"motd":` + entryOf("m", 1) + `,"sshd":` + entryOf("s", 1))
	for _, how := range []string{"the watch tells", "a request tells", "the watch tells during a request"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, s := newStateDesk(t, nil)
				d.Report("motd", "a", statusOf("m", 1))
				d.wants(t, creation, patchedState(`"motd":`+entryOf("m", 1)))
				switch how {
				case "the watch tells":
					d.Report("sshd", "a", statusOf("s", 1))
					d.after(0)
					d.api.change(func() { s.object = nil })
					d.watched(nil, true)
					d.wants(t, creation, all)
				case "a request tells":
					d.api.change(func() { s.object = nil })
					d.Report("sshd", "a", statusOf("s", 1))
					d.wants(t, patchedState(`"sshd":`+entryOf("s", 1)), creation, all)
				default:
					d.api.change(func() {
						s.says = func(string) (answer, bool) {
							s.says = nil
							a := s.answer(patchedState(`"sshd":` + entryOf("s", 1)))
							s.object = nil
							d.watched(nil, true)
							return a, true
						}
					})
					d.Report("sshd", "a", statusOf("s", 1))
					d.wants(t, patchedState(`"sshd":`+entryOf("s", 1)), creation, all)
				}
				d.has(t, "motd", "m")
				d.has(t, "sshd", "s")
				if len(s.object.Status.Configs) != 2 || d.log.said() != "" {
					t.Errorf("entries %v", s.object.Status.Configs)
				}
			})
		})
	}
}

// Of a Node that was replaced nothing is told as if it were of the new one.
func TestReporter_nodeIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := newStateDesk(t, stored("node-0", "motd", "sshd", "issue"))
		d.has(t, "motd", "")
		d.wants(t)
		d.Report("motd", "a", statusOf("m", 1))
		mend := `PATCH` + states + `/n1 {"metadata":{"uid":"state-0",` + ownerNode1 + `}}`
		d.wants(t, mend, patchedState(`"issue":null,"motd":`+entryOf("m", 1)+`,"sshd":null`))
		d.has(t, "motd", "m")
		d.has(t, "sshd", "")

		// Once more, while this agent runs: it is the same machine.
		d.node("node-2")
		d.has(t, "motd", "")
		d.Report("sshd", "a", statusOf("s", 1))
		d.wants(t, strings.ReplaceAll(mend, "node-1", "node-2"), patchedState(`"motd":`+entryOf("m", 1)+`,"sshd":`+entryOf("s", 1)))
		d.has(t, "motd", "m")

		// The garbage collector was faster.
		d.node("node-3")
		d.api.change(func() { s.object = nil })
		d.Report("issue", "a", statusOf("i", 1))
		d.wants(t, strings.ReplaceAll(mend, "node-1", "node-3"), strings.ReplaceAll(creation, "node-1", "node-3"),
			patchedState(`"issue":`+entryOf("i", 1)+`,"motd":`+entryOf("m", 1)+`,"sshd":`+entryOf("s", 1)))
		if got := d.log.said(); got != "" {
			t.Errorf("log:\n%s", got)
		}
	})
}

// It exists, but the watch is late.
func TestReporter_stateExists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := newStateDesk(t, nil)
		d.api.change(func() { s.object = stored("node-1", "sshd") })
		d.Report("motd", "a", statusOf("m", 1))
		d.wants(t, creation)
		d.watched(s.object.DeepCopy(), false)
		if diff := cmp.Diff([]string{patchedState(`"motd":` + entryOf("m", 1))}, d.of(d.after(time.Second))); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		d.has(t, "sshd", "stored")
	})
}

// One entry that the server refuses does not take the others with it.
func TestReporter_stateRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := newStateDesk(t, stored("node-1", "old"))
		s.says = func(request string) (answer, bool) {
			return refusal(422, metav1.StatusReasonInvalid, "is invalid", ""), strings.Contains(request, `"sshd"`)
		}
		for _, name := range []string{"motd", "sshd", "issue"} {
			d.Report(name, "a", statusOf("m", 1))
		}
		d.Sweep(but("old"))
		entry := entryOf("m", 1)
		d.wants(t, patchedState(`"issue":`+entry+`,"motd":`+entry+`,"old":null,"sshd":`+entry),
			patchedState(`"motd":`+entry+`,"old":null`), patchedState(`"sshd":`+entry), patchedState(`"issue":`+entry))
		if got := d.log.said(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "target=sshd") {
			t.Errorf("log:\n%s", got)
		}
		if got := d.after(150 * time.Second); len(got) != 7 {
			t.Errorf("requests:\n%s", strings.Join(got, "\n"))
		}
	})
}

// A removal that the server refuses is tried again, with pauses.
func TestReporter_removalRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := newStateDesk(t, stored("node-1", "old", "motd"))
		d.api.change(func() {
			s.says = func(string) (answer, bool) { return refusal(422, metav1.StatusReasonInvalid, "is invalid", ""), true }
		})
		d.Sweep(but("old"))
		if got := d.after(150 * time.Second); len(got) != 8 {
			t.Errorf("requests:\n%s", strings.Join(got, "\n"))
		}
		if err := d.Flush(deadline(t, time.Millisecond)); err == nil || !strings.HasPrefix(err.Error(), "entries of NodeConfigs that are gone were not removed from the NodeState: patch ") {
			t.Error(err)
		}
		d.api.change(func() { s.says = nil })
		if err := d.Flush(t.Context()); err != nil || len(s.object.Status.Configs) != 1 {
			t.Errorf("%v, %v", err, s.object.Status.Configs)
		}
	})
}

// Somebody deletes it and makes it anew while a request is on its way.
func TestReporter_stateMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := newStateDesk(t, stored("node-1", "motd"))
		d.api.change(func() {
			s.says = func(string) (answer, bool) {
				s.says = nil
				s.object, s.rv = stored("node-1"), 5
				s.object.UID, s.object.ResourceVersion = "state-1", "5"
				d.watched(nil, true)
				d.watched(s.object.DeepCopy(), false)
				return refusal(404, metav1.StatusReasonNotFound, "not found", ""), true
			}
		})
		d.Report("motd", "a", statusOf("m", 1))
		patch := patchedState(`"motd":` + entryOf("m", 1))
		d.wants(t, patch, patch)
		d.has(t, "motd", "m")
	})
}

func TestReporter_stateIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stateServer{}
		d := newDesk(t, FormNode, s.answer)
		for i := range maxEntries + 2 {
			name := fmt.Sprintf("c%04d", i)
			d.know(name, Known{UID: "a"})
			d.Report(name, "a", statusOf("m", 1))
		}
		d.watched(nil, true)
		if got := d.after(0); len(got) != 2 || len(s.object.Status.Configs) != maxEntries {
			t.Errorf("%d requests, %d entries", len(got), len(s.object.Status.Configs))
		}
		if err := d.Flush(t.Context()); err == nil || err.Error() != "status not sent of c1000, c1001: the NodeState is full" {
			t.Error(err)
		}
		if got := d.log.said(); strings.Count(got, "\n") != 2 || len(d.events) != 0 || !strings.Contains(got, "status is withheld: the NodeState is full\" target=c1001") {
			t.Errorf("log:\n%s\nEvents %v", got, d.events)
		}
		d.Report("c0000", "a", statusOf("m2", 1))
		if got := d.after(0); len(got) != 1 || len(s.object.Status.Configs) != maxEntries {
			t.Errorf("%d requests, %d entries", len(got), len(s.object.Status.Configs))
		}
		d.Sweep(but("c0005"))
		if got := d.after(time.Minute); len(got) != 1 || !strings.Contains(got[0], `"c0005":null,"c1000":{`) || len(s.object.Status.Configs) != maxEntries {
			t.Errorf("%d requests, %d entries", len(got), len(s.object.Status.Configs))
		}
	})
}
