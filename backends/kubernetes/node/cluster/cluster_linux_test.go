package cluster

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tlspu/keel/backends/kubernetes/node/facts"
	"github.com/tlspu/keel/test/kubetest"
)

type body = map[string]any

const nodeConfigs = "/apis/keel.tlspu.io/v1alpha1/nodeconfigs"

// started follows the shared server, which has the CRDs.
func started(t *testing.T, s *kubetest.Server, access *rest.Config, o Options) *Cluster {
	t.Helper()
	var err error
	if o.Client, err = Connect(s.Kubeconfig(t, access), "keel-test/"+t.Name()); err != nil {
		t.Fatal(err)
	}
	o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	c := New(o)
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(func() { stop(); c.Wait() })
	c.Start(ctx)
	return c
}

func server(t *testing.T) *kubetest.Server {
	t.Helper()
	s := kubetest.Shared(t)
	s.InstallCRDs(t, "../../../../deploy/kubernetes/crd")
	return s
}

func node(name string) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"role": "web"}},
		Status:     corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.37.2", Architecture: "amd64"}},
	}
}

// do asks the server as the administrator.
func do(t *testing.T, s *kubetest.Server, method, path string, content any) {
	t.Helper()
	if err := s.Do(t.Context(), s.Admin(), method, path, content, nil); err != nil {
		t.Fatal(err)
	}
}

func TestCluster_facts(t *testing.T) {
	s := server(t)
	c := started(t, s, s.Admin(), Options{Node: "facts-1"})
	kubetest.Await(t, "no such Node", func() bool {
		err := c.SetFacts(new(facts.Facts))
		return err != nil && strings.Contains(err.Error(), "no Node facts-1: is node-name right?")
	})
	s.Node(t, node("facts-1"))
	var f facts.Facts
	kubetest.Await(t, "facts", func() bool { return c.SetFacts(&f) == nil })
	first := c.UID()
	if f.Node.Labels["role"] != "web" || f.Cluster.ID == "" || f.Cluster.Version != "v1.37.2" || f.Cluster.Server != s.URL || f.Cluster.Platform == "" || first == "" {
		t.Errorf("facts %+v", f)
	}

	edition := c.FactsEdition()
	do(t, s, http.MethodPatch, "/api/v1/nodes/facts-1", body{"metadata": body{"labels": body{"role": "db"}}})
	kubetest.Await(t, "another label", func() bool {
		return c.FactsEdition() != edition && c.SetFacts(&f) == nil && f.Node.Labels["role"] == "db"
	})

	// What the Node said stays known when it is gone, and counts for nothing in its
	// successor.
	do(t, s, http.MethodDelete, "/api/v1/nodes/facts-1", nil)
	kubetest.Await(t, "the Node is gone", func() bool { return c.UID() == "" })
	if err := c.Err(); err == nil || !strings.Contains(err.Error(), "no Node facts-1") {
		t.Errorf("error %v", err)
	}
	if err := c.SetFacts(&f); err != nil || f.Node.Labels["role"] != "db" {
		t.Errorf("without a Node: %v, %+v", err, f.Node)
	}
	s.Node(t, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "facts-1"}})
	kubetest.Await(t, "the successor", func() bool { return c.UID() != "" })
	err := c.SetFacts(&f)
	_, hasLabel := f.Node.Labels["role"]
	if _, missing := f.Lookup("Node.KubeletVersion"); err != nil || hasLabel || c.UID() == first || missing == nil || !strings.Contains(missing.Error(), "not reported") {
		t.Errorf("the successor: %v, %v, %+v", err, missing, f.Node)
	}
}

