package e2e

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tlspu/keel/test/kubetest"
	"github.com/tlspu/keel/test/parts"
)

// write replaces a file of the agent's ServiceAccount.
func (a *agent) write(name, text string) {
	a.Helper()
	if err := os.WriteFile(filepath.Join(a.account, name), []byte(text), 0o600); err != nil {
		a.Fatal(err)
	}
}

// refused waits until the agent says by its log and its probe why it is not ready,
// and checks that the log does so once and calmly.
func (a *agent) refused(what string, words ...string) {
	a.Helper()
	kubetest.Await(a.T, a.node+" says why it is not ready", func() bool {
		code, text := a.ready()
		return code == http.StatusServiceUnavailable && contains(text, words) && len(a.said.lines(append(words, "level=ERROR")...)) > 0 || a.ended()
	})
	lines := a.said.lines(append(words, what)...)
	_, text := a.ready()
	a.tell("%s: readyz: %s\n%s", a.node, text, strings.Join(a.said.lines("level=ERROR"), "\n"))
	if a.ended() || len(lines) != 1 {
		a.Errorf("%s: ended: %t; it is said %d times of %s, want once\n%s", a.node, a.ended(), len(lines), what, a.said)
	}
	if code, text := a.get("health-addr", "/healthz"); code != http.StatusOK {
		a.Errorf("%s: healthz is %d %s: the kubelet would kill it", a.node, code, text)
	}
}

func contains(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// An agent that is given the wrong access says so, and goes on as soon as it is
// mended, without being started again.
func TestKube_badAccess(t *testing.T) {
	c := newCluster(t)
	c.apply("access", fileSpec("/etc/access", "{{ .Node.Name }}"))
	foreign := httptest.NewTLSServer(nil)
	defer foreign.Close()
	authority := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: foreign.Certificate().Raw}))
	tests := []struct {
		node    string
		bad     func(a *agent)
		what    string // is refused
		want    []string
		mend    func(a *agent)
		unready bool // it is not mended
	}{
		{
			node: "garbage-1",
			bad:  func(a *agent) { a.write("token", "garbage") },
			what: "what=nodeconfigs", want: []string{"does not accept the agent's token"},
			mend: func(a *agent) { a.write("token", c.NodeToken(c, system, account, a.node)) },
		},
		{
			node: "expired-1",
			bad: func(a *agent) { // with its pod
				c.kubectl("", "delete", "pods", "-n", system, "--field-selector", "spec.nodeName="+a.node, "--grace-period=0", "--force")
			},
			what: "what=nodeconfigs", want: []string{"does not accept the agent's token", "it has expired"},
			mend: func(a *agent) { a.write("token", c.NodeToken(c, system, account, a.node)) },
		},
		{
			node: "foreign-1",
			bad:  func(a *agent) { a.write("ca.crt", authority) },
			what: "what=nodeconfigs", want: []string{"certificate is not of the authority that the agent was given"},
			unready: true, // client-go reads it again every 5 minutes
		},
		{
			node: "absent-1",
			bad:  func(a *agent) { c.kubectl("", "delete", "node", a.node) },
			what: "collecting facts failed", want: []string{"the cluster has no Node absent-1: is node-name right?"},
			mend: func(a *agent) { c.node(a.node, nil) },
		},
	}
	agents := make([]*agent, len(tests))
	for i, tt := range tests {
		c.node(tt.node, nil)
		agents[i] = c.agent(tt.node, nil, parts.Debian(t))
		tt.bad(agents[i])
		agents[i].start()
	}
	for i, tt := range tests {
		a := agents[i]
		a.refused(tt.what, tt.want...)
		if got := a.on("etc/access"); got != "" {
			t.Errorf("%s: it keeps a machine without knowing what for: %q", a.node, got)
		}
		if !tt.unready {
			tt.mend(a)
		}
	}
	for i, tt := range tests {
		a := agents[i]
		if !tt.unready {
			a.awaitReady()
			kubetest.Await(t, a.node+" is kept", func() bool { return a.on("etc/access") == a.node+"\n" && c.succeeded("access", a.node) })
		}
		if err := a.end(); err != nil {
			t.Errorf("%s ended with %v\n%s", a.node, err, a.said)
		}
	}
}

