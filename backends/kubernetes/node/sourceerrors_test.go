package node

import (
	"strings"
	"testing"
	"time"

	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"
	"github.com/tlspu/keel/test/nodetest"
)

// A file that is invalid when the agent starts hides no NodeConfig from /metrics: an
// alert that fires for it goes on firing.
func TestAgent_invalidFileShowsInMetricsAfterARestart(t *testing.T) {
	const (
		failing = `keel_nodeconfig_success{nodeconfig="a"} 0`
		errs    = "keel_source_errors 1"
		cut     = "{"
	)
	tests := []struct {
		name  string
		then  func(w *agentWorld) // cures it
		shown string              // of a afterwards; empty: nothing
	}{
		{"and is fixed", func(w *agentWorld) { w.write(t, "a.yaml", nodetest.Doc("a", "two")) }, `keel_nodeconfig_success{nodeconfig="a"} 1`},
		{"and is removed", func(w *agentWorld) { w.remove(t, "a.yaml") }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newAgentWorld(t)
			w.write(t, "a.yaml", nodetest.Doc("a", "one"))
			w.write(t, "b.yaml", nodetest.Doc("b", "one"))
			w.pass(t)
			w.write(t, "a.yaml", cut)
			w.later(t, 5*time.Second)
			if got := w.metrics(t); !strings.Contains(got, failing) || !strings.Contains(got, errs) {
				t.Errorf("before the restart:\n%s", got)
			}
			if got := w.log.String(); !strings.Contains(got, `msg="cannot read file; keeping its last valid content"`) {
				t.Errorf("log:\n%s", got)
			}
			w.stop(t)
			w.log.Reset()
			w.pass(t)
			if got := w.metrics(t); !strings.Contains(got, failing) || !strings.Contains(got, errs) {
				t.Errorf("after the restart:\n%s", got)
			}
			if got := w.log.String(); !strings.Contains(got, `msg="cannot read file; nothing in it is managed until it is fixed"`) {
				t.Errorf("log:\n%s", got)
			}
			tt.then(w)
			w.later(t, 5*time.Second)
			got := w.metrics(t)
			if !strings.Contains(got, "keel_source_errors 0") || !strings.Contains(got, tt.shown) || tt.shown == "" && strings.Contains(got, `nodeconfig="a"`) {
				t.Errorf("afterwards:\n%s", got)
			}
		})
	}
}

// What is wrong with a directory is counted by what is to be fixed.
func TestAgent_sourceErrors(t *testing.T) {
	tests := []struct {
		name, file string
		want       string
	}{
		{"nothing", nodetest.Doc("a", "x"), "keel_source_errors 0"},
		{"no YAML", "{", "keel_source_errors 1"},
		{"two documents without a name", "kind: NodeConfig\n---\nkind: NodeConfig\n", "keel_source_errors 2"},
		{"a ConfigMap", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\ndata: [x]\n", "keel_source_errors 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newAgentWorld(t)
			w.write(t, "x.yaml", tt.file)
			w.pass(t)
			if got := w.metrics(t); !strings.Contains(got, tt.want+"\n") {
				t.Errorf("want %s:\n%s", tt.want, got)
			}
		})
	}
}

// A NodeConfig that was for other machines does not fail here.
func TestAgent_excludedNodeConfigOfAnInvalidFileIsNotShown(t *testing.T) {
	w := newAgentWorld(t)
	w.factsFile(t, "node: {labels: {role: web}}\n")
	w.write(t, "a.yaml", strings.Replace(nodetest.Doc("a", "one"), "type:", `nodeSelector: {matchLabels: {role: other}}, type:`, 1))
	w.pass(t)
	if s := w.status(t, "a"); !strings.HasPrefix(s.Message, nodeconfig.Excluded) {
		t.Fatalf("status %+v", s)
	}
	w.write(t, "a.yaml", "{")
	w.stop(t)
	w.pass(t)
	if got := w.metrics(t); strings.Contains(got, `nodeconfig="a"`) {
		t.Errorf("it is shown:\n%s", got)
	}
}
