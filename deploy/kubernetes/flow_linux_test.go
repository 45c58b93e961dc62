package kubernetes

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/tlspu/keel/test/kubetest"
)

// Results in NodeConfigs have a queue of their own, and nothing else has it.
func TestFlow_queuesResultsInNodeConfigs(t *testing.T) {
	s := deploy(t)
	nodeConfig(t, s, "flow")
	c := agent(t, s, "flow-1")
	var flow struct{ Metadata struct{ UID string } }
	if err := s.Do(t.Context(), s.Admin(), http.MethodGet, "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/keel-nodeconfig-status", nil, &flow); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, method, path string
		who                *rest.Config
		body               any
		want               bool
	}{
		{"a result", http.MethodPatch, nodeConfigs + "/flow/status", c, entries(object{"flow-1": node("x")}), true},
		{"a read", http.MethodGet, nodeConfigs + "/flow", c, nil, false},
		{"an administrator's", http.MethodPatch, nodeConfigs + "/flow/status", s.Admin(), entries(object{"flow-1": node("y")}), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			kubetest.Await(t, "the API server follows the FlowSchema", func() bool {
				return (flowOf(t, s.URL, tt.who, tt.method, tt.path, tt.body) == flow.Metadata.UID) == tt.want
			})
		})
	}
}

// flowOf gives the UID of the FlowSchema that a request falls under.
func flowOf(t *testing.T, url string, who *rest.Config, method, path string, body any) string {
	t.Helper()
	client, err := rest.HTTPClientFor(who)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url+path, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/merge-patch+json")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s", method, path, resp.Status)
	}
	return resp.Header.Get("X-Kubernetes-Pf-Flowschema-Uid")
}
