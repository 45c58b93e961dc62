package kubernetes

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tlspu/keel/test/kubetest"
)

// code is that of an answer which is an error, 0 of one which is none, and -1 of
// none at all.
func code(err error) int {
	var status *kubetest.StatusError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return status.Code
	}
	return -1
}

// event is one of a NodeConfig.
func event(name string) object {
	return object{
		"apiVersion": "v1", "kind": "Event", "metadata": object{"name": name},
		"involvedObject": object{"apiVersion": "keel.tlspu.io/v1alpha1", "kind": "NodeConfig", "name": "motd"},
		"reason":         "Changed", "type": "Normal", "reportingComponent": "keel-node-agent", "reportingInstance": "n1", "action": "Visit",
		"firstTimestamp": "2026-10-15T12:00:00Z", "lastTimestamp": "2026-10-15T12:00:00Z", "count": 1,
	}
}

func TestRights_areTheLeast(t *testing.T) {
	s := deploy(t)
	nodeConfig(t, s, "rights")
	c := agent(t, s, "rights-1")
	const one, core, data = nodeConfigs + "/rights", "/api/v1", "/api/v1/namespaces/keel-system"
	spec := object{"spec": object{"suspend": true}}
	tests := []struct {
		method, path string
		body         any
		want         int
	}{
		{http.MethodGet, nodeConfigs, nil, 0},
		{http.MethodGet, one, nil, 0},
		{http.MethodPatch, one + "/status", entries(object{"rights-1": node("")}), 0},
		{http.MethodGet, nodeStates, nil, 0},
		{http.MethodGet, nodeStates + "?fieldSelector=metadata.name%3Drights-1", nil, 0},
		{http.MethodPost, nodeStates, nodeState("rights-1"), 0},
		{http.MethodGet, nodeStates + "/rights-1", nil, 0},
		{http.MethodPatch, nodeStates + "/rights-1", object{}, 0},
		{http.MethodPatch, nodeStates + "/rights-1/status", configs(object{"rights": node("")}), 0},
		{http.MethodGet, core + "/nodes/rights-1", nil, 0},
		{http.MethodGet, core + "/nodes?fieldSelector=metadata.name%3Drights-1", nil, 0},
		{http.MethodGet, core + "/nodes?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Drights-1", nil, 0},
		{http.MethodGet, core + "/namespaces/kube-system", nil, 0},
		{http.MethodGet, "/version", nil, 0},
		{http.MethodGet, data + "/configmaps?fieldSelector=metadata.name%3Dsite", nil, 0},
		{http.MethodGet, data + "/configmaps?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Dsite", nil, 0},
		{http.MethodGet, data + "/secrets?fieldSelector=metadata.name%3Ddb", nil, 0},
		{http.MethodGet, data + "/secrets?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Ddb", nil, 0},
		{http.MethodPost, core + "/namespaces/default/events", event("rights"), 0},
		{http.MethodPatch, core + "/namespaces/default/events/rights", object{"count": 2}, 0},

		{http.MethodPatch, one, spec, 403},
		{http.MethodPut, one, document("rights", object{"type": "file"}), 403},
		{http.MethodPut, one + "/status", document("rights", object{"type": "file"}), 403},
		{http.MethodDelete, one, nil, 403},
		{http.MethodDelete, nodeConfigs, nil, 403},
		{http.MethodPost, nodeConfigs, document("rights-2", object{"type": "file"}), 403},
		{http.MethodPut, nodeStates + "/rights-1", nodeState("rights-1"), 403},
		{http.MethodDelete, nodeStates + "/rights-1", nil, 403},
		{http.MethodDelete, nodeStates, nil, 403},
		{http.MethodPatch, core + "/nodes/rights-1", object{"metadata": object{"labels": object{"a": "b"}}}, 403},
		{http.MethodPatch, core + "/nodes/rights-1/status", object{}, 403},
		{http.MethodGet, core + "/namespaces", nil, 403},
		{http.MethodGet, core + "/namespaces/default", nil, 403},
		{http.MethodGet, core + "/secrets", nil, 403},
		{http.MethodGet, core + "/namespaces/kube-system/secrets", nil, 403},
		{http.MethodGet, core + "/namespaces/kube-system/secrets/db", nil, 403},
		{http.MethodGet, core + "/namespaces/kube-system/configmaps", nil, 403},
		{http.MethodGet, core + "/namespaces/default/secrets", nil, 403},
		{http.MethodPost, data + "/secrets", object{"metadata": object{"name": "made"}}, 403},
		{http.MethodPost, data + "/configmaps", object{"metadata": object{"name": "made"}}, 403},
		{http.MethodPatch, data + "/configmaps/site", object{"data": object{"a": "b"}}, 403},
		{http.MethodGet, core + "/namespaces/default/events", nil, 403},
		{http.MethodDelete, core + "/namespaces/default/events/rights", nil, 403},
		{http.MethodPost, core + "/namespaces/kube-system/events", event("rights"), 403},
		{http.MethodPost, data + "/events", event("rights"), 403},
		{http.MethodDelete, core + "/nodes/rights-1", nil, 403},
		{http.MethodPost, data + "/pods", object{"metadata": object{"name": "made"}}, 403},
		{http.MethodPost, data + "/pods/x/exec", object{}, 403},
		{http.MethodPatch, "/apis/apps/v1/namespaces/keel-system/daemonsets/keel-node-agent", object{}, 403},
		{http.MethodPatch, "/apis/rbac.authorization.k8s.io/v1/clusterroles/keel-node-agent", object{}, 403},
		{http.MethodGet, core + "/pods", nil, 403},
		{http.MethodPost, core + "/namespaces/keel-system/serviceaccounts/keel-node-agent/token", object{}, 403},
	}
	for _, tt := range tests {
		if err := s.Do(t.Context(), c, tt.method, tt.path, tt.body, nil); code(err) != tt.want {
			t.Errorf("%s %s: %v, want %d", tt.method, tt.path, err, tt.want)
		}
	}
	// The right to the status is none to what else the patch holds.
	body := object{"spec": object{"suspend": true}, "metadata": object{"labels": object{"a": "b"}, "finalizers": []string{"a.b/c"}}}
	if err := patchStatus(t, s, c, "rights", body); err != nil {
		t.Error(err)
	}
	var nc struct {
		Metadata metav1.ObjectMeta
		Spec     object
	}
	if err := s.Do(t.Context(), s.Admin(), http.MethodGet, one, nil, &nc); err != nil {
		t.Fatal(err)
	}
	if nc.Metadata.Generation != 1 || len(nc.Metadata.Labels)+len(nc.Metadata.Finalizers) != 0 || nc.Spec["suspend"] != nil {
		t.Errorf("a patch of the status changed %+v, %v", nc.Metadata, nc.Spec)
	}
}

