package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/test/kubetest"
	"github.com/tlspu/keel/test/machine"
)

// webService takes its configuration when it starts, and writes down each start.
const webService = `[Unit]
StartLimitIntervalSec=0
[Service]
ExecStartPre=sh -c 'echo $$INVOCATION_ID >>/run/NAME.starts; cat /etc/NAME.conf >/run/NAME.running || true'
ExecStart=sleep infinity
[Install]
WantedBy=multi-user.target
`

// A web host is a booted Debian with such services.
type webHost struct {
	*machine.Host
	t *testing.T
}

func bootWeb(t *testing.T, name string, services ...string) webHost {
	t.Helper()
	h := machine.Boot(t, machine.Options{Name: name, Prepare: func(root string) error {
		dir := filepath.Join(root, "etc/systemd/system")
		wants := filepath.Join(dir, "multi-user.target.wants")
		if err := os.MkdirAll(wants, 0o755); err != nil {
			return err
		}
		for _, name := range services {
			file := filepath.Join(dir, name+".service")
			if err := os.WriteFile(file, []byte(strings.ReplaceAll(webService, "NAME", name)), 0o644); err != nil {
				return err
			}
			if err := os.Symlink("../"+name+".service", filepath.Join(wants, name+".service")); err != nil {
				return err
			}
		}
		return nil
	}})
	return webHost{h, t}
}

func (h webHost) read(name string) string { return h.Exec(h.t, "cat", name) }

// starts are the InvocationIDs of all starts of a service.
func (h webHost) starts(service string) []string {
	return strings.Fields(h.read("/run/" + service + ".starts"))
}

// active is the InvocationID of a service that runs, as systemd says.
func (h webHost) active(service string) string {
	state, id, _ := strings.Cut(h.Exec(h.t, "systemctl", "show", "--value", "-p", "ActiveState", "-p", "InvocationID", service+".service"), "\n")
	if state != "active" { // in the order that systemd has them
		id, state = state, id
	}
	if state != "active" {
		return ""
	}
	return id
}

const webSpec = `  type: file
  params: {path: /etc/web.conf, content: "version VERSION\n", mode: "0640"}
  services: [web.service]
  interval: 10s
`

