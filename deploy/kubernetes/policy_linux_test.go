package kubernetes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tlspu/keel/test/kubetest"
)

// deployed is done once: all tests share the server.
var deployed sync.Once

// deploy applies the whole folder and waits until the policies work.
func deploy(t *testing.T) *kubetest.Server {
	t.Helper()
	s := server(t)
	deployed.Do(func() {
		s.Kubectl(t, "", "apply", "-f", "namespace.yaml")
		s.Kubectl(t, "", "apply", "-k", ".", "--dry-run=server")
		s.Kubectl(t, "", "apply", "-k", ".")
		nodeConfig(t, s, "policy-works")
		c := unbound(t, s)
		bound := func(err error) bool { return err == nil || !strings.Contains(err.Error(), "not bound to a node") }
		kubetest.Await(t, "the policies work", func() bool {
			return !bound(s.Do(t.Context(), c, http.MethodPatch, nodeConfigs+"/policy-works/status?dryRun=All", entries(object{"n1": node("")}), nil)) &&
				!bound(s.Do(t.Context(), c, http.MethodPost, nodeStates+"?dryRun=All", nodeState("n1"), nil))
		})
	})
	return s
}

// unbound is who has a token of the agents' ServiceAccount that no pod has.
func unbound(t *testing.T, s *kubetest.Server) *rest.Config {
	t.Helper()
	request := object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": object{}}
	var answer struct{ Status struct{ Token string } }
	path := "/api/v1/namespaces/keel-system/serviceaccounts/keel-node-agent/token"
	if err := s.Do(t.Context(), s.Admin(), http.MethodPost, path, request, &answer); err != nil {
		t.Fatal(err)
	}
	return s.WithToken(answer.Status.Token)
}

// agent is the agent on a node, which is made.
func agent(t *testing.T, s *kubetest.Server, name string) *rest.Config {
	t.Helper()
	s.Node(t, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	return s.WithToken(s.NodeToken(t, "keel-system", "keel-node-agent", name))
}

func patchStatus(t *testing.T, s *kubetest.Server, c *rest.Config, name string, body any) error {
	t.Helper()
	return s.Do(t.Context(), c, http.MethodPatch, nodeConfigs+"/"+name+"/status", body, nil)
}

func TestPolicy_anAgentWritesItsOwnEntry(t *testing.T) {
	s := deploy(t)
	nodeConfig(t, s, "own")
	mine, other := agent(t, s, "own.example"), agent(t, s, "own-2")
	for i, step := range []struct {
		who  *rest.Config
		body any
	}{
		{mine, entries(object{"own.example": node("first")})},
		{other, object{"status": object{"observedGeneration": 1, "nodes": object{"own-2": node("first")}}}},
		{mine, entries(object{"own.example": node("second")})},
		{mine, entries(object{"own.example": object{"message": "", "changed": false}})},
		{other, entries(object{"own-2": nil})},
		{other, entries(object{"own-2": nil})},
		{other, entries(object{"own-2": node("again")})},
		// What changes nothing of another node is no matter, as when one repeats it.
		{mine, entries(object{"own-2": object{"message": "again"}})},
	} {
		if err := patchStatus(t, s, step.who, "own", step.body); err != nil {
			t.Errorf("step %d: %v", i, err)
		}
	}
	got := statusOf(t, s, "own")
	if len(got.Nodes) != 2 || got.Nodes["own.example"].Message != "" || got.Nodes["own-2"].Message != "again" || *got.ObservedGeneration != 1 {
		t.Errorf("got %+v", got)
	}
}

// A generation that is ahead, as of a status that was restored, never goes back: it
// keeps no agent from writing its entry, and no agent may add to it.
func TestPolicy_anAgentWritesBesideAGenerationThatIsAhead(t *testing.T) {
	s := deploy(t)
	nodeConfig(t, s, "ahead")
	c := agent(t, s, "ahead-1")
	if err := patchStatus(t, s, s.Admin(), "ahead", object{"status": object{"observedGeneration": 7}}); err != nil {
		t.Fatal(err)
	}
	if err := patchStatus(t, s, c, "ahead", entries(object{"ahead-1": node("mine")})); err != nil {
		t.Error(err)
	}
	refused(t, patchStatus(t, s, c, "ahead", object{"status": object{"observedGeneration": 8}}), http.StatusForbidden, "status.observedGeneration: is newer")
	if got := statusOf(t, s, "ahead"); got.Nodes["ahead-1"].Message != "mine" || *got.ObservedGeneration != 7 {
		t.Errorf("got %+v", got)
	}
}

func TestPolicy_anAgentWritesNothingElse(t *testing.T) {
	s := deploy(t)
	nodeConfig(t, s, "else")
	c := agent(t, s, "else-1")
	if err := patchStatus(t, s, s.Admin(), "else", entries(object{"else-1": node("mine"), "else-2": node("theirs")})); err != nil {
		t.Fatal(err)
	}
	const theirs = `bound to node "else-1" and may write the entry of no other node`
	tests := []struct {
		name string
		who  *rest.Config
		body any
		want string
	}{
		{"a new entry", c, entries(object{"else-3": node("")}), theirs},
		{"a changed entry", c, entries(object{"else-2": object{"message": "forged"}}), theirs},
		{"a removed entry", c, entries(object{"else-2": nil}), theirs},
		{"its own and another", c, entries(object{"else-1": node("x"), "else-2": object{"lastResult": "error"}}), theirs},
		{"an entry like its own name", c, entries(object{"else-1.": node("")}), theirs},
		{"no entries", c, object{"status": object{"nodes": nil}}, theirs},
		{"no status", c, object{"status": nil}, theirs},
		{"a generation to come", c, object{"status": object{"observedGeneration": 2}}, "status.observedGeneration: is newer"},
		{"not bound to a node", unbound(t, s), entries(object{"else-1": node("")}), "this token is not bound to a node"},
		{"not bound, the empty name", unbound(t, s), entries(object{"": node("")}), "this token is not bound to a node"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			refused(t, patchStatus(t, s, tt.who, "else", tt.body), http.StatusForbidden, tt.want)
		})
	}
	t.Run("by an apply", func(t *testing.T) {
		doc := document("else", nil)
		delete(doc, "spec")
		doc["status"] = object{"nodes": object{"else-1": node("applied")}}
		refused(t, apply(t, s, c, nodeConfigs+"/else/status?fieldManager=x&force=true", doc), http.StatusForbidden, "by merge patch, not by server-side apply")
	})
	after := statusOf(t, s, "else")
	if n := after.Nodes; len(n) != 2 || n["else-1"].Message != "mine" || n["else-2"].Message != "theirs" || after.ObservedGeneration != nil {
		t.Errorf("refused patches left %+v", after)
	}
}