func TestCluster_nodeConfigs(t *testing.T) {
	s := server(t)
	make := func(name, content string) {
		do(t, s, http.MethodPost, nodeConfigs, body{"apiVersion": "keel.tlspu.io/v1alpha1", "kind": "NodeConfig",
			"metadata": body{"name": name}, "spec": body{"type": "file", "params": body{"path": "/etc/motd", "content": content}}})
		t.Cleanup(func() {
			_ = s.Do(context.WithoutCancel(t.Context()), s.Admin(), http.MethodDelete, nodeConfigs+"/"+name, nil, nil)
		})
	}
	make("watched", "one\n")
	c := started(t, s, s.Admin(), Options{Node: "n1"})
	var news []NodeConfig
	take := func() bool {
		var gone []string
		news, gone, _ = c.Take()
		return len(news)+len(gone) > 0
	}
	kubetest.Await(t, "the first list", take)
	if len(news) != 1 || news[0].Name != "watched" || news[0].Document.Err != nil || news[0].Document.NodeConfig.Spec.Params["content"] != "one\n" || news[0].Created.IsZero() {
		t.Fatalf("news %+v", news)
	}
	// Entries of this node and of others are known and are no news.
	do(t, s, http.MethodPatch, nodeConfigs+"/watched/status", body{"status": body{"observedGeneration": 1, "nodes": body{
		"n1": body{"lastRunTime": "2026-10-15T12:00:00Z", "lastResult": "error", "message": "m"},
		"n2": body{"lastRunTime": "2026-10-15T12:00:00Z", "lastResult": "success"},
	}}})
	kubetest.Await(t, "the status", func() bool {
		k, _ := c.Known("watched")
		return k.Own != nil && k.Own.Message == "m" && k.Observed == 1 && k.Size > 100
	})
	if take() {
		t.Errorf("a status is news: %+v", news)
	}
	do(t, s, http.MethodPatch, nodeConfigs+"/watched", body{"spec": body{"suspend": true}})
	kubetest.Await(t, "the edit", take)
	if len(news) != 1 || !news[0].Document.NodeConfig.Spec.Suspend || news[0].Generation != 2 || news[0].Own == nil {
		t.Errorf("news %+v", news)
	}
	do(t, s, http.MethodDelete, nodeConfigs+"/watched", nil)
	kubetest.Await(t, "the end", func() bool { _, there := c.Known("watched"); return !there })
	if _, gone, synced := c.Take(); !slices.Equal(gone, []string{"watched"}) || !synced {
		t.Errorf("gone %v, synced %v", gone, synced)
	}
}

// Only what is named is asked for, each by a watch of its own that ends when it is
// named no more.
func TestCluster_data(t *testing.T) {
	s := server(t)
	space, other := s.Namespace(t, "data"), s.Namespace(t, "other")
	s.Node(t, node("data-1"))
	s.ServiceAccount(t, space, "agent")
	token := s.NodeToken(t, space, "agent", "data-1")
	began := time.Now()
	c := started(t, s, s.WithToken(token), Options{Node: "data-1", Namespaces: []string{space}})
	config, secret, outside := "ConfigMap "+space+"/a", "Secret "+space+"/b", "Secret "+other+"/c"
	if _, err := c.Find(config); !errors.Is(err, ErrPending) {
		t.Errorf("before it is wanted: %v", err)
	}
	c.Want([]string{config, secret, outside})
	if _, err := c.Find(outside); err == nil || errors.Is(err, ErrPending) || !strings.Contains(err.Error(), "add "+other+" to source-namespaces (now "+space+")") {
		t.Errorf("outside: %v", err)
	}
	for _, title := range []string{config, secret} {
		kubetest.Await(t, "forbidden", func() bool {
			_, err := c.Find(title)
			return err != nil && !errors.Is(err, ErrPending)
		})
		if _, err := c.Find(title); !strings.Contains(err.Error(), "give the agent's ServiceAccount get, list and watch on") {
			t.Errorf("%s: %v", title, err)
		}
	}

	// Rights by name are enough. Nobody has to start anything again.
	rbac := "/apis/rbac.authorization.k8s.io/v1/namespaces/" + space
	do(t, s, http.MethodPost, rbac+"/roles", body{"metadata": body{"name": "read"}, "rules": []any{
		body{"apiGroups": []any{""}, "resources": []any{"configmaps"}, "resourceNames": []any{"a"}, "verbs": []any{"get", "list", "watch"}},
		body{"apiGroups": []any{""}, "resources": []any{"secrets"}, "resourceNames": []any{"b"}, "verbs": []any{"get", "list", "watch"}},
	}})
	do(t, s, http.MethodPost, rbac+"/rolebindings", body{"metadata": body{"name": "read"},
		"roleRef":  body{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "read"},
		"subjects": []any{body{"kind": "ServiceAccount", "name": "agent", "namespace": space}}})
	for _, title := range []string{config, secret} {
		kubetest.Await(t, "allowed", func() bool { d, err := c.Find(title); return d == nil && err == nil })
	}
	c.TakeData()
	do(t, s, http.MethodPost, "/api/v1/namespaces/"+space+"/configmaps", body{"metadata": body{"name": "a"}, "data": body{"k": "v"}, "binaryData": body{"b": "/w=="}})
	do(t, s, http.MethodPost, "/api/v1/namespaces/"+space+"/secrets", body{"metadata": body{"name": "b"}, "data": body{"k": "AP8="}})
	kubetest.Await(t, "both are there", func() bool {
		a, _ := c.Find(config)
		b, _ := c.Find(secret)
		return a != nil && a.Values["k"] == "v" && a.Values["b"] == "\xff" && b != nil && b.Values["k"] == "\x00\xff" && b.UID != "" && b.ResourceVersion != ""
	})
	if got := c.TakeData(); !slices.Contains(got, config) || !slices.Contains(got, secret) || len(c.TakeData()) > 0 {
		t.Errorf("taken: %q, want both, once", got)
	}

	c.Want([]string{secret})
	if _, err := c.Find(config); !errors.Is(err, ErrPending) {
		t.Errorf("no more wanted: %v", err)
	}
	do(t, s, http.MethodDelete, "/api/v1/namespaces/"+space+"/secrets/b", nil)
	kubetest.Await(t, "it is gone", func() bool { d, err := c.Find(secret); return d == nil && err == nil })

	for _, r := range s.Requests(t, began) {
		if !strings.HasSuffix(r.UserAgent, t.Name()) || r.Resource != "configmaps" && r.Resource != "secrets" {
			continue
		}
		if r.Namespace != space || !strings.Contains(r.Path, "fieldSelector=metadata.name%3D") || r.Writes() {
			t.Errorf("asked for %s %s", r.Verb, r.Path)
		}
	}
}

