package cluster

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tlspu/keel/test/kubetest"
)

func TestReporter_node(t *testing.T) {
	s := server(t)
	deploy(t, s)
	for _, name := range []string{"motd", "sshd", "issue"} {
		config(t, s, name)
	}
	const path = nodeStates + "/state-1.example"
	s.Node(t, node("state-1.example"))
	access := s.WithToken(s.NodeToken(t, "keel-system", "keel-node-agent", "state-1.example"))
	began := time.Now()
	a, stop := agentOn(t, s, access, "state-1.example", FormNode)
	kubetest.Await(t, "it is synced", a.synced)
	a.tell(t, "motd", statusOf("first", 1))
	a.hand(t, "sshd", statusOf("first", 1))
	a.hand(t, "issue", statusOf("first", 1))
	a.tell(t, "motd", statusOf("second", 1))
	got := stateOf(t, s, "state-1.example")
	if len(got.Status.Configs) != 3 || got.Status.Configs["motd"].Message != "second" || len(got.OwnerReferences) != 1 ||
		got.OwnerReferences[0].UID != a.watch.UID() || got.OwnerReferences[0].Kind != "Node" {
		t.Errorf("NodeState %+v", got)
	}
	kubetest.Await(t, "the audit log has it", func() bool { return len(a.writes(t, s, began)) >= 3 })
	writes := a.writes(t, s, began)
	if writes[0] != "create nodestates state-1.example 201" || len(writes) > 5 {
		t.Errorf("wrote:\n%s", strings.Join(writes, "\n"))
	}
	for _, w := range writes[1:] {
		if w != "patch nodestates/status state-1.example 200" {
			t.Errorf("wrote %s", w)
		}
	}

	// Somebody deletes it, as the garbage collector does.
	do(t, s, http.MethodDelete, path, nil)
	kubetest.Await(t, "it is made anew with all entries", func() bool {
		got = stateOf(t, s, "state-1.example")
		return got != nil && len(got.Status.Configs) == 3
	})
	// Somebody removes an entry: the next visit will tell it anew.
	do(t, s, http.MethodPatch, path+"/status", body{"status": body{"configs": body{"issue": nil}}})
	kubetest.Await(t, "the watch shows it", func() bool { _, ok := a.Before("issue"); return !ok })

	// A NodeConfig goes while no agent runs.
	stop()
	do(t, s, http.MethodDelete, nodeConfigs+"/sshd", nil)
	a, _ = agentOn(t, s, access, "state-1.example", FormNode)
	kubetest.Await(t, "it is synced", func() bool { _, _, synced := a.watch.Take(); return synced && a.synced() })
	a.Sweep(func(name string) bool { return name == "motd" || name == "issue" })
	if err := a.Flush(deadline(t, time.Minute)); err != nil {
		t.Error(err)
	}
	if got = stateOf(t, s, "state-1.example"); len(got.Status.Configs) != 1 || got.Status.Configs["motd"].Message != "second" {
		t.Errorf("NodeState %+v", got.Status)
	}
	if st, ok := a.Before("motd"); !ok || st.Message != "second" {
		t.Errorf("before %+v", st)
	}

	// The Node is replaced.
	before := a.watch.UID()
	do(t, s, http.MethodDelete, "/api/v1/nodes/state-1.example", nil)
	s.Node(t, node("state-1.example"))
	kubetest.Await(t, "the new Node", func() bool { return a.watch.UID() != before && a.watch.UID() != "" })
	if st, ok := a.Before("motd"); ok {
		t.Errorf("the new Node has a status of the old one: %+v", st)
	}
	began = time.Now()
	a.tell(t, "issue", statusOf("third", 1))
	got = stateOf(t, s, "state-1.example")
	if len(got.Status.Configs) != 1 || got.Status.Configs["issue"].Message != "third" || got.OwnerReferences[0].UID != a.watch.UID() {
		t.Errorf("NodeState %+v", got)
	}
	a.wrote(t, s, began, "patch nodestates state-1.example 200", "patch nodestates/status state-1.example 200")
	if log := a.log.said(); log != "" {
		t.Errorf("log:\n%s", log)
	}
}

// It asks for nothing while there is nothing to tell.
func TestReporter_rests(t *testing.T) {
	s := server(t)
	deploy(t, s)
	config(t, s, "rest")
	for _, form := range []Form{FormMap, FormNode} {
		started := time.Now()
		a := deployedAgent(t, s, "rest-"+string(form), form)
		kubetest.Await(t, "the watches", func() bool {
			watched := map[string]bool{}
			for _, r := range s.Requests(t, started) {
				if r.UserAgent == a.name && r.Verb == "watch" {
					watched[r.Resource] = true
				}
			}
			return watched["nodes"] && watched["nodeconfigs"]
		})
		a.tell(t, "rest", statusOf("m", 1))
		kubetest.Await(t, "the watch shows it", func() bool {
			k, _ := a.watch.Known("rest")
			return form == FormNode || k.Own != nil
		})
		began := time.Now()
		a.tell(t, "rest", statusOf("m2", 1))
		a.Sweep(func(string) bool { return true })
		rest := time.NewTimer(2 * time.Second)
		<-rest.C
		var got []string
		for _, r := range s.Requests(t, began) {
			if r.UserAgent == a.name {
				got = append(got, r.Verb+" "+r.Resource)
			}
		}
		if len(got) != 1 {
			t.Errorf("%s: requests %v", form, got)
		}
	}
}