// apply sends a server-side apply.
func apply(t *testing.T, s *kubetest.Server, c *rest.Config, path string, body any) error {
	t.Helper()
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, s.URL+path, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/apply-patch+yaml")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 == 2 {
		return nil
	}
	var answer metav1.Status
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return &kubetest.StatusError{Code: resp.StatusCode, Message: answer.Message}
}

// Whoever may edit NodeConfigs is root on every node, and may mend a status.
func TestPolicy_leavesOthersAlone(t *testing.T) {
	s := deploy(t)
	nodeConfig(t, s, "others")
	for i, body := range []object{
		entries(object{"gone-1": node("x"), "gone-2": node("x")}),
		entries(object{"gone-1": nil}),
		{"status": object{"observedGeneration": 7}},
		{"status": object{"nodes": nil}},
	} {
		if err := patchStatus(t, s, s.Admin(), "others", body); err != nil {
			t.Errorf("step %d: %v", i, err)
		}
	}
}

// Neither the rules of the CRD nor the policy cost more than the server's budget,
// with entries of a usual length and with as many as the map may hold.
func TestPolicy_paysForManyNodes(t *testing.T) {
	s := deploy(t)
	for name, tt := range map[string]struct {
		nodes  int
		format string
		entry  object
	}{
		"usual":   {2500, "ip-10-0-%d.eu-central-1.compute.internal", node("configuration applied, services restarted")},
		"largest": {5000, "n%d", object{"lastRunTime": "2026-10-15T12:00:00Z", "lastResult": "success"}},
	} {
		t.Run(name, func(t *testing.T) {
			nodeConfig(t, s, name)
			all := object{}
			for i := range tt.nodes {
				all[fmt.Sprintf(tt.format, i)] = tt.entry
			}
			if err := patchStatus(t, s, s.Admin(), name, entries(all)); err != nil {
				t.Fatal(err)
			}
			mine, theirs := fmt.Sprintf(tt.format, 99), fmt.Sprintf(tt.format, 98)
			c := agent(t, s, mine)
			began := time.Now()
			if err := patchStatus(t, s, c, name, entries(object{mine: node("mine")})); err != nil {
				t.Fatal(err)
			}
			t.Logf("a patch of one entry of %d took %v", tt.nodes, time.Since(began))
			refused(t, patchStatus(t, s, c, name, entries(object{theirs: node("forged")})), http.StatusForbidden, "may write the entry of no other node")
			if got := statusOf(t, s, name).Nodes; len(got) != tt.nodes || got[mine].Message != "mine" || got[theirs].Message == "forged" {
				t.Errorf("%d entries, %+v, %+v", len(got), got[mine], got[theirs])
			}
		})
	}
}
