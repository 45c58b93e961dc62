package node

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gopkg.in/yaml.v3"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/test/kubetest"
	"github.com/tlspu/keel/test/nodetest"
)

// A newer CRD takes any spec, as that of a version to come would take fields this one
// does not know. The usual one comes back with the end of the test.
func newerCRD(t *testing.T, s *kubetest.Server) {
	t.Helper()
	const folder = "../../../deploy/kubernetes/crd"
	data, err := os.ReadFile(folder + "/keel.tlspu.io_nodeconfigs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd body
	if err := yaml.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	schema := crd["spec"].(body)["versions"].([]any)[0].(body)["schema"].(body)["openAPIV3Schema"].(body)
	schema["properties"].(body)["spec"] = body{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	if data, err = json.Marshal(crd); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "crd.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.InstallCRDs(undying{t}, folder) })
	s.InstallCRDs(t, dir)
}

// An undying test has a context that lasts until its last cleanup.
type undying struct{ testing.TB }

func (u undying) Context() context.Context { return context.WithoutCancel(u.TB.Context()) }

// loud fails with a message of a mebibyte, as a command may that prints a lot.
type loud struct{ nodetest.Setting }

func (loud) Name() string { return "loud" }

func (loud) Validate(map[string]string) error { return nil }

func (loud) Claims(map[string]string) []string { return nil }

func (loud) Ensure(context.Context, handler.Call) (bool, error) {
	return false, errors.New("it says: " + strings.Repeat("no ", 1<<20/3))
}

func (loud) Observe(context.Context, handler.Look) (declared, observed drift.State, err error) {
	path := drift.Path{"quiet"}
	return drift.State{{Path: path, Value: true}}, drift.State{{Path: path, Value: false}}, nil
}

// What the API server refuses never comes to an agent.
func TestCluster_refusedByTheServer(t *testing.T) {
	s := kubetest.Shared(t)
	w := newClusterWorld(t, s)
	for want, spec := range map[string]body{
		"spec.services[0]":  {"type": "setting", "services": []string{"a b.service"}},
		"spec.interval":     {"type": "setting", "interval": "5s"},
		"spec.type":         {"params": body{"path": "/etc/x"}},
		"spec.nodeSelector": {"type": "setting", "nodeSelector": body{"matchExpressions": []body{{"key": "a", "operator": "Near"}}}},
		"spec.configMaps":   {"type": "setting", "configMaps": []body{{"namespace": "default", "name": "a", "as": "not-a-name"}}},
	} {
		err := s.Do(t.Context(), s.Admin(), http.MethodPost, nodeConfigs, body{
			"apiVersion": "keel.tlspu.io/v1alpha1", "kind": "NodeConfig", "metadata": body{"name": w.node}, "spec": spec,
		}, nil)
		if refused := (*kubetest.StatusError)(nil); !errors.As(err, &refused) || refused.Code != 422 || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want one about %s", spec, err, want)
		}
	}
}

// Whatever is stored, a NodeConfig that cannot be kept has an error that says why,
// nothing is touched, it is not tried again and again, and the others go on.
func TestCluster_badInput(t *testing.T) {
	w := newDebugWorld(t, kubetest.Shared(t))
	newerCRD(t, w.server)
	w.Env.Handlers.Register("loud", loud{w.Handler})
	params := func(value string) body { return body{"path": "/etc/bad", "value": value} }
	reads := func(namespace, name string) []body {
		return []body{{"namespace": namespace, "name": name, "as": "it"}}
	}
	w.object(t, "configmaps/bad", body{"data": body{"text": "one"}})
	rows := []struct {
		name string
		spec body
		want string // part of the message
	}{
		{"unknown-type", body{"type": "settin", "params": params("x")}, "spec.type: "},
		{"no-type", body{"params": params("x")}, "spec.type: "},
		{"no-parameter", body{"type": "setting"}, "params.path: must be absolute"},
		{"bad-parameter", body{"type": "setting", "params": body{"path": "etc"}}, "params.path: must be absolute"},
		{"parameter-of-another-type", body{"type": "setting", "params": body{"path": 7}}, "spec: "},
		{"bad-unit", body{"type": "setting", "params": params("x"), "services": []string{"a b.service"}}, "services[0]"},
		{"bad-unit-of-a-template", body{"type": "setting", "params": params("x"), "services": []string{"{{ .Node.Name }} b.service"}}, "services[0]"},
		{"short-interval", body{"type": "setting", "params": params("x"), "interval": "5s"}, "interval"},
		{"no-interval", body{"type": "setting", "params": params("x"), "interval": "soon"}, `invalid duration "soon"`},
		{"bad-operator", body{"type": "setting", "params": params("x"), "nodeSelector": body{"matchExpressions": []body{{"key": "a", "operator": "Near"}}}}, "nodeSelector"},
		{"no-template", body{"type": "setting", "params": params("{{ .Node.Name")}, "spec.params.value: "},
		{"no-function", body{"type": "setting", "params": params("{{ uper .Node.Name }}")}, `function "uper" not defined`},
		{"no-fact", body{"type": "setting", "params": params("{{ .Node.Size }}")}, "spec.params.value: "},
		{"no-label", body{"type": "setting", "params": params("{{ .Node.Labels.none }}")}, "spec.params.value: "},
		{"no-configmap", body{"type": "setting", "params": params("x"), "configMaps": reads("default", "bad-later")}, "ConfigMap default/bad-later is not there"},
		{"no-secret", body{"type": "setting", "params": params("x"), "secrets": reads("default", "bad-later")}, "Secret default/bad-later is not there"},
		{"no-key", body{"type": "setting", "params": params("{{ .ConfigMaps.it.none }}"), "configMaps": reads("default", "bad")}, "none"},
		{"outside", body{"type": "setting", "params": params("x"), "configMaps": reads("kube-system", "x")}, "add kube-system to source-namespaces"},
		{"loud", body{"type": "loud"}, "it says: no no"},
	}
	w.start(t)
	w.apply(t, "bad-good", body{"type": "setting", "params": body{"path": "/etc/good", "value": "one"}})
	for _, row := range rows {
		w.apply(t, "bad-"+row.name, row.spec)
	}
	w.turn(t)
	w.until(t, "what is read", func() bool { v, _ := w.find("configmaps/bad"); return v != "" })
	w.turn(t)
	w.after(t, maxSpread)
	for _, row := range rows {
		name := "bad-" + row.name
		var s v1alpha1.NodeStatus
		w.until(t, "the status of "+name, func() (ok bool) { s, ok = w.status(t, name); return ok })
		if s.LastResult != v1alpha1.Error || s.Changed || s.RestartPending || !strings.Contains(s.Message, row.want) || len(s.Message) > v1alpha1.MaxMessage {
			t.Errorf("%s: status %+v, want an error with %q", name, s, row.want)
		}
	}
	w.do(t, http.MethodPatch, nodeConfigs+"/bad-good", body{"spec": body{"params": body{"value": "two"}}})
	w.turn(t)
	w.after(t, maxSpread)
	if w.content("good") != "two" || w.content("bad") != "" || len(w.Systemd.Log(t)) != 0 {
		t.Errorf("the good one holds %q, the bad ones %q", w.content("good"), w.content("bad"))
	}
	w.after(t, time.Hour)
	for _, row := range rows {
		most := 1
		if row.name == "loud" { // it backs off
			most = 4
		}
		if n := w.visits("bad-" + row.name); n > most {
			t.Errorf("%s: %d visits within an hour", row.name, n)
		}
	}

	t.Run("a message of a mebibyte is cut where it is shown", func(t *testing.T) {
		s, _ := w.status(t, "bad-loud")
		if !strings.HasSuffix(s.Message, "…") {
			t.Errorf("status %q has no mark", s.Message)
		}
		var events corev1.EventList
		w.until(t, "the Event", func() bool {
			const path = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=bad-loud"
			err := w.server.Do(t.Context(), w.server.Admin(), http.MethodGet, path, nil, &events)
			return err == nil && len(events.Items) > 0
		})
		if m := events.Items[0].Message; !strings.HasSuffix(m, "…") || len(m) > v1alpha1.MaxMessage+len(w.node)+2 {
			t.Errorf("Event %q", m)
		}
		for line := range strings.Lines(w.log.String()) {
			if len(line) > 10<<10 {
				t.Fatalf("a line of the log has %d bytes", len(line))
			}
		}
	})

	t.Run("what was missing appears", func(t *testing.T) {
		for name, appears := range map[string]func(){
			"bad-no-configmap": func() { w.object(t, "configmaps/bad-later", body{"data": body{"text": "x"}}) },
			"bad-no-secret":    func() { w.object(t, "secrets/bad-later", body{"stringData": body{"text": "x"}}) },
			"bad-no-key":       func() { w.object(t, "configmaps/bad", body{"data": body{"none": "x"}}) },
			"bad-no-label":     func() { w.patchNode(t, "", body{"metadata": body{"labels": body{"none": "x"}}}) },
		} {
			w.do(t, http.MethodPatch, nodeConfigs+"/"+name, body{"spec": body{"params": body{"path": "/etc/" + name}}})
			w.turn(t)
			before := w.visits(name)
			appears()
			w.turn(t) // without any time going by
			if n := w.visits(name) - before; n != 1 || w.content(name) != "x" {
				t.Errorf("%s: %d visits when it appeared, content %q", name, n, w.content(name))
			}
		}
	})

	t.Run("a newer version's fields", func(t *testing.T) {
		w.apply(t, "bad-newer", body{
			"type": "setting", "params": body{"path": "/etc/newer", "value": "{{ .ConfigMaps.it.text }}"}, "rollout": body{"maxUnavailable": 3},
			"configMaps": []body{{"namespace": "default", "name": "bad", "as": "it", "watch": false}},
		})
		w.turn(t)
		w.until(t, "what it reads", func() bool { v, _ := w.find("configmaps/bad"); return v != "" })
		w.turn(t)
		w.after(t, maxSpread)
		w.until(t, "its status", func() bool { _, ok := w.status(t, "bad-newer"); return ok })
		const want = "; unknown and without effect: spec.configMaps[0].watch, spec.rollout"
		if s, _ := w.status(t, "bad-newer"); w.content("newer") != "one" || s.LastResult != v1alpha1.Success || !strings.HasSuffix(s.Message, want) {
			t.Errorf("content %q, status %+v, want %q", w.content("newer"), s, want)
		}
	})

	t.Run("a mebibyte of content", func(t *testing.T) {
		content := strings.Repeat("0123456789abcdef", 1<<16)
		w.apply(t, "bad-large", body{"type": "setting", "params": body{"path": "/etc/large", "value": content}})
		w.turn(t)
		w.after(t, maxSpread)
		w.until(t, "its status", func() bool { _, ok := w.status(t, "bad-large"); return ok })
		if s, _ := w.status(t, "bad-large"); s.LastResult != v1alpha1.Success || w.content("large") != content {
			t.Errorf("%d bytes, status %+v", len(w.content("large")), s)
		}
	})
}

// An agent that may not read ConfigMaps says which right is missing, and goes on as
// soon as it has it.
func TestCluster_forbidden(t *testing.T) {
	w := newDebugWorld(t, kubetest.Shared(t))
	w.account(t)
	w.object(t, "configmaps/forbidden", body{"data": body{"text": "x"}})
	w.apply(t, "forbidden", body{
		"type": "setting", "params": body{"path": "/etc/forbidden", "value": "{{ .ConfigMaps.it.text }}"},
		"configMaps": []body{{"namespace": "default", "name": "forbidden", "as": "it"}},
	})
	w.apply(t, "forbidden-not", body{"type": "setting", "params": body{"path": "/etc/other", "value": "x"}})
	w.start(t)
	w.until(t, "the error", func() bool {
		s, _ := w.status(t, "forbidden")
		return s.LastResult == v1alpha1.Error
	})
	if line := w.last("forbidden"); !strings.Contains(line, "give the agent's ServiceAccount get, list and watch on configmaps default/forbidden") {
		t.Errorf("log: %s", line)
	}
	if err := w.agent.health.Ready(); err != nil || w.content("other") != "x" {
		t.Errorf("the other one holds %q; ready: %v", w.content("other"), err)
	}
	w.may(t, "namespaces/default/roles", body{"apiGroups": []string{""}, "resources": []string{"configmaps"}, "resourceNames": []string{"forbidden"}, "verbs": readers()})
	w.until(t, "the file", func() bool { return w.content("forbidden") == "x" })
	w.until(t, "success", func() bool { s, _ := w.status(t, "forbidden"); return s.LastResult == v1alpha1.Success })
}

// Facts follow a Node that is replaced under the agent, and nothing of the old one is
// taken for the new one's.
func TestCluster_nodeIsReplaced(t *testing.T) {
	w := newDebugWorld(t, kubetest.Shared(t))
	w.apply(t, "replaced", body{"type": "setting", "interval": "10m", "params": body{"path": "/etc/role", "value": "{{ .Node.Labels.role }}"}})
	w.apply(t, "replaced-version", body{"type": "setting", "interval": "10m", "params": body{"path": "/etc/version", "value": "{{ .Node.KubeletVersion }}"}})
	w.start(t)
	w.until(t, "the files", func() bool { return w.content("role") == "web" && w.content("version") == "v1.37.2" })
	w.do(t, http.MethodDelete, "/api/v1/nodes/"+w.node, nil)
	w.until(t, "that it is gone shows", func() bool {
		err := w.agent.health.Ready()
		return err != nil && strings.Contains(err.Error(), "no Node "+w.node)
	})
	w.hand(t, "etc/role", "by hand")
	w.after(t, 10*time.Minute)
	if got := w.content("role"); got != "web" {
		t.Errorf("without its Node the machine is not kept: %q", got)
	}
	w.server.Node(t, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.node, Labels: map[string]string{"role": "db"}}})
	w.until(t, "the new one is ready", func() bool { return w.agent.health.Ready() == nil })
	w.until(t, "what the new one has not", func() bool {
		s, _ := w.status(t, "replaced-version")
		return s.LastResult == v1alpha1.Error && strings.Contains(s.Message, ".Node.KubeletVersion")
	})
	w.after(t, 10*time.Minute)
	if w.content("role") != "db" || w.content("version") != "v1.37.2" {
		t.Errorf("role %q, version %q", w.content("role"), w.content("version"))
	}
}
