package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/test/kubetest"
	"github.com/tlspu/keel/test/parts"
)

const nodeStates = "/apis/keel.tlspu.io/v1alpha1/nodestates/"

// state is the NodeState of a node, if there is one.
func (c *cluster) state(node string) (s v1alpha1.NodeState, ok bool) {
	c.Helper()
	err := c.Do(c.Context(), c.Admin(), http.MethodGet, nodeStates+node, nil, &s)
	if status := (*kubetest.StatusError)(nil); errors.As(err, &status) && status.Code == http.StatusNotFound {
		return s, false
	}
	if err != nil {
		c.Fatal(err)
	}
	return s, true
}

func fileSpec(path, content string) string {
	return "  type: file\n  params: {path: " + path + ", content: \"" + content + "\\n\"}\n  interval: 10s\n"
}

// With --status=node results are in one object of the node, which owns it.
func TestKube_statusInANodeState(t *testing.T) {
	c := newCluster(t)
	c.node("state-1", nil)
	c.apply("state-a", fileSpec("/etc/a", "one"))
	c.apply("state-b", fileSpec("/etc/b", "one"))
	a := c.agent("state-1", nil, parts.Debian(t))
	a.start("--status=node")
	results := func() map[string]string {
		s, _ := c.state("state-1")
		got := map[string]string{}
		for name, r := range s.Status.Configs {
			got[name] = fmt.Sprint(r.LastResult, " ", r.ObservedGeneration, " ", r.Message)
		}
		return got
	}
	say := func(what string, want map[string]string) {
		t.Helper()
		kubetest.Await(t, what, func() bool { return cmp.Equal(want, results()) })
		c.tell("%s: %v", what, want)
	}
	say("both are there", map[string]string{"state-a": "success 1 configuration applied", "state-b": "success 1 configuration applied"})
	var node metav1.PartialObjectMetadata
	if err := c.Do(t.Context(), c.Admin(), http.MethodGet, "/api/v1/nodes/state-1", nil, &node); err != nil {
		t.Fatal(err)
	}
	s, _ := c.state("state-1")
	if diff := cmp.Diff([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "state-1", UID: node.UID}}, s.OwnerReferences); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}

	c.edit("state-a", object{"params": object{"content": "two\n"}})
	say("an edit", map[string]string{"state-a": "success 2 configuration applied", "state-b": "success 1 configuration applied"})
	c.kubectl("", "delete", "nodeconfig", "state-b")
	say("one is gone", map[string]string{"state-a": "success 2 configuration applied"})
	if got := a.on("etc/a") + a.on("etc/b"); got != "two\none\n" {
		t.Errorf("the files hold %q", got)
	}
	if got := c.nodeConfig("state-a").Status; len(got.Nodes) > 0 || got.ObservedGeneration != 0 {
		t.Errorf("the NodeConfig has %+v", got)
	}

	// Somebody removes it, as the garbage collector does with that of a Node that went.
	c.kubectl("", "delete", "nodestate", "state-1")
	say("it is made anew", map[string]string{"state-a": "success 2 configuration applied"})
	if err := a.end(); err != nil {
		t.Errorf("the agent ended with %v", err)
	}
	if bad := a.said.lines("level=ERROR"); len(bad) > 0 {
		t.Errorf("the agent complains:\n%s", strings.Join(bad, "\n"))
	}
}

