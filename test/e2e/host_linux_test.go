package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/host"
	"github.com/tlspu/keel/core/restart"
	"github.com/tlspu/keel/test/contract"
	"github.com/tlspu/keel/test/kubetest"
	"github.com/tlspu/keel/test/machine"
)

// units are those of contract.SystemctlUnits on a real host. Those that are
// wanted by multi-user.target are referred to, and stay loaded.
var units = map[string]string{
	"ok.service":        "[Service]\nType=simple\nExecStart=sleep infinity\n[Install]\nWantedBy=multi-user.target\n",
	"one.service":       "[Service]\nType=oneshot\nExecStart=true\n[Install]\nWantedBy=multi-user.target\n",
	"forgotten.service": "[Service]\nType=oneshot\nExecStart=true\n",
	"bad.service":       "[Service]\nType=oneshot\nExecStart=false\n",
}

// boot starts a host that has the units.
func boot(t *testing.T) *machine.Host {
	t.Helper()
	return machine.Boot(t, machine.Options{Prepare: func(root string) error {
		dir := filepath.Join(root, "etc/systemd/system")
		wants := filepath.Join(dir, "multi-user.target.wants")
		if err := os.MkdirAll(wants, 0o755); err != nil {
			return err
		}
		for name, text := range units {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				return err
			}
			if strings.Contains(text, "[Install]") {
				if err := os.Symlink("../"+name, filepath.Join(wants, name)); err != nil {
					return err
				}
			}
		}
		return nil
	}})
}

// What stands in for systemctl in other tests is held to the same suite.
func TestHost_systemctlContract(t *testing.T) {
	h := boot(t)
	contract.Systemctl(t, h.Runner(), contract.SystemctlUnits{
		Running: "ok.service", Oneshot: "one.service", Forgotten: "forgotten.service", Failing: "bad.service", Absent: "missing.service",
	})
}

// invocation is the unit's id, which every start makes anew.
func invocation(t *testing.T, h *machine.Host, unit string) string {
	t.Helper()
	return h.Exec(t, "systemctl", "show", "--value", "-p", "InvocationID", "--", unit)
}

