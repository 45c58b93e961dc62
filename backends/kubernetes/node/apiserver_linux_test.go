package node

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"
	"github.com/tlspu/keel/core/plugin"
	"github.com/tlspu/keel/test/kubetest"
	"github.com/tlspu/keel/test/nodetest"
)

type body = map[string]any

const nodeConfigs = "/apis/keel.tlspu.io/v1alpha1/nodeconfigs"

// A clusterWorld is a machine below a Node of a real API server, with an agent.
type clusterWorld struct {
	*nodetest.World
	server   *kubetest.Server
	node     string
	settings settings
	ahead    atomic.Int64 // of the agent's clock, in nanoseconds
	log      syncedBuffer
	agent    *agent
	end      func() error
}

type syncedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *syncedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// newClusterWorld makes a Node for the test on a server that has the CRDs.
func newClusterWorld(t *testing.T, s *kubetest.Server) *clusterWorld {
	t.Helper()
	s.InstallCRDs(t, "../../../deploy/kubernetes/crd")
	w := &clusterWorld{World: nodetest.NewWorld(t), server: s, node: strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))}
	s.Node(t, corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: w.node, Labels: map[string]string{"role": "web"}},
		Status:     corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.37.2"}},
	})
	w.settings = *Role().Settings().(*settings)
	w.settings.HostRoot, w.settings.NodeName = w.Env.Root, w.node
	w.settings.Kubeconfig = s.Kubeconfig(t, s.Admin())
	w.settings.SourceNamespaces = []string{"default"}
	w.settings.MetricsAddr, w.settings.HealthAddr = "127.0.0.1:0", "127.0.0.1:0"
	w.Env.Now = func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }
	w.Env.UID = os.Geteuid()
	w.Env.Log = slog.New(slog.NewTextHandler(&w.log, nil))
	return w
}

// start runs the agent until the test ends, or end is called.
func (w *clusterWorld) start(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	a, err := newAgent(ctx, w.Env, w.settings)
	if err != nil {
		t.Fatal(err)
	}
	w.agent = a
	ended := make(chan error, 1)
	go func() {
		err := a.run(ctx)
		ended <- errors.Join(err, a.close(ctx))
	}()
	w.end = sync.OnceValue(func() error {
		stop()
		return <-ended
	})
	t.Cleanup(func() {
		if err := w.end(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(w.log.String())
		}
	})
}

func (w *clusterWorld) do(t *testing.T, method, path string, content any) {
	t.Helper()
	if err := w.server.Do(t.Context(), w.server.Admin(), method, path, content, nil); err != nil {
		t.Fatal(err)
	}
}

// apply makes a NodeConfig that goes with the test.
func (w *clusterWorld) apply(t *testing.T, name string, spec body) {
	t.Helper()
	w.do(t, http.MethodPost, nodeConfigs, body{
		"apiVersion": "keel.tlspu.io/v1alpha1", "kind": "NodeConfig", "metadata": body{"name": name}, "spec": spec,
	})
	t.Cleanup(func() {
		_ = w.server.Do(context.WithoutCancel(t.Context()), w.server.Admin(), http.MethodDelete, nodeConfigs+"/"+name, nil, nil)
	})
}

// status is this node's of a NodeConfig.
func (w *clusterWorld) status(t *testing.T, name string) (v1alpha1.NodeStatus, bool) {
	t.Helper()
	var nc struct{ Status v1alpha1.NodeConfigStatus } // its spec may be of another version
	if err := w.server.Do(t.Context(), w.server.Admin(), http.MethodGet, nodeConfigs+"/"+name, nil, &nc); err != nil {
		t.Fatal(err)
	}
	s, ok := nc.Status.Nodes[w.node]
	return s, ok
}

// until waits for what the agent is about to do.
func (w *clusterWorld) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	kubetest.Await(t, what, ok)
}

func (w *clusterWorld) content(name string) string {
	data, _ := os.ReadFile(w.Env.Root + "/etc/" + name)
	return string(data)
}

