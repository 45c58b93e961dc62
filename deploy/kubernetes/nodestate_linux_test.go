package kubernetes

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/test/kubetest"
)

// stateOf reads a NodeState.
func stateOf(t *testing.T, s *kubetest.Server, name string) v1alpha1.NodeState {
	t.Helper()
	var state v1alpha1.NodeState
	if err := s.Do(t.Context(), s.Admin(), http.MethodGet, nodeStates+"/"+name, nil, &state); err != nil {
		t.Fatal(err)
	}
	return state
}

// makeState makes a NodeState, which is gone at the end of t.
func makeState(t *testing.T, s *kubetest.Server, c *rest.Config, body object) {
	t.Helper()
	if err := s.Do(t.Context(), c, http.MethodPost, nodeStates, body, nil); err != nil {
		t.Fatal(err)
	}
	name, _ := body["metadata"].(object)["name"].(string)
	t.Cleanup(func() {
		_ = s.Do(context.WithoutCancel(t.Context()), s.Admin(), http.MethodDelete, nodeStates+"/"+name, nil, nil)
	})
}

// owned is a NodeState with metadata.ownerReferences.
func owned(name string, owners ...object) object {
	body := nodeState(name)
	body["metadata"].(object)["ownerReferences"] = owners
	return body
}

// owner is a reference to a Node.
func owner(name string, more object) object {
	o := object{"apiVersion": "v1", "kind": "Node", "name": name, "uid": "5d2a6bd4-6c3b-4a38-a8b9-2c5a4e7d1f00"}
	maps.Copy(o, more)
	return o
}

func TestNodeState_isServed(t *testing.T) {
	s := server(t)
	makeState(t, s, s.Admin(), nodeState("served-1"))
	if got := s.Kubectl(t, "", "get", "nst", "served-1"); !strings.HasPrefix(strings.Join(strings.Fields(got), " "), "NAME AGE served-1 ") {
		t.Errorf("kubectl get nst:\n%s", got)
	}
	if got := s.Kubectl(t, "", "get", "keel", "-o", "name"); !strings.Contains(got, "nodestate.keel.tlspu.io/served-1\n") {
		t.Errorf("kubectl get keel:\n%s", got)
	}
}