// One pass over the NodeConfigs of an API server, for real and dry.
func TestKube_once(t *testing.T) {
	c := newCluster(t)
	c.node("once-1", map[string]string{"role": "web"})
	c.apply("once-file", fileSpec("/etc/once", "role {{ .Node.Labels.role }}"))
	c.apply("once-other", fileSpec("/etc/other", "x")+"  nodeSelector: {matchLabels: {role: db}}\n")
	c.apply("once-wrong", fileSpec("/etc/wrong", "{{ .Node.Labels.rack }}"))
	a := c.agent("once-1", nil, parts.Debian(t))
	exit := func(err error) int {
		if code := (*exec.ExitError)(nil); errors.As(err, &code) {
			return code.ExitCode()
		}
		if err != nil {
			t.Error(err)
		}
		return 0
	}
	const wrong = `error     once-wrong: spec.params.content: `
	run := func(want int, lines []string, args ...string) {
		t.Helper()
		a.start(append(args, "--once", "--log-level=error")...)
		code := exit(a.wait())
		got := slices.Collect(strings.Lines(a.said.String()))
		ok := code == want && len(got) >= len(lines)
		for i, line := range lines {
			ok = ok && strings.HasPrefix(got[i], line)
		}
		if !ok {
			t.Errorf("keel node-agent --once %s: exit %d, want %d\n%s\nwant lines that begin\n%s", args, code, want, a.said, strings.Join(lines, "\n"))
		}
		c.tell("$ keel node-agent --once %s   # exit %d\n%s", strings.Join(args, " "), code, a.said)
	}

	before := time.Now()
	run(3, []string{"would change once-file\n", "  would ensure path:/etc/once (content)\n", "unchanged once-other: nodeSelector does not match this node\n", wrong}, "--dry-run")
	if got := a.on("etc/once"); got != "" {
		t.Errorf("a dry run wrote %q", got)
	}
	run(3, []string{"changed   once-file\n", "unchanged once-other: nodeSelector does not match this node\n", wrong})
	if got := a.on("etc/once"); got != "role web\n" {
		t.Errorf("the file holds %q", got)
	}
	if got := c.nodeConfig("once-wrong").Status.Nodes["once-1"]; got.LastResult != v1alpha1.Error || !strings.Contains(got.Message, "rack") {
		t.Errorf("the status of a mistake is %+v", got)
	}
	if !c.succeeded("once-file", "once-1") {
		t.Errorf("the status is %+v", c.nodeConfig("once-file").Status)
	}
	c.kubectl("", "delete", "nodeconfig", "once-wrong")
	run(0, []string{"unchanged once-file\n", "unchanged once-other: nodeSelector does not match this node\n"})
	run(0, []string{"unchanged once-file\n", "unchanged once-other: nodeSelector does not match this node\n"}, "--dry-run")

	var writes []string
	for _, r := range c.Requests(t, before) {
		if r.Writes() && strings.HasPrefix(r.UserAgent, "keel") {
			writes = append(writes, r.Verb+" "+r.Resource+"/"+r.Subresource+" "+r.Name)
		}
	}
	// What is there already is no news, and a dry run has none.
	slices.Sort(writes)
	want := []string{"patch nodeconfigs/status once-file", "patch nodeconfigs/status once-wrong"}
	if got := slices.DeleteFunc(slices.Clone(writes), func(w string) bool { return strings.Contains(w, " events/") }); !slices.Equal(got, want) {
		t.Errorf("the agents wrote %q, want %q and Events", writes, want)
	}
}

// busy says when two agents act at once: a service takes its time to start, and
// whoever restarts it waits for it.
const busy = "[Service]\nExecStartPre=sh -c 'mkdir /run/busy || echo overlap >>/run/overlaps; sleep 0.3; rmdir /run/busy || true'\n"

// Two agents on one host, as when a DaemonSet is installed twice, take turns.
func TestKube_twoAgentsOnOneHost(t *testing.T) {
	c := newCluster(t)
	services := []string{"t0", "t1", "t2"}
	h := bootWeb(t, "twice-1", services...)
	h.Exec(t, "sh", "-ec", `for s in t0 t1 t2; do mkdir -p /etc/systemd/system/$s.service.d; printf %s "$1" >/etc/systemd/system/$s.service.d/busy.conf; done; systemctl daemon-reload`, "sh", busy)
	c.node("twice-1", nil)
	for _, name := range services {
		c.apply(name, fileSpec("/etc/"+name+".conf", "0")+"  services: ["+name+".service]\n")
	}
	agents := []*agent{c.agent("twice-1", h.Host, ""), c.agent("twice-1", h.Host, "")}
	first := len(h.starts("t0"))
	for _, a := range agents {
		a.start()
	}
	const edits = 3
	for i := range edits + 1 {
		if i > 0 {
			for _, name := range services {
				c.edit(name, object{"params": object{"content": fmt.Sprintf("%d\n", i)}})
			}
		}
		kubetest.Await(t, "both have seen every edit", func() bool {
			ok := true
			for _, name := range services {
				ok = ok && c.succeeded(name, "twice-1") && h.read("/run/"+name+".running") == fmt.Sprint(i)
			}
			return ok
		})
	}
	// At the end both are content with the same machine.
	for i, a := range agents {
		runs := a.metric(`keel_runs_total{handler="file"}`)
		kubetest.Await(t, "they visit again", func() bool { return a.metric(`keel_runs_total{handler="file"}`) >= runs+float64(len(services)) })
		if err := a.end(); err != nil || len(a.said.lines("level=ERROR")) > 0 {
			t.Errorf("agent %d ended with %v\n%s", i, err, a.said)
		}
	}
	if got := h.Exec(t, "sh", "-c", "cat /run/overlaps 2>/dev/null || true"); got != "" {
		t.Errorf("both acted at once: %s", got)
	}
	for _, name := range services {
		if got := len(h.starts(name)) - first; got != edits+1 {
			t.Errorf("%s was restarted %d times for %d contents", name, got, edits+1)
		}
	}
	if left := h.Exec(t, "ls", "-A", "/var/lib/keel/restart"); left != "" {
		t.Errorf("journals are left: %s", left)
	}
	for i, a := range agents {
		c.tell("agent %d changed %d times", i, len(a.said.lines("run changed the machine")))
	}
}