func TestCluster_keepsANode(t *testing.T) {
	w := newClusterWorld(t, kubetest.Shared(t))
	w.start(t)
	w.apply(t, "motd", body{"type": "setting", "interval": "10s", "params": body{"path": "/etc/motd", "value": "role {{ .Node.Labels.role }}"}})
	w.until(t, "the file", func() bool { return w.content("motd") == "role web" })
	w.until(t, "the status", func() bool {
		s, ok := w.status(t, "motd")
		return ok && s.LastResult == v1alpha1.Success && s.Changed && s.ObservedGeneration == 1 && s.Message == "configuration applied"
	})
	w.do(t, http.MethodPatch, nodeConfigs+"/motd", body{"spec": body{"params": body{"value": "two"}}})
	w.until(t, "the edit", func() bool { return w.content("motd") == "two" })
	w.until(t, "its status", func() bool {
		s, _ := w.status(t, "motd")
		return s.ObservedGeneration == 2 && s.Changed
	})
	if err := w.agent.health.Ready(); err != nil {
		t.Errorf("not ready: %v", err)
	}
	if strings.Contains(w.log.String(), "level=ERROR") {
		t.Errorf("it complains without a reason:\n%s", w.log.String())
	}
}

func TestCluster_readsWhatItNames(t *testing.T) {
	w := newDebugWorld(t, kubetest.Shared(t))
	name := w.node
	w.apply(t, name, body{
		"type": "setting", "interval": "1h", "params": body{"path": "/etc/db", "value": "{{ .ConfigMaps.c.host }}:{{ .Secrets.s.password }}"},
		"configMaps": []any{body{"namespace": "default", "name": name, "as": "c"}}, "secrets": []any{body{"namespace": "default", "name": name, "as": "s"}},
	})
	w.start(t)
	w.until(t, "what is missing", func() bool {
		s, _ := w.status(t, name)
		return s.LastResult == v1alpha1.Error && strings.Contains(s.Message, "ConfigMap default/"+name+" is not there")
	})
	w.object(t, "configmaps/"+name, body{"data": body{"host": "db-1"}})
	w.object(t, "secrets/"+name, body{"stringData": body{"password": "hunter2"}})
	w.until(t, "what appeared", func() bool { return w.content("db") == "db-1:hunter2" })
	w.until(t, "success", func() bool { s, _ := w.status(t, name); return s.LastResult == v1alpha1.Success })
	w.object(t, "configmaps/"+name, body{"data": body{"host": "db-2"}})
	w.turn(t)
	w.after(t, maxSpread) // what is new for all nodes is spread
	w.until(t, "the change", func() bool { return w.content("db") == "db-2:hunter2" })
	if strings.Contains(w.log.String(), "hunter2") {
		t.Error("the log shows the Secret")
	}
}

// A NodeConfig that never was for this node leaves no trace in its status.
func TestCluster_excludedNodesAreSilent(t *testing.T) {
	w := newClusterWorld(t, kubetest.Shared(t))
	w.start(t)
	spec := body{"type": "setting", "interval": "10s", "nodeSelector": body{"matchLabels": body{"role": "db"}}, "params": body{"path": "/etc/db", "value": "x"}}
	w.apply(t, w.node, spec)
	spec["nodeSelector"], spec["params"] = nil, body{"path": "/etc/all", "value": "x"}
	w.apply(t, w.node+"-all", spec)
	w.until(t, "the other one", func() bool { _, ok := w.status(t, w.node+"-all"); return ok })
	if s, ok := w.status(t, w.node); ok || w.content("db") != "" {
		t.Errorf("status %+v, file %q", s, w.content("db"))
	}
	w.do(t, http.MethodPatch, "/api/v1/nodes/"+w.node, body{"metadata": body{"labels": body{"role": "db"}}})
	w.until(t, "it is for this node", func() bool { s, _ := w.status(t, w.node); return s.Changed })
	w.do(t, http.MethodPatch, "/api/v1/nodes/"+w.node, body{"metadata": body{"labels": body{"role": "web"}}})
	w.until(t, "it is no more", func() bool { s, _ := w.status(t, w.node); return s.Message == nodeconfig.Excluded })
	if w.content("db") != "x" {
		t.Error("what it did was undone")
	}
}

// With the token of one node an agent does not run for another: it would apply here
// what is meant for that one.
func TestCluster_refusesTheNameOfAnotherNode(t *testing.T) {
	w := newClusterWorld(t, kubetest.Shared(t))
	w.account(t)
	w.settings.NodeName = "another"
	_, err := newAgent(t.Context(), w.Env, w.settings)
	exit := (*plugin.Exit)(nil)
	if !errors.As(err, &exit) || exit.Code != plugin.ExitInvalid || !strings.Contains(err.Error(), "bound to "+w.node) {
		t.Errorf("error %v, want the exit code %d", err, plugin.ExitInvalid)
	}
	if files, err := os.ReadDir(w.Env.Root); err != nil || len(files) > 0 {
		t.Errorf("the machine was touched: %v, %v", files, err)
	}
}