// The command in docs/spec that says what fails, and where.
func TestNodeState_showsWhatFails(t *testing.T) {
	page, err := os.ReadFile("../../docs/spec/nodeconfig.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "kubectl get nst -o go-template='")
	template, _, ok := strings.Cut(rest, "'\n")
	if !ok {
		t.Fatal("docs/spec/nodeconfig.md has no such command")
	}
	s := server(t)
	for _, name := range []string{"shows-1", "shows-2", "shows-3"} {
		makeState(t, s, s.Admin(), nodeState(name))
	}
	failed := node("no space left on device")
	failed["lastResult"] = "error"
	for name, body := range map[string]object{
		"shows-1": configs(object{"motd": failed, "sshd": node("configuration in place")}),
		"shows-2": configs(object{"sshd": node("configuration in place")}),
	} {
		if err := s.Do(t.Context(), s.Admin(), http.MethodPatch, nodeStates+"/"+name+"/status", body, nil); err != nil {
			t.Fatal(err)
		}
	}
	got := s.Kubectl(t, "", "get", "nst", "-o", "go-template="+template)
	if !strings.Contains("\n"+got, "\nshows-1 motd: no space left on device\n") || strings.Contains(got, "shows-2") || strings.Contains(got, "sshd") {
		t.Errorf("it prints:\n%s", got)
	}
}

func TestNodeState_refusesBadStatus(t *testing.T) {
	with := func(key string, value any) object {
		e := node("")
		e[key] = value
		return configs(object{"motd": e})
	}
	many := func(n int, message string) object {
		all := object{}
		for i := range n {
			// The longest name of a NodeConfig.
			all[fmt.Sprintf("%0253d", i)] = node(message)
		}
		return configs(all)
	}
	tests := []struct {
		name  string
		patch object
		want  string // none: it is taken
	}{
		{"an entry", with("message", "configuration applied"), ""},
		{"as many as there may be, with the longest names and messages", many(1000, strings.Repeat("x", 256)), ""},
		{"one more", many(1001, ""), "status.configs"},
		{"257 bytes", with("message", strings.Repeat("é", 128)+"!"), "status.configs[motd].message"},
		{"another result", with("lastResult", "maybe"), "status.configs.motd.lastResult"},
		{"no time", with("lastRunTime", nil), "status.configs.motd.lastRunTime"},
		{"an entry that is none", configs(object{"motd": "success"}), "status.configs.motd"},
	}
	s := server(t)
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			name := fmt.Sprint("bad-status-", i)
			makeState(t, s, s.Admin(), owned(name, owner(name, nil)))
			err := s.Do(t.Context(), s.Admin(), http.MethodPatch, nodeStates+"/"+name+"/status", tt.patch, nil)
			if tt.want != "" {
				refused(t, err, http.StatusUnprocessableEntity, tt.want)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestNodeStatePolicy_anAgentWritesItsOwn(t *testing.T) {
	s := deploy(t)
	mine := agent(t, s, "state.example")
	makeState(t, s, mine, owned("state.example", owner("state.example", nil)))
	const path = nodeStates + "/state.example"
	// An administrator may add what an agent may not.
	body := object{"metadata": object{
		"labels": object{"a": "b"}, "annotations": object{"a": "b"}, "finalizers": []string{"a.b/c"},
		"ownerReferences": []object{owner("state.example", nil), owner("another", object{"kind": "Namespace", "uid": "other"})},
	}}
	if err := s.Do(t.Context(), s.Admin(), http.MethodPatch, path, body, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		body := object{"metadata": object{"finalizers": nil}}
		_ = s.Do(context.WithoutCancel(t.Context()), s.Admin(), http.MethodPatch, path, body, nil)
	})
	for i, step := range []struct {
		path string
		body object
	}{
		{path + "/status", configs(object{"motd": node("first"), "sshd": node("first")})},
		{path + "/status", configs(object{"motd": object{"message": "second", "changed": false}})},
		{path + "/status", configs(object{"sshd": nil})},
		{path, object{"metadata": object{"ownerReferences": nil}}},
		{path, object{"metadata": object{"ownerReferences": []object{owner("state.example", object{"uid": "another"})}}}},
	} {
		if err := s.Do(t.Context(), mine, http.MethodPatch, step.path, step.body, nil); err != nil {
			t.Errorf("step %d: %v", i, err)
		}
	}
	got := stateOf(t, s, "state.example")
	if c := got.Status.Configs; len(c) != 1 || c["motd"].Message != "second" {
		t.Errorf("got %+v", c)
	}
	if o := got.OwnerReferences; len(o) != 1 || o[0].UID != "another" {
		t.Errorf("it is owned by %+v", o)
	}
}

func TestNodeStatePolicy_anAgentWritesNothingElse(t *testing.T) {
	s := deploy(t)
	c := agent(t, s, "nothing-1")
	makeState(t, s, s.Admin(), nodeState("nothing-2"))
	const theirs = `bound to node "nothing-1" and may write the NodeState of no other node`
	const anOwner = `metadata.ownerReferences: a NodeState has one owner, the Node "nothing-1"`
	const alone = "metadata: a node agent leaves finalizers, labels and annotations alone"
	with := func(key string, value any) object {
		body := nodeState("nothing-1")
		body["metadata"].(object)[key] = value
		return body
	}
	patch := func(path string, body object) func(*rest.Config) error {
		return func(c *rest.Config) error {
			return s.Do(t.Context(), c, http.MethodPatch, nodeStates+"/"+path, body, nil)
		}
	}
	create := func(body object) func(*rest.Config) error {
		return func(c *rest.Config) error { return s.Do(t.Context(), c, http.MethodPost, nodeStates, body, nil) }
	}
	generated := nodeState("")
	generated["metadata"] = object{"generateName": "nothing-1"}
	tests := []struct {
		name  string
		who   *rest.Config
		write func(*rest.Config) error
		want  string
	}{
		{"create another node's", c, create(nodeState("nothing-3")), theirs},
		{"create one with a name of the server's", c, create(generated), theirs},
		{"patch another node's", c, patch("nothing-2", object{"metadata": object{"ownerReferences": []object{owner("nothing-1", nil)}}}), theirs},
		{"another node's status", c, patch("nothing-2/status", configs(object{"motd": node("forged")})), theirs},
		{"owned by another node", c, create(owned("nothing-1", owner("nothing-2", nil))), anOwner},
		{"owned by no node", c, create(owned("nothing-1", owner("nothing-1", object{"kind": "Namespace"}))), anOwner},
		{"owned by a node of another group", c, create(owned("nothing-1", owner("nothing-1", object{"apiVersion": "a.b/v1"}))), anOwner},
		{"with two owners", c, create(owned("nothing-1", owner("nothing-1", nil), owner("nothing-1", object{"uid": "other"}))), anOwner},
		{"in the way of its owner's deletion", c, create(owned("nothing-1", owner("nothing-1", object{"blockOwnerDeletion": true}))), anOwner},
		{"with finalizers", c, create(with("finalizers", []string{"a.b/c"})), alone},
		{"with labels", c, create(with("labels", object{"a": "b"})), alone},
		{"with annotations", c, create(with("annotations", object{"a": "b"})), alone},
		{"not bound to a node", unbound(t, s), create(nodeState("nothing-1")), "this token is not bound to a node"},
		{"not bound, the status", unbound(t, s), patch("nothing-2/status", configs(object{"motd": node("")})), "this token is not bound to a node"},
		{"by an apply", c, func(c *rest.Config) error {
			return apply(t, s, c, nodeStates+"/nothing-1?fieldManager=x", owned("nothing-1", owner("nothing-1", nil)))
		}, "by merge patch, not by server-side apply"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			refused(t, tt.write(tt.who), http.StatusForbidden, tt.want)
		})
	}
	var all v1alpha1.NodeStateList
	if err := s.Do(t.Context(), s.Admin(), http.MethodGet, nodeStates, nil, &all); err != nil {
		t.Fatal(err)
	}
	for _, state := range all.Items {
		if strings.HasPrefix(state.Name, "nothing-") && (state.Name != "nothing-2" || len(state.Status.Configs)+len(state.OwnerReferences) > 0) {
			t.Errorf("refused writes left %+v", state)
		}
	}
	makeState(t, s, c, nodeState("nothing-1"))
	refused(t, patch("nothing-1", with("labels", object{"a": "b"}))(c), http.StatusForbidden, alone)
	refused(t, patch("nothing-1", owned("nothing-1", owner("nothing-2", nil)))(c), http.StatusForbidden, anOwner)
}

// The garbage collector removes what a Node owned, and mends owners of others.
func TestNodeStatePolicy_leavesTheGarbageCollectorAlone(t *testing.T) {
	s := deploy(t)
	mine := agent(t, s, "garbage-1")
	makeState(t, s, mine, owned("garbage-1", owner("garbage-1", nil)))
	collector := s.Admin()
	collector.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:kube-system:generic-garbage-collector"}
	body := object{"metadata": object{"ownerReferences": []object{owner("garbage-2", nil)}, "finalizers": []string{metav1.FinalizerDeleteDependents}}}
	if err := s.Do(t.Context(), collector, http.MethodPatch, nodeStates+"/garbage-1", body, nil); err != nil {
		t.Error(err)
	}
	body = object{"metadata": object{"finalizers": nil}}
	if err := s.Do(t.Context(), collector, http.MethodPatch, nodeStates+"/garbage-1", body, nil); err != nil {
		t.Error(err)
	}
	if err := s.Do(t.Context(), collector, http.MethodDelete, nodeStates+"/garbage-1", nil, nil); err != nil {
		t.Error(err)
	}
}
