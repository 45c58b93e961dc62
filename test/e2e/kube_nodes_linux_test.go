package e2e

import (
	"context"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/test/kubetest"
	"github.com/tlspu/keel/test/parts"
)

// on is the content of a file on an agent's machine, "" when there is none.
func (a *agent) on(name string) string {
	a.Helper()
	root := a.root
	if a.host != nil {
		root = a.host.Root()
	}
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil && !os.IsNotExist(err) {
		a.Error(err)
	}
	return string(text)
}

// results lists what the nodes say of a NodeConfig.
func (c *cluster) results(name string) map[string]string {
	c.Helper()
	list := map[string]string{}
	for node, s := range c.nodeConfig(name).Status.Nodes {
		list[node] = s.Message
		if s.LastResult != v1alpha1.Success {
			list[node] = string(s.LastResult) + ": " + s.Message
		}
	}
	return list
}

// label sets a label of a node, or removes it: "role=db", "role-".
func (c *cluster) label(node, label string) {
	c.Helper()
	c.kubectl("", "label", "--overwrite", "node", node, label)
}

const (
	motdSpec = `  type: file
  params:
    path: /etc/motd
    content: "{{ .ConfigMaps.site.greeting }} {{ .Node.Name }}, {{ .Node.Labels.pool }} of {{ .Cluster.Name }}, {{ .OS.ID }}\n"
  configMaps: [{namespace: keel-system, name: site, as: site}]
  interval: 10s
`
	keySpec = `  type: file
  params: {path: /etc/db.key, content: "{{ .Secrets.db.key }}"}
  secrets: [{namespace: keel-system, name: db, as: db}]
  nodeSelector: {matchLabels: {role: db}}
  interval: 10s
`
	webOnly = `  type: file
  params: {path: /etc/web.conf, content: "pool {{ .Node.Labels.pool }}\n"}
  services: [web.service]
  nodeSelector: {matchExpressions: [{key: pool, operator: In, values: [edge]}]}
  interval: 10s
`
)

