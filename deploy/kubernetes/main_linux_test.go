package kubernetes

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tlspu/keel/test/kubetest"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

const (
	nodeConfigs = "/apis/keel.tlspu.io/v1alpha1/nodeconfigs"
	nodeStates  = "/apis/keel.tlspu.io/v1alpha1/nodestates"
)

// object is a JSON object.
type object = map[string]any

// server has the CRDs.
func server(t *testing.T) *kubetest.Server {
	t.Helper()
	readManifests(t)
	s := kubetest.Shared(t)
	s.InstallCRDs(t, "crd")
	return s
}

// nodeConfig makes a NodeConfig as the administrator.
func nodeConfig(t *testing.T, s *kubetest.Server, name string) {
	t.Helper()
	if err := s.Do(t.Context(), s.Admin(), http.MethodPost, nodeConfigs, document(name, object{"type": "file"}), nil); err != nil {
		t.Fatal(err)
	}
}

// readManifests reads what kubectl will: go test then knows that the result of these
// tests depends on it, and does not take an old one for it.
func readManifests(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(name) == ".yaml" {
			_, err = os.ReadFile(name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func document(name string, spec any) object {
	return object{"apiVersion": "keel.tlspu.io/v1alpha1", "kind": "NodeConfig", "metadata": object{"name": name}, "spec": spec}
}

// node is an entry of status.nodes as an agent writes it.
func node(message string) object {
	return object{
		"lastRunTime": "2026-10-15T12:00:00Z", "lastResult": "success", "changed": true, "restartPending": false,
		"message": message, "observedGeneration": 1, "triggerDigest": strings.Repeat("0", 64),
	}
}

func entries(e object) object { return object{"status": object{"nodes": e}} }

// nodeState is what an agent creates, but for the owner.
func nodeState(name string) object {
	return object{"apiVersion": "keel.tlspu.io/v1alpha1", "kind": "NodeState", "metadata": object{"name": name}}
}

func configs(e object) object { return object{"status": object{"configs": e}} }

// status is what the server has.
type status struct {
	ObservedGeneration *int64
	Nodes              map[string]struct {
		LastRunTime, LastResult, Message, TriggerDigest string
		Changed, RestartPending                         *bool
		ObservedGeneration                              *int64
	}
}

func statusOf(t *testing.T, s *kubetest.Server, name string) status {
	t.Helper()
	var nc struct{ Status status }
	if err := s.Do(t.Context(), s.Admin(), http.MethodGet, nodeConfigs+"/"+name, nil, &nc); err != nil {
		t.Fatal(err)
	}
	return nc.Status
}

// refused checks that an answer is an error of that code with these words.
func refused(t *testing.T, err error, code int, words ...string) {
	t.Helper()
	var status *kubetest.StatusError
	if !errors.As(err, &status) || status.Code != code {
		t.Errorf("got %v, want it refused with %d", err, code)
		return
	}
	for _, w := range words {
		if !strings.Contains(status.Message, w) {
			t.Errorf("the refusal does not say %q:\n%s", w, status.Message)
		}
	}
}

// parse reads JSON that a test holds.
func parse(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}
