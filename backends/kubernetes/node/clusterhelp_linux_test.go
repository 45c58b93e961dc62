package node

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tlspu/keel/backends/kubernetes/node/cluster"
	"github.com/tlspu/keel/test/kubetest"
)

// lastly is a NodeConfig whose parameters are wrong, so that an edit of it is visited
// at once, after all others that are due.
const lastly = "zz-lastly"

// newDebugWorld is a clusterWorld whose agent logs every visit.
func newDebugWorld(t *testing.T, s *kubetest.Server) *clusterWorld {
	t.Helper()
	w := newClusterWorld(t, s)
	w.Env.Log = slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.settings.DefaultInterval = 10 * time.Hour
	w.apply(t, lastly, body{"type": "setting", "params": body{"path": "relative"}})
	return w
}

// visits is how often the agent visited a NodeConfig.
func (w *clusterWorld) visits(name string) int {
	n := 0
	for line := range strings.Lines(w.log.String()) {
		if strings.Contains(line, " target="+name+" handler=") && strings.Contains(line, " took=") {
			n++
		}
	}
	return n
}

// shows reports whether /metrics has a line.
func (w *clusterWorld) shows(t *testing.T, line string) bool {
	answer := httptest.NewRecorder()
	w.agent.metrics.Handler(w.Env.Log).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	return strings.Contains(answer.Body.String(), "\n"+line+"\n")
}

// turn waits until the agent has taken in what the API server knew of NodeConfigs
// when it was called, and has visited what was due then.
func (w *clusterWorld) turn(t *testing.T) {
	t.Helper()
	before := w.visits(lastly)
	value := fmt.Sprint(time.Now().UnixNano())
	w.do(t, http.MethodPatch, nodeConfigs+"/"+lastly, body{"spec": body{"params": body{"value": value}}})
	w.until(t, "a pass", func() bool { return w.visits(lastly) > before })
}

// after lets time go by for the agent, and it make a pass then. A NodeConfig with late
// steps, which restart units, is reported after the one that turn waits for: a second
// turn is of a later pass, so the whole of the first is known by then.
func (w *clusterWorld) after(t *testing.T, d time.Duration) {
	t.Helper()
	w.ahead.Add(int64(d))
	w.turn(t)
	w.turn(t)
}

// cluster is what the agent knows of the API server.
func (w *clusterWorld) cluster() *cluster.Cluster { return w.agent.source.(*clustered).cluster }

// object makes or replaces a ConfigMap or a Secret, "configmaps/app", that goes with
// the test, and waits until the agent, if it follows it, has it.
func (w *clusterWorld) object(t *testing.T, path string, content body) {
	t.Helper()
	kind, name, _ := strings.Cut(path, "/")
	all := "/api/v1/namespaces/default/" + kind
	object := body{"metadata": body{"name": name}}
	for key, value := range content {
		object[key] = value
	}
	var stored struct {
		Metadata struct{ ResourceVersion string }
	}
	method, at := http.MethodPatch, all+"/"+name
	if err := w.server.Do(t.Context(), w.server.Admin(), http.MethodGet, at, nil, nil); err != nil {
		method, at = http.MethodPost, all
		t.Cleanup(func() { w.remove(t, path) })
	}
	if err := w.server.Do(t.Context(), w.server.Admin(), method, at, object, &stored); err != nil {
		t.Fatal(err)
	}
	w.until(t, "the watch of "+path, func() bool {
		data, err := w.find(path)
		return err != nil || data == stored.Metadata.ResourceVersion
	})
}

// find is the version of a ConfigMap or a Secret that the agent has.
func (w *clusterWorld) find(path string) (version string, err error) {
	kind, name, _ := strings.Cut(path, "/")
	title := map[string]string{"configmaps": "ConfigMap", "secrets": "Secret"}[kind] + " default/" + name
	if w.agent == nil {
		return "", cluster.ErrPending
	}
	data, err := w.cluster().Find(title)
	if err != nil || data == nil {
		return "", err
	}
	return data.ResourceVersion, nil
}

// remove deletes a ConfigMap or a Secret, and waits until the agent knows.
func (w *clusterWorld) remove(t *testing.T, path string) {
	t.Helper()
	_ = w.server.Do(context.WithoutCancel(t.Context()), w.server.Admin(), http.MethodDelete, "/api/v1/namespaces/default/"+path, nil, nil)
	if t.Context().Err() == nil {
		w.until(t, "the end of "+path, func() bool { v, _ := w.find(path); return v == "" })
	}
}

// patchNode changes the Node and waits until the agent has it.
func (w *clusterWorld) patchNode(t *testing.T, subresource string, patch body) {
	t.Helper()
	before := w.cluster().FactsEdition()
	w.do(t, http.MethodPatch, "/api/v1/nodes/"+w.node+subresource, patch)
	w.until(t, "the watch of the Node", func() bool { return w.cluster().FactsEdition() > before })
}

// last is the line of the log about the last visit of a NodeConfig.
func (w *clusterWorld) last(name string) (last string) {
	for line := range strings.Lines(w.log.String()) {
		if strings.Contains(line, " target="+name+" handler=") {
			last = line
		}
	}
	return last
}

// hand writes a file of the machine as a person would.
func (w *clusterWorld) hand(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(w.Env.Root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// readers is what an agent does with everything that it reads.
func readers() []string { return []string{"get", "list", "watch"} }

// account has the agent be a ServiceAccount of its own, that may do what an agent
// does, but read no ConfigMaps and Secrets.
func (w *clusterWorld) account(t *testing.T) {
	t.Helper()
	w.may(t, "clusterroles",
		body{"apiGroups": []string{"keel.tlspu.io"}, "resources": []string{"nodeconfigs"}, "verbs": readers()},
		body{"apiGroups": []string{"keel.tlspu.io"}, "resources": []string{"nodeconfigs/status"}, "verbs": []string{"patch"}},
		body{"apiGroups": []string{""}, "resources": []string{"nodes", "namespaces"}, "verbs": readers()},
		body{"apiGroups": []string{""}, "resources": []string{"events"}, "verbs": []string{"create", "patch"}})
	w.server.ServiceAccount(t, "default", w.node)
	w.settings.Kubeconfig = w.server.Kubeconfig(t, w.server.WithToken(w.server.NodeToken(t, "default", w.node, w.node)))
}

// may gives the agent's ServiceAccount rights, in the cluster or a namespace.
func (w *clusterWorld) may(t *testing.T, roles string, rules ...body) {
	t.Helper()
	const api = "/apis/rbac.authorization.k8s.io/v1/"
	kind := "Role"
	if roles == "clusterroles" {
		kind = "ClusterRole"
	}
	bindings := api + strings.TrimSuffix(roles, "s") + "bindings"
	t.Cleanup(func() {
		for _, path := range []string{api + roles, bindings, "/api/v1/namespaces/default/serviceaccounts"} {
			_ = w.server.Do(context.WithoutCancel(t.Context()), w.server.Admin(), http.MethodDelete, path+"/"+w.node, nil, nil)
		}
	})
	w.do(t, http.MethodPost, api+roles, body{"metadata": body{"name": w.node}, "rules": rules})
	w.do(t, http.MethodPost, bindings, body{
		"metadata": body{"name": w.node}, "roleRef": body{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": w.node},
		"subjects": []body{{"kind": "ServiceAccount", "namespace": "default", "name": w.node}},
	})
}