// Three agents share NodeConfigs, a ConfigMap and a Secret: each keeps its own node
// and writes its own results.
func TestKube_severalNodes(t *testing.T) {
	c := newCluster(t)
	h := bootWeb(t, "edge-1", "web")
	c.node("edge-1", map[string]string{"pool": "edge"})
	c.node("core-1", map[string]string{"pool": "core", "role": "db"})
	c.node("core-2", map[string]string{"pool": "core"})
	c.kubectl("", "annotate", "--overwrite", "namespace", "kube-system", "keel.tlspu.io/cluster-name=paris")
	c.kubectl("", "create", "configmap", "-n", system, "site", "--from-literal=greeting=hello")
	c.kubectl("", "create", "secret", "generic", "-n", system, "db", "--from-literal=key=hunter2")
	t.Cleanup(func() {
		for _, path := range []string{"configmaps/site", "secrets/db"} {
			_ = c.Do(context.WithoutCancel(t.Context()), c.Admin(), http.MethodDelete, "/api/v1/namespaces/"+system+"/"+path, nil, nil)
		}
	})
	c.apply("motd", motdSpec)
	c.apply("key", keySpec)
	c.apply("edge", webOnly)

	edge, core1, core2 := c.agent("edge-1", h.Host, ""), c.agent("core-1", nil, parts.Debian(t)), c.agent("core-2", nil, parts.Debian(t))
	all := []*agent{edge, core1, core2}
	first := h.starts("web")
	for _, a := range all {
		a.start()
	}
	say := func(what string, want map[string]map[string]string) {
		t.Helper()
		var got map[string]map[string]string
		kubetest.Await(t, what, func() bool {
			got = map[string]map[string]string{}
			for name := range want {
				got[name] = c.results(name)
			}
			return cmp.Equal(want, got) || t.Context().Err() != nil
		})
		c.tell("%s: %v", what, got)
	}
	const applied = "configuration applied"
	say("each node keeps what is its own", map[string]map[string]string{
		"motd": {"edge-1": applied, "core-1": applied, "core-2": applied},
		"key":  {"core-1": applied},
		"edge": {"edge-1": applied + ", services restarted"},
	})
	for _, a := range all {
		pool, _, _ := strings.Cut(a.node, "-")
		if got, want := a.on("etc/motd"), "hello "+a.node+", "+pool+" of paris, debian\n"; got != want {
			t.Errorf("%s: motd is %q, want %q", a.node, got, want)
		}
		if got, want := a.on("etc/db.key"), map[string]string{"core-1": "hunter2"}[a.node]; got != want {
			t.Errorf("%s: the key is %q, want %q", a.node, got, want)
		}
		if got, want := a.on("etc/web.conf"), map[string]string{"edge-1": "pool edge\n"}[a.node]; got != want {
			t.Errorf("%s: web.conf is %q, want %q", a.node, got, want)
		}
	}
	if info, err := os.Stat(filepath.Join(core1.root, "etc/db.key")); err != nil || info.Mode() != 0o600 {
		t.Errorf("the key is %v, %v, want it private", info.Mode(), err)
	}
	if n := len(h.starts("web")); n != len(first)+1 || h.read("/run/web.running") != "pool edge" {
		t.Errorf("web was started %d times before and %d after, and runs with %q", len(first), n, h.read("/run/web.running"))
	}

	// A label moves a NodeConfig from one node to the other.
	c.label("core-2", "role=db")
	c.label("core-1", "role-")
	say("a label has moved", map[string]map[string]string{"key": {"core-1": "nodeSelector does not match this node", "core-2": applied}})
	if core1.on("etc/db.key") != "hunter2" || core2.on("etc/db.key") != "hunter2" {
		t.Errorf("core-1 has %q, core-2 %q: want it there, and nothing undone", core1.on("etc/db.key"), core2.on("etc/db.key"))
	}

	// What is read is watched: nobody touches a NodeConfig.
	c.kubectl("", "patch", "configmap", "-n", system, "site", "-p", `{"data": {"greeting": "welcome to"}}`)
	c.kubectl("", "patch", "secret", "-n", system, "db", "-p", `{"stringData": {"key": "*******"}}`)
	kubetest.Await(t, "the new values are everywhere", func() bool {
		ok := core2.on("etc/db.key") == "*******"
		for _, a := range all {
			ok = ok && strings.HasPrefix(a.on("etc/motd"), "welcome to "+a.node)
		}
		return ok
	})
	if got := core1.on("etc/db.key"); got != "hunter2" {
		t.Errorf("core-1, which is none of its nodes any more, has %q", got)
	}
	c.tell("the ConfigMap and the Secret say something else, and so do the nodes")

	for _, a := range all {
		if err := a.end(); err != nil {
			t.Errorf("the agent of %s ended with %v", a.node, err)
		}
		if bad := a.said.lines("level=ERROR"); len(bad) > 0 {
			t.Errorf("the agent of %s complains:\n%s", a.node, strings.Join(bad, "\n"))
		}
	}
	shown := c.kubectl("", "get", "nodeconfigs,events", "-o", "yaml") + edge.said.String() + core1.said.String() + core2.said.String()
	if strings.Contains(shown, "hunter2") || strings.Contains(shown, "aHVudGVyMg") {
		t.Error("the Secret is shown in a log, a status or an Event")
	}
	for _, name := range []string{"motd", "key", "edge"} {
		c.tell("%s: %v", name, c.results(name))
	}
}

// An agent that is given another node's name than its token is bound to ends before it
// changes anything. What the server's policy refuses is tested in deploy/kubernetes.
func TestKube_anotherNodesName(t *testing.T) {
	c := newCluster(t)
	for _, name := range []string{"own-1", "own-2"} {
		c.node(name, nil)
	}
	c.apply("motd", "  type: file\n  params: {path: /etc/motd, content: \"{{ .Node.Name }}\\n\"}\n  interval: 10s\n")
	honest, forger := c.agent("own-2", nil, parts.Debian(t)), c.agent("own-1", nil, parts.Debian(t))
	honest.start()
	kubetest.Await(t, "own-2 has a result", func() bool { return c.succeeded("motd", "own-2") })
	if err := honest.end(); err != nil {
		t.Error(err)
	}
	c.edit("motd", object{"params": object{"path": "/etc/motd", "content": "edited\n"}})
	before := c.nodeConfig("motd")

	forger.node = "own-2" // the token stays that of own-1
	forger.start()
	const why = "node-name: own-2 is another node: the agent's token is bound to own-1"
	if err := forger.wait(); err == nil || len(forger.said.lines(why)) != 1 {
		t.Errorf("it ended with %v and said\n%s", err, forger.said)
	}
	c.tell("%s", forger.said)
	if got := forger.on("etc/motd"); got == "edited\n" {
		t.Errorf("motd is %q: the NodeConfig of another node was applied", got)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(before.Status.Nodes)), slices.Sorted(maps.Keys(c.nodeConfig("motd").Status.Nodes))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before.Status, c.nodeConfig("motd").Status); diff != "" {
		t.Errorf("the status was changed by another node's agent:\n%s", diff)
	}
}
