package node

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/test/kubetest"
	"github.com/tlspu/keel/test/nodetest"
)

// What causes a visit, and what does not.
func TestCluster_causesOfVisits(t *testing.T) {
	w := newDebugWorld(t, kubetest.Shared(t))
	w.object(t, "configmaps/triggers", body{"data": body{"text": "one"}})
	w.object(t, "secrets/triggers", body{"stringData": body{"text": "1"}})
	w.start(t)
	w.turn(t)
	config := nodeConfigs + "/triggers"
	meta := func(path string, metadata body) func() {
		return func() { w.do(t, http.MethodPatch, path, body{"metadata": metadata}) }
	}
	read := func() {
		w.turn(t)
		w.until(t, "what it reads", func() bool {
			secret, _ := w.find("secrets/triggers")
			configMap, _ := w.find("configmaps/triggers")
			return secret != "" && configMap != ""
		})
	}
	for _, tt := range []struct {
		name  string
		do    func()
		later time.Duration // than what is spread
		want  int
	}{
		{name: "creation", want: 1, do: func() {
			w.apply(t, "triggers", body{
				"type": "setting", "services": []string{"a.service"},
				"params":     body{"path": "/etc/triggers", "value": "{{ .Node.Labels.role }} {{ .ConfigMaps.it.text }} {{ .Secrets.it.text }}"},
				"configMaps": []body{{"namespace": "default", "name": "triggers", "as": "it"}},
				"secrets":    []body{{"namespace": "default", "name": "triggers", "as": "it"}},
			})
			read()
		}},
		{name: "nothing", do: func() {}},
		{name: "nothing, nearly for the interval", do: func() {}, later: 9 * time.Hour},
		{name: "the interval", do: func() {}, later: time.Hour, want: 1},
		{name: "a new generation", want: 1, do: func() {
			w.do(t, http.MethodPatch, config, body{"spec": body{"params": body{"value": "{{ .Node.Labels.role }} {{ .ConfigMaps.it.text }} {{ .Secrets.it.text }} 2"}}})
		}},
		{name: "an annotation", do: meta(config, body{"annotations": body{"note": "x"}})},
		{name: "a label", do: meta(config, body{"labels": body{"team": "x"}})},
		{name: "an edit that changes nothing", do: func() { w.do(t, http.MethodPatch, config, body{"spec": body{"type": "setting"}}) }},
		{name: "another node's status", do: func() {
			w.do(t, http.MethodPatch, config+"/status", body{"status": body{"observedGeneration": 2, "nodes": body{"other": body{
				"lastRunTime": "2026-10-15T12:00:00Z", "lastResult": "error", "changed": false, "restartPending": true, "observedGeneration": 2, "message": "disk on fire",
			}}}})
		}},
		{name: "the ConfigMap's data", want: 1, do: func() { w.object(t, "configmaps/triggers", body{"data": body{"text": "two"}}) }},
		{name: "the ConfigMap's labels", do: func() { w.object(t, "configmaps/triggers", body{"immutable": false}) }},
		{name: "another key of the ConfigMap", want: 1, do: func() { w.object(t, "configmaps/triggers", body{"data": body{"text": "two", "more": "x"}}) }},
		{name: "the Secret's resourceVersion", want: 1, do: func() { w.object(t, "secrets/triggers", body{"stringData": body{"text": "2"}}) }},
		{name: "the Secret's UID: it is missed, and there again", want: 2, do: func() {
			w.remove(t, "secrets/triggers")
			w.turn(t)
			w.after(t, maxSpread)
			w.object(t, "secrets/triggers", body{"stringData": body{"text": "2"}})
		}},
		{name: "the Node's heartbeat", do: func() {
			w.patchNode(t, "/status", body{"status": body{"conditions": []body{{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-10-15T12:00:00Z"}}}})
		}},
		{name: "a fact alone", do: func() { w.patchNode(t, "", body{"metadata": body{"labels": body{"role": "db"}}}) }},
		{name: "the interval, with the fact", do: func() {}, later: 10 * time.Hour, want: 1},
		{name: "a selector that does not match", want: 1, do: func() {
			w.do(t, http.MethodPatch, config, body{"spec": body{"nodeSelector": body{"matchLabels": body{"role": "web"}}}})
		}},
		{name: "the label that it asks for", want: 1, do: func() {
			w.patchNode(t, "", body{"metadata": body{"labels": body{"role": "web"}}})
			read()
		}},
		{name: "the label goes", want: 1, do: func() { w.patchNode(t, "", body{"metadata": body{"labels": body{"role": nil}}}) }},
		{name: "the label that a template needs", want: 1, do: func() {
			w.do(t, http.MethodPatch, config, body{"spec": body{"nodeSelector": nil}})
			read()
		}},
		{name: "it is there again", want: 1, do: func() { w.patchNode(t, "", body{"metadata": body{"labels": body{"role": "web"}}}) }},
	} {
		before := w.visits("triggers")
		tt.do()
		w.turn(t)
		w.after(t, maxSpread+tt.later)
		if tt.later == 0 && tt.want > 0 {
			w.turn(t) // no second one
		}
		if got := w.visits("triggers") - before; got != tt.want {
			t.Errorf("%s: %d visits, want %d", tt.name, got, tt.want)
		}
	}
	if got := w.content("triggers"); got != "web two 2 2" {
		t.Errorf("content %q", got)
	}
	w.until(t, "the status", func() bool {
		s, _ := w.status(t, "triggers")
		return s.LastResult == v1alpha1.Success && s.ObservedGeneration == 4 && !s.RestartPending
	})
}

// A NodeConfig that is edited again and again is visited all the same.
func TestCluster_editsThatKeepComing(t *testing.T) {
	w := newDebugWorld(t, kubetest.Shared(t))
	w.start(t)
	w.turn(t)
	w.apply(t, "edits", body{"type": "setting", "interval": "1m", "params": body{"path": "/etc/edits", "value": "0"}})
	for edit, seen := 0, ""; seen == "" || edit < 150; edit++ { // each wakes the agent
		w.do(t, http.MethodPatch, nodeConfigs+"/edits", body{"spec": body{"params": body{"value": fmt.Sprint(edit)}}})
		w.ahead.Add(int64(50 * time.Millisecond))
		if seen = w.content("edits"); edit > 2000 {
			t.Fatal("it was never visited")
		}
	}
	if n := w.visits("edits"); n < 1 || n > 30 {
		t.Errorf("%d visits", n)
	}
}

// judged counts how often its parameters were judged, as they are whenever its
// templates were filled.
type judged struct {
	nodetest.Setting
	times *atomic.Int64
}

func (judged) Name() string { return "judged" }

func (h judged) Validate(map[string]string) error {
	h.times.Add(1)
	return nil
}

// What a ConfigMap holds is of no concern to those that do not read it.
func TestCluster_dataOfOthers(t *testing.T) {
	w := newDebugWorld(t, kubetest.Shared(t))
	h := judged{w.Handler, new(atomic.Int64)}
	w.Env.Handlers.Register("judged", h)
	w.object(t, "configmaps/others", body{"data": body{"text": "one"}})
	w.apply(t, "others-a", body{"type": "judged", "params": body{"path": "/etc/a", "value": "{{ .Node.Name }}"}})
	w.apply(t, "others-b", body{
		"type": "setting", "params": body{"path": "/etc/others", "value": "{{ .ConfigMaps.it.text }}"},
		"configMaps": []body{{"namespace": "default", "name": "others", "as": "it"}},
	})
	w.start(t)
	w.until(t, "the file", func() bool { return w.content("others") == "one" })
	w.turn(t)
	before := h.times.Load()
	w.object(t, "configmaps/others", body{"data": body{"text": "two"}})
	w.turn(t)
	w.after(t, maxSpread)
	if n := h.times.Load() - before; n != 0 || w.content("others") != "two" {
		t.Errorf("what reads nothing was filled %d times; what does holds %q", n, w.content("others"))
	}
	w.patchNode(t, "", body{"metadata": body{"labels": body{"role": "db"}}})
	w.turn(t)
	if h.times.Load() == before {
		t.Error("another fact did not fill it anew")
	}
}