func TestCluster_troubles(t *testing.T) {
	s := server(t)
	foreign := s.WithToken("no-token")
	other := *s.Admin()
	other.CAData = kubetest.Start(t, kubetest.Options{}).Admin().CAData
	away := *s.Admin()
	away.Host = "https://127.0.0.1:1"
	tests := []struct {
		name   string
		access *rest.Config
		want   string
	}{
		{"another token", foreign, "does not accept the agent's token"},
		{"another authority", &other, "is not of the authority that the agent was given"},
		{"nobody there", &away, "connection refused"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := started(t, s, tt.access, Options{Node: "n1"})
			kubetest.Await(t, tt.want, func() bool {
				err := c.Err()
				return err != nil && strings.Contains(err.Error(), "nodeconfigs") && strings.Contains(err.Error(), tt.want)
			})
			if _, _, synced := c.Take(); synced {
				t.Error("nothing was read, and it says that everything was")
			}
			kubetest.Await(t, "facts", func() bool {
				err := c.SetFacts(new(facts.Facts))
				return err != nil && strings.Contains(err.Error(), tt.want)
			})
		})
	}
}

// While the server is away what is known stays, and afterwards what happened
// meanwhile is learned.
func TestCluster_outage(t *testing.T) {
	s := kubetest.Start(t, kubetest.Options{})
	s.InstallCRDs(t, "../../../../deploy/kubernetes/crd")
	s.Node(t, node("n1"))
	c := started(t, s, s.Admin(), Options{Node: "n1", Namespaces: []string{"default"}})
	do(t, s, http.MethodPost, "/api/v1/namespaces/default/configmaps", body{"metadata": body{"name": "a"}, "data": body{"k": "v"}})
	c.Want([]string{"ConfigMap default/a"})
	kubetest.Await(t, "everything is known", func() bool {
		d, err := c.Find("ConfigMap default/a")
		_, _, synced := c.Take()
		return d != nil && err == nil && synced && c.SetFacts(new(facts.Facts)) == nil
	})
	s.API.Stop()
	kubetest.Await(t, "the trouble", func() bool { return c.Err() != nil })
	if d, err := c.Find("ConfigMap default/a"); d == nil || err != nil || c.SetFacts(new(facts.Facts)) != nil {
		t.Errorf("away: %v, %v", d, err)
	}
	c.Want([]string{"ConfigMap default/a", "ConfigMap default/b"})
	if _, err := c.Find("ConfigMap default/b"); !errors.Is(err, ErrPending) {
		t.Errorf("wanted while the server is away: %v", err)
	}
	if err := s.API.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	do(t, s, http.MethodPatch, "/api/v1/namespaces/default/configmaps/a", body{"data": body{"k": "w"}})
	kubetest.Await(t, "the trouble has ended", func() bool { return c.Err() == nil })
	kubetest.Await(t, "what changed", func() bool {
		a, _ := c.Find("ConfigMap default/a")
		b, err := c.Find("ConfigMap default/b")
		return a != nil && a.Values["k"] == "w" && b == nil && err == nil
	})
}

func TestConnect_refuses(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for kubeconfig, want := range map[string]string{"": "this is not a pod", "/nonexistent": "kubeconfig /nonexistent: "} {
		if _, err := Connect(kubeconfig, "keel"); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s…", kubeconfig, err, want)
		}
	}
}