func TestHost_restartsAreProven(t *testing.T) {
	h := boot(t)
	tree, err := host.OpenTree(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	journal := restart.NewFile(tree, "/journal.json")
	open := func(phase, unit, id string) {
		t.Helper()
		if err := journal.Save(t.Context(), restart.Record{Phase: phase, Units: map[string]string{unit: id}}); err != nil {
			t.Fatal(err)
		}
	}
	closed := func() bool {
		t.Helper()
		_, ok, err := journal.Load(t.Context())
		if err != nil {
			t.Error(err)
		}
		return !ok
	}

	t.Run("a restart that is due", func(t *testing.T) {
		before := invocation(t, h, "ok.service")
		open(restart.Ensuring, "ok.service", "")
		if err := restart.Prove(t.Context(), h.Runner(), journal); err != nil || !closed() {
			t.Errorf("got %v, and the journal closed: %t", err, closed())
		}
		if after := invocation(t, h, "ok.service"); after == before || len(after) != 32 {
			t.Errorf("InvocationID %s before and %s after", before, after)
		}
	})
	t.Run("a restart that happened before a crash", func(t *testing.T) {
		open(restart.Restarting, "ok.service", invocation(t, h, "ok.service"))
		h.Exec(t, "systemctl", "restart", "ok.service")
		before := invocation(t, h, "ok.service")
		if err := restart.Prove(t.Context(), h.Runner(), journal); err != nil || !closed() {
			t.Errorf("got %v, and the journal closed: %t", err, closed())
		}
		if after := invocation(t, h, "ok.service"); after != before {
			t.Error("it was restarted twice")
		}
	})
	t.Run("a restart that is lost with the machine", func(t *testing.T) {
		open(restart.Restarting, "ok.service", invocation(t, h, "ok.service"))
		if err := h.Reboot(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := invocation(t, h, "ok.service")
		if err := restart.Prove(t.Context(), h.Runner(), journal); err != nil || !closed() {
			t.Errorf("got %v, and the journal closed: %t", err, closed())
		}
		if after := invocation(t, h, "ok.service"); after != before {
			t.Error("it was restarted although the machine had started it anew")
		}
	})
	t.Run("a unit at its start limit (A2)", func(t *testing.T) {
		h.Exec(t, "sh", "-c", "mkdir -p /run/systemd/system/ok.service.d && "+
			"printf '[Unit]\\nStartLimitIntervalSec=1h\\nStartLimitBurst=2\\n' > /run/systemd/system/ok.service.d/limit.conf && "+
			"systemctl daemon-reload && systemctl restart ok.service && systemctl restart ok.service")
		open(restart.Restarting, "ok.service", invocation(t, h, "ok.service"))
		if err := restart.Prove(t.Context(), h.Runner(), journal); err != nil || !closed() {
			t.Errorf("got %v, and the journal closed: %t", err, closed())
		}
		if state := h.Exec(t, "systemctl", "show", "--value", "-p", "ActiveState", "--", "ok.service"); state != "active" {
			t.Errorf("the unit is %s", state)
		}
	})
	t.Run("a unit that fails", func(t *testing.T) {
		open(restart.Ensuring, "bad.service", "")
		err := restart.Prove(t.Context(), h.Runner(), journal)
		if err == nil || !strings.Contains(err.Error(), "restart bad.service: it was restarted and failed (exit-code)") || closed() {
			t.Errorf("got %v, and the journal closed: %t", err, closed())
		}
	})
}

// From outside its PID namespace systemd does not know who asks, and mostly does
// not answer ("Transport endpoint is not connected"), sometimes in the middle of
// it all. Then the mark stays, and the error says what would work.
func TestHost_chrootFromOutsideIsNoProof(t *testing.T) {
	h := boot(t)
	runners, err := command.Runners(h.Root(), command.Chroot)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := host.OpenTree(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	journal := restart.NewFile(tree, "/journal.json")
	if err := journal.Save(t.Context(), restart.Record{Phase: restart.Ensuring, Units: map[string]string{"ok.service": ""}}); err != nil {
		t.Fatal(err)
	}
	before := invocation(t, h, "ok.service")
	err = restart.Prove(t.Context(), runners(h.Root()), journal)
	restarted := invocation(t, h, "ok.service") != before
	rec, open, loadErr := journal.Load(t.Context())
	switch {
	case loadErr != nil:
		t.Error(loadErr)
	case err == nil && (open || !restarted):
		t.Errorf("no error, the journal open: %t, restarted: %t", open, restarted)
	case err != nil && (!open || !strings.Contains(err.Error(), "use exec mode nsenter")):
		t.Errorf("got %v, the journal open: %t (%+v), want it open and an error that names the mode that works", err, open, rec)
	}
}

// status is the part of an agent's status that does not depend on time.
type status struct {
	LastResult     string `json:"lastResult"`
	Changed        bool   `json:"changed"`
	RestartPending bool   `json:"restartPending"`
	Message        string `json:"message"`
}

// keeper is keel node-agent as a pod of the image that ships, on a host and fed
// from a folder.
type keeper struct {
	*testing.T
	host   *machine.Host
	pod    machine.Pod
	config string
	state  string
}

func newKeeper(t *testing.T) *keeper {
	k := &keeper{T: t, host: boot(t), config: t.TempDir(), state: t.TempDir()}
	k.pod = machine.Pod{
		Image:  machine.KeelImage(t),
		Mounts: map[string]string{"/etc/keel/nodeconfigs": k.config, "/var/lib/keel/node-agent": k.state},
	}
	return k
}

// write puts a NodeConfig into the folder at once, and long enough ago not to be
// taken for one that is still being written.
func (k *keeper) write(name, spec string) {
	k.Helper()
	file := filepath.Join(k.config, name+".yaml")
	text := "apiVersion: keel.tlspu.io/v1alpha1\nkind: NodeConfig\nmetadata: {name: " + name + "}\nspec:\n" + spec
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		k.Fatal(err)
	}
	old := time.Now().Add(-time.Minute)
	if err := os.Chtimes(file+".new", old, old); err != nil {
		k.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		k.Fatal(err)
	}
}

// start starts the agent; log has what it said once it ended.
func (k *keeper) start(args ...string) (p *machine.Process, log *bytes.Buffer) {
	k.Helper()
	log = new(bytes.Buffer)
	cmd := exec.Command("/usr/bin/keel", append([]string{"node-agent", "--source=dir", "--host-root=/host"}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	return k.host.Start(k, k.pod, cmd), log
}

func (k *keeper) status(name string) (s status) {
	k.Helper()
	text, err := os.ReadFile(filepath.Join(k.state, name+".json"))
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil && !os.IsNotExist(err) {
		k.Error(err)
	}
	return s
}

// An agent in a pod keeps a booted host: it makes the unit's file, systemd reads
// it, and the service is restarted once for each change.
func TestKeeper_restartsARealService(t *testing.T) {
	k := newKeeper(t)
	const spec = `  type: file
  params: {path: /etc/systemd/system/ok.service.d/keel.conf, content: "[Service]\nEnvironment=VERSION=%s\n"}
  services: [ok.service]
  interval: 10s
`
	write := func(version string) { k.write("ok", strings.ReplaceAll(spec, "%s", version)) }
	environment := func() string {
		return k.host.Exec(t, "systemctl", "show", "--value", "-p", "Environment", "ok.service")
	}
	want := status{LastResult: "success", Changed: true, Message: "configuration applied, services restarted"}

	first := invocation(t, k.host, "ok.service")
	write("1")
	agent, log := k.start()
	kubetest.Await(t, "the status says that version 1 is there", func() bool { return k.status("ok") == want })
	second := invocation(t, k.host, "ok.service")
	if second == first {
		t.Error("the service was not restarted")
	}
	if got := environment(); got != "VERSION=1" {
		t.Errorf("the service runs with %q: systemd has not read its new file", got)
	}

	write("2")
	kubetest.Await(t, "version 2 runs", func() bool { return environment() == "VERSION=2" && invocation(t, k.host, "ok.service") != second })
	if err := agent.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := agent.Wait(); err != nil {
		t.Errorf("the agent ended with %v\n%s", err, log)
	}

	// Another agent, as after an update of the DaemonSet, finds nothing to do.
	third := invocation(t, k.host, "ok.service")
	agent, log = k.start("--once")
	if err := agent.Wait(); err != nil || !strings.HasPrefix(log.String(), "unchanged ok\n") {
		t.Errorf("got %v and\n%s", err, log)
	}
	if got := invocation(t, k.host, "ok.service"); got != third {
		t.Error("an agent with nothing to do restarted the service")
	}
	if left := k.host.Exec(t, "ls", "/var/lib/keel/restart"); left != "" {
		t.Errorf("journals are left: %s", left)
	}
}

// An agent that is killed while systemd restarts the service loses nothing: the
// next one proves the restart.
func TestKeeper_killedInARestart(t *testing.T) {
	k := newKeeper(t)
	k.host.Exec(t, "sh", "-ec", "mkdir -p /etc/systemd/system/ok.service.d; printf '[Service]\\nExecStartPre=sleep 1\\n' >/etc/systemd/system/ok.service.d/slow.conf; systemctl daemon-reload")
	k.write("ok", "  type: file\n  params: {path: /etc/ok.conf, content: new}\n  services: [ok.service]\n")
	before := invocation(t, k.host, "ok.service")
	agent, log := k.start()
	kubetest.Await(t, "systemd is told to restart it", func() bool { return invocation(t, k.host, "ok.service") != before })
	agent.Kill()
	if left := k.host.Exec(t, "ls", "/var/lib/keel/restart"); left != "ok.json" {
		t.Fatalf("the agent was killed too late, journals: %q\n%s", left, log)
	}
	kubetest.Await(t, "the restart ends", func() bool {
		return k.host.Exec(t, "systemctl", "show", "--value", "-p", "ActiveState", "ok.service") == "active"
	})
	after := invocation(t, k.host, "ok.service")
	agent, log = k.start("--once")
	if err := agent.Wait(); err != nil {
		t.Errorf("got %v and\n%s", err, log)
	}
	if got := invocation(t, k.host, "ok.service"); got != after {
		t.Errorf("the service was restarted twice\n%s", log)
	}
	if left := k.host.Exec(t, "ls", "/var/lib/keel/restart"); left != "" {
		t.Errorf("journals are left: %s", left)
	}
	if got := k.status("ok"); got.LastResult != "success" || got.RestartPending {
		t.Errorf("status %+v", got)
	}
}

// In a pod with hostPID the root at /host is PID 1's, so systemctl behind a chroot
// is none to systemd, and restarts for real.
func TestKeeper_restartsThroughChrootInAPodWithHostPID(t *testing.T) {
	k := newKeeper(t)
	k.write("ok", "  type: file\n  params: {path: /etc/ok.conf, content: new}\n  services: [ok.service]\n")
	before := invocation(t, k.host, "ok.service")
	agent, log := k.start("--once", "--exec-mode=chroot")
	if err := agent.Wait(); err != nil || !strings.HasPrefix(log.String(), "changed   ok\n") {
		t.Errorf("got %v and\n%s", err, log)
	}
	if invocation(t, k.host, "ok.service") == before {
		t.Error("the service was not restarted, and the agent says it was")
	}
}