// The table of docs/spec/security.md has exactly the rights of the manifest.
func TestRights_areThoseOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/spec/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n| right to | verbs | in |")
	table, _, _ = strings.Cut(table, "\n\n")
	var documented []string
	for _, line := range strings.Split(table, "\n")[2:] {
		cells := strings.Split(line, " | ")
		documented = append(documented, strings.TrimPrefix(cells[0], "| ")+": "+cells[1])
	}
	text, err := os.ReadFile("node-agent-rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var granted []string
	for in := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var role struct {
			Rules []struct{ Resources, Verbs []string }
		}
		if err := in.Decode(&role); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		for _, r := range role.Rules {
			granted = append(granted, "`"+strings.Join(r.Resources, "`, `")+"`: "+strings.Join(r.Verbs, ", "))
		}
	}
	if diff := cmp.Diff(granted, documented); diff != "" {
		t.Errorf("-manifest +page:\n%s", diff)
	}
}

// What docs/spec says of a Role with resourceNames: who asks for one object by its
// name may list and watch it.
func TestRights_toSingleConfigMaps(t *testing.T) {
	s := deploy(t)
	ns := s.Namespace(t, "single")
	s.Kubectl(t, "", "create", "configmap", "site", "-n", ns)
	s.Kubectl(t, "", "create", "configmap", "other", "-n", ns)
	s.Kubectl(t, "", "create", "role", "data", "-n", ns, "--verb=get,list,watch", "--resource=configmaps", "--resource-name=site")
	s.Kubectl(t, "", "create", "rolebinding", "data", "-n", ns, "--role=data", "--serviceaccount=keel-system:keel-node-agent")
	c := agent(t, s, "single-1")
	path := "/api/v1/namespaces/" + ns + "/configmaps"
	kubetest.Await(t, "the right is known", func() bool { return s.Do(t.Context(), c, http.MethodGet, path+"/site", nil, nil) == nil })
	for query, want := range map[string]int{
		"?fieldSelector=metadata.name%3Dsite":                                 0,
		"?fieldSelector=metadata.name%3Dsite&watch=true&timeoutSeconds=1":     0,
		"?fieldSelector=metadata.name%3Dother":                                403,
		"?fieldSelector=metadata.name%3Dother&watch=true&timeoutSeconds=1":    403,
		"?fieldSelector=metadata.name%21%3Dother&watch=true&timeoutSeconds=1": 403,
		"":       403,
		"/other": 403,
	} {
		if err := s.Do(t.Context(), c, http.MethodGet, path+query, nil, nil); code(err) != want {
			t.Errorf("GET %s%s: %v, want %d", path, query, err, want)
		}
	}
}