// A NodeConfig goes from kubectl apply to the file, the restart and the status. Run
// it with -v to read how.
func TestKube_fromApplyToTheRestartAndTheStatus(t *testing.T) {
	c := newCluster(t)
	h := bootWeb(t, "edge-1", "web")
	c.node("edge-1", nil)
	a := c.agent("edge-1", h.Host, "")
	a.start()
	a.awaitReady()
	c.tell("edge-1 is a booted Debian with a service web, and the agent in a pod on it is ready")
	starts := h.starts("web")

	// applied waits for what an edit or drift leads to: one restart, no more.
	var last v1alpha1.NodeStatus
	applied := func(version string) {
		t.Helper()
		kubetest.Await(t, "the service was restarted", func() bool { return len(h.starts("web")) > len(starts) })
		before := last
		kubetest.Await(t, "the status says so", func() bool {
			last = c.nodeConfig("web").Status.Nodes["edge-1"]
			return c.succeeded("web", "edge-1") && !cmp.Equal(last, before)
		})
		if !last.Changed || last.Message != "configuration applied, services restarted" {
			t.Errorf("the status is %+v", last)
		}
		want := "version " + version
		if got := h.read("/etc/web.conf"); got != want {
			t.Errorf("the file holds %q, want %q", got, want)
		}
		if got := h.Exec(t, "stat", "-c", "%a %U:%G", "/etc/web.conf"); got != "640 root:root" {
			t.Errorf("the file is %s", got)
		}
		if got := h.read("/run/web.running"); got != want {
			t.Errorf("the service runs with %q, want %q", got, want)
		}
		old := starts
		starts = h.starts("web")
		if len(starts) != len(old)+1 || h.active("web") != starts[len(starts)-1] {
			t.Errorf("InvocationIDs were %v and are %v, %q runs: want one more", old, starts, h.active("web"))
		}
		c.tell("edge-1: /etc/web.conf holds %q; web.service was restarted once, InvocationID %s -> %s, and runs with it",
			want, old[len(old)-1][:8], starts[len(starts)-1][:8])
	}
	manifest := filepath.Join(t.TempDir(), "web.yaml")
	apply := func(version string) {
		t.Helper()
		text := "apiVersion: keel.tlspu.io/v1alpha1\nkind: NodeConfig\nmetadata: {name: web}\nspec:\n" + strings.ReplaceAll(webSpec, "VERSION", version)
		if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c.tell("$ kubectl apply -f web.yaml\n%s\n%s", text, c.kubectl("", "apply", "-f", manifest))
	}
	show := func(args ...string) {
		t.Helper()
		c.tell("$ kubectl %s\n%s", strings.Join(args, " "), c.kubectl("", args...))
	}
	events := []string{"get", "events", "--field-selector", "involvedObject.name=web", "-o", "custom-columns=TYPE:.type,REASON:.reason,COUNT:.count,FROM:.source.component,MESSAGE:.message"}

	apply("1")
	applied("1")
	show("get", "nc", "web", "-o", "yaml", "--show-managed-fields=false")

	apply("2")
	applied("2")
	show("get", "nc", "web", "-o", "jsonpath={.status}")

	// At rest visits write nothing.
	at, runs, writes := c.nodeConfig("web").ResourceVersion, a.metric(`keel_runs_total{handler="file"}`), a.metric(`keel_api_writes_total{kind="status",result="done"}`)
	kubetest.Await(t, "a visit finds nothing to do", func() bool { return a.metric(`keel_runs_total{handler="file"}`) > runs })
	if rv, n := c.nodeConfig("web").ResourceVersion, a.metric(`keel_api_writes_total{kind="status",result="done"}`); rv != at || n != writes || len(h.starts("web")) != len(starts) {
		t.Errorf("a visit with nothing to do wrote: resourceVersion %s -> %s, %v -> %v writes, %d starts", at, rv, writes, n, len(h.starts("web")))
	}
	c.tell("edge-1: after its interval it was visited again; nothing was to be done, and nothing was written")

	h.Exec(t, "sh", "-ec", "echo by hand >/etc/web.conf; chmod 600 /etc/web.conf")
	c.tell("edge-1 $ echo by hand >/etc/web.conf; chmod 600 /etc/web.conf")
	applied("2")
	kubetest.Await(t, "an Event counts three changes", func() bool {
		got := c.kubectl("", events...)
		return strings.Count(got, "\n") == 1 && strings.HasSuffix(got, "\nNormal   Changed   3       keel-node-agent   edge-1: configuration applied, services restarted")
	})
	show(events...)
	if n := a.metric(`keel_restarts_total{handler="file"}`); n != 3 {
		t.Errorf("the agent counts %v restarts, want 3", n)
	}

	show("delete", "nodeconfig", "web")
	kubetest.Await(t, "the agent knows", func() bool { return len(a.said.lines("NodeConfig is gone", "target=web")) == 1 })
	if n := a.metric(`keel_nodeconfig_success{nodeconfig="web"}`); n != -1 {
		t.Errorf("a NodeConfig that is gone has the metric %v", n)
	}
	if err := a.end(); err != nil {
		t.Errorf("the agent ended with %v", err)
	}
	if got := h.read("/etc/web.conf"); got != "version 2" || len(h.starts("web")) != len(starts) || h.active("web") != starts[len(starts)-1] {
		t.Errorf("it undid something: the file holds %q, the service was started %d times, want %d", got, len(h.starts("web")), len(starts))
	}
	if left := h.Exec(t, "ls", "-A", "/var/lib/keel/restart"); left != "" {
		t.Errorf("journals are left: %s", left)
	}
	c.tell("edge-1: the NodeConfig is gone, the file and the service are as they were; the agent was told to end, and did. Its log:\n%s", a.said)
	if bad := a.said.lines("level=ERROR"); len(bad) > 0 {
		t.Errorf("the agent complains without a reason:\n%s", strings.Join(bad, "\n"))
	}
}
