package kubernetes

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/tlspu/keel/test/kubetest"
	"github.com/tlspu/keel/test/parts"
)

// An operator runs, as the administrator, the commands of the pages on monitoring
// and troubleshooting.
type operator struct {
	s     *kubetest.Server
	pages string
	names *strings.Replacer
}

func newOperator(t *testing.T, s *kubetest.Server, nodeConfig, node string) operator {
	t.Helper()
	o := operator{s: s, names: strings.NewReplacer("NAME", nodeConfig, "NODE", node)}
	for _, page := range []string{"troubleshooting.md", "monitoring.md"} {
		text, err := os.ReadFile(filepath.Join("../../docs/spec", page))
		if err != nil {
			t.Fatal(err)
		}
		o.pages += string(text)
	}
	return o
}

// run runs the one line of the pages that holds text.
func (o operator) run(t *testing.T, text string) string {
	t.Helper()
	var found []string
	for line := range strings.Lines(o.pages) {
		line = strings.Trim(strings.TrimSpace(line), "`")
		if command := strings.HasPrefix(line, "kubectl ") || strings.HasPrefix(line, "for "); command && strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d lines of the pages hold %q, want 1: %q", len(found), text, found)
	}
	return o.shell(t, o.names.Replace(found[0]))
}

func (o operator) shell(t *testing.T, line string) string {
	t.Helper()
	parts.Need(t, "kubectl")
	cmd := exec.CommandContext(t.Context(), "sh", "-euc", line)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(parts.Path("kubectl"))+":"+os.Getenv("PATH"),
		"KUBECONFIG="+o.s.Kubeconfig(t, o.s.Admin()), "HOME="+t.TempDir())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, stderr.String())
	}
	return string(out)
}

// write writes an entry as the administrator.
func write(t *testing.T, s *kubetest.Server, nodeConfig string, status object) {
	t.Helper()
	if err := s.Do(t.Context(), s.Admin(), http.MethodPatch, nodeConfigs+"/"+nodeConfig+"/status", object{"status": status}, nil); err != nil {
		t.Fatal(err)
	}
}

func TestRecovery_ofNodeConfigs(t *testing.T) {
	s := deploy(t)
	const name, node1, node2 = "recovery-1", "gone-1", "stays-1"
	nodeConfig(t, s, name)
	o := newOperator(t, s, name, node1)
	write(t, s, name, object{"observedGeneration": 1, "nodes": object{node1: node("one"), node2: node("two")}})

	if got := o.run(t, "jsonpath='{.status.nodes.NODE}'"); !strings.Contains(got, `"message":"one"`) {
		t.Errorf("the status of a node: %s", got)
	}
	o.run(t, `"suspend":true`)
	var nc struct{ Spec struct{ Suspend bool } }
	if err := s.Do(t.Context(), s.Admin(), http.MethodGet, nodeConfigs+"/"+name, nil, &nc); err != nil || !nc.Spec.Suspend {
		t.Errorf("suspend: %v, %v", nc.Spec.Suspend, err)
	}
	nodes := func() (names []string) {
		for n := range statusOf(t, s, name).Nodes {
			names = append(names, n)
		}
		return names
	}
	o.run(t, `{"nodes":{"NODE":null}}`)
	if diff := cmp.Diff([]string{node2}, nodes()); diff != "" {
		t.Errorf("a node that is gone (-want +got):\n%s", diff)
	}
	o.run(t, "for nc in")
	if left, status := nodes(), statusOf(t, s, name); len(left) > 0 || status.ObservedGeneration == nil || *status.ObservedGeneration != 1 {
		t.Errorf("the old map was not removed alone: %v, %v", left, status.ObservedGeneration)
	}
}

func TestRecovery_looks(t *testing.T) {
	s := deploy(t)
	const name, node1 = "recovery-2", "state-1"
	const states, events = "/apis/keel.tlspu.io/v1alpha1/nodestates", "/api/v1/namespaces/default/events"
	o := newOperator(t, s, name, node1)
	send := func(method, path string, body object) {
		t.Helper()
		if err := s.Do(t.Context(), s.Admin(), method, path, body, nil); err != nil {
			t.Fatal(err)
		}
	}
	send(http.MethodPost, states, object{"apiVersion": "keel.tlspu.io/v1alpha1", "kind": "NodeState", "metadata": object{"name": node1}})
	send(http.MethodPatch, states+"/"+node1+"/status", object{"status": object{"configs": object{name: node("three")}}})
	send(http.MethodPost, events, object{
		"apiVersion": "v1", "kind": "Event", "metadata": object{"name": "recovery-2.1"}, "reason": "Failed", "type": "Warning",
		"involvedObject": object{"apiVersion": "keel.tlspu.io/v1alpha1", "kind": "NodeConfig", "name": name},
	})
	if got := o.run(t, "jsonpath='{.status.configs.NAME}'"); !strings.Contains(got, `"message":"three"`) {
		t.Errorf("the status of a node: %s", got)
	}
	if got := o.run(t, "get events"); !strings.Contains(got, "Failed") {
		t.Errorf("the Events of a NodeConfig:\n%s", got)
	}
	if got := o.shell(t, "kubectl auth can-i watch nodeconfigs --as=system:serviceaccount:keel-system:keel-node-agent"); got != "yes\n" {
		t.Errorf("may the agent watch? %s", got)
	}
}

func TestRecovery_stopsAllAgents(t *testing.T) {
	s := deploy(t)
	o := newOperator(t, s, "", "")
	selector := func() map[string]string {
		t.Helper()
		var set appsv1.DaemonSet
		if err := s.Do(t.Context(), s.Admin(), http.MethodGet, "/apis/apps/v1/namespaces/keel-system/daemonsets/keel-node-agent", nil, &set); err != nil {
			t.Fatal(err)
		}
		return set.Spec.Template.Spec.NodeSelector
	}
	before := selector()
	o.run(t, `"keel.tlspu.io/stopped":"true"`)
	stopped := selector()
	if stopped["keel.tlspu.io/stopped"] != "true" || len(stopped) != len(before)+1 {
		t.Errorf("stopped: %v", stopped)
	}
	s.Kubectl(t, "", "apply", "-k", ".")
	if diff := cmp.Diff(stopped, selector()); diff != "" {
		t.Errorf("after apply -k (-want +got):\n%s", diff)
	}
	o.run(t, `"keel.tlspu.io/stopped":null`)
	if diff := cmp.Diff(before, selector()); diff != "" {
		t.Errorf("on again (-want +got):\n%s", diff)
	}
}