// What the administrator has not installed, or has taken away.
func TestKube_missingKindsAndRights(t *testing.T) {
	c := newCluster(t)
	c.node("rights-1", nil)
	install := func() {
		c.kubectl("", "apply", "-k", "../../deploy/kubernetes")
		c.kubectl("", "wait", "--for=condition=Established", "--timeout=60s", "crd/nodeconfigs.keel.tlspu.io")
	}
	defer func() {
		if t.Failed() {
			install()
		}
	}()
	a := c.agent("rights-1", nil, parts.Debian(t))

	c.kubectl("", "delete", "crd", "nodeconfigs.keel.tlspu.io")
	a.start()
	a.refused("what=nodeconfigs", "read nodeconfigs: the API server does not know this resource: is the CRD installed, of this version?")
	install()
	a.awaitReady()
	c.apply("rights", fileSpec("/etc/rights", "one"))
	kubetest.Await(t, "it is kept", func() bool { return c.succeeded("rights", "rights-1") })

	// What runs goes on, but its result cannot be told.
	c.kubectl("", "delete", "clusterrolebinding", "keel-node-agent")
	c.edit("rights", object{"params": object{"content": "two\n"}})
	kubetest.Await(t, "the edit is made", func() bool { return a.on("etc/rights") == "two\n" })
	kubetest.Await(t, "the log says what is missing", func() bool {
		return len(a.said.lines("statuses cannot be sent", "give the agent's ServiceAccount patch on nodeconfigs/status")) == 1
	})
	if err := a.end(); err != nil {
		t.Errorf("the agent ended with %v\n%s", err, a.said)
	}
	a.start()
	a.refused("what=nodeconfigs", "nodeconfigs.keel.tlspu.io is forbidden", "give the agent's ServiceAccount get, list and watch on nodeconfigs")
	install()
	a.awaitReady()
	kubetest.Await(t, "its status is told", func() bool { return c.succeeded("rights", "rights-1") })
	if err := a.end(); err != nil {
		t.Errorf("the agent ended with %v\n%s", err, a.said)
	}
}

// While the API server is away everything that is known is kept; the statuses follow.
func TestKube_outage(t *testing.T) {
	c := newCluster(t)
	h := bootWeb(t, "outage-1", "web")
	c.node("outage-1", nil)
	c.node("outage-2", nil)
	c.apply("outage", strings.ReplaceAll(webSpec, "VERSION", "1"))
	c.kubectl("", "create", "configmap", "-n", system, "outage", "--from-literal=text=known")
	defer c.kubectl("", "delete", "configmap", "-n", system, "outage")
	c.apply("outage-data", fileSpec("/etc/data", "{{ .ConfigMaps.it.text }}")+"  configMaps: [{namespace: keel-system, name: outage, as: it}]\n")
	a, other := c.agent("outage-1", h.Host, ""), c.agent("outage-2", nil, parts.Debian(t))
	for _, a := range []*agent{a, other} {
		a.start()
		a.awaitReady()
	}
	kubetest.Await(t, "it is kept", func() bool { return c.succeeded("outage", "outage-1") && c.succeeded("outage-data", "outage-1") })
	before, starts := c.nodeConfig("outage").Status.Nodes["outage-1"], len(h.starts("web"))

	c.API.Stop()
	defer func() {
		if err := c.API.Start(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	h.Exec(t, "sh", "-c", "echo by hand >/etc/web.conf")
	a.refused("what=nodeconfigs", "read nodeconfigs:")
	kubetest.Await(t, "the service is restarted without an API server", func() bool { return len(h.starts("web")) > starts })
	if err := other.end(); err != nil {
		t.Errorf("an agent that was told to end in an outage ended with %v\n%s", err, other.said)
	}
	if err := c.API.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.awaitReady()
	kubetest.Await(t, "the status follows", func() bool {
		s := c.nodeConfig("outage").Status.Nodes["outage-1"]
		return s.LastRunTime.After(before.LastRunTime.Time) && s.Changed
	})
	if got := h.read("/run/web.running"); got != "version 1" || len(h.starts("web")) != starts+1 {
		t.Errorf("the service runs with %q and was started %d times, want %d", got, len(h.starts("web")), starts+1)
	}
	if n := len(a.said.lines("API server can be read again", "what=nodeconfigs")); n != 1 {
		t.Errorf("it is said %d times that it can be read again\n%s", n, a.said)
	}
	c.tell("%s", a.said)
	if err := a.end(); err != nil {
		t.Errorf("the agent ended with %v", err)
	}
	// Neither away nor just started the server is a reason to change one's mind.
	if bad := a.said.lines("run failed"); len(bad) > 0 {
		t.Errorf("the outage made errors of what was known:\n%s", strings.Join(bad, "\n"))
	}
}
