package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"
	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/core/plugin"
	"github.com/tlspu/keel/core/restart"
	filehandler "github.com/tlspu/keel/plugins/file"
	"github.com/tlspu/keel/test/parts"
)

// newDebianWorld is an agent of a real Debian, reached through chroot.
func newDebianWorld(t *testing.T) *agentWorld {
	parts.Need(t, "root", "debian-root")
	w := newAgentWorld(t)
	w.Env.Root = parts.Debian(t)
	w.settings.HostRoot, w.settings.Once = w.Env.Root, true
	runners, err := command.Runners(w.Env.Root, command.Chroot)
	if err != nil {
		t.Fatal(err)
	}
	w.Env.Run = runners
	w.Env.Handlers = plugin.NewRegistry[handler.Handler]("handler")
	w.Env.Handlers.Register("file", filehandler.New())
	return w
}

// A real systemctl in a real chroot ignores what it is told, with exit code 0:
// the change is made, the mark stays, the error names the mode that would work.
func TestDebian_chrootRestartsNothing(t *testing.T) {
	w := newDebianWorld(t)
	w.write(t, "motd.yaml", `apiVersion: keel.tlspu.io/v1alpha1
kind: NodeConfig
metadata: {name: motd}
spec:
  type: file
  params: {path: /etc/motd, content: "kept\n"}
  services: [cron.service]
`)
	for pass := 1; pass <= 2; pass++ {
		w.out.Reset()
		err := w.run(t)
		if exit := (*plugin.Exit)(nil); !errors.As(err, &exit) || exit.Code != plugin.ExitFailed {
			t.Errorf("pass %d: %v, want exit 16", pass, err)
		}
		if out := w.out.String(); !strings.HasPrefix(out, "error     motd: ") || !strings.Contains(out, "use exec mode nsenter") {
			t.Errorf("pass %d says %q", pass, out)
		}
		if got := w.content(t, "motd"); got != "kept\n" {
			t.Errorf("pass %d: content %q", pass, got)
		}
		m, err := nodeconfig.OpenMachine(w.Env)
		if err != nil {
			t.Fatal(err)
		}
		rec, open, err := restart.NewFile(m.Tree, nodeconfig.JournalDir+"/motd.json").Load(t.Context())
		if diff := cmp.Diff(restart.Record{Phase: restart.Ensuring, Units: map[string]string{"cron.service": ""}, Order: []string{"cron.service"}, Reload: true}, rec); err != nil || !open || diff != "" {
			t.Errorf("pass %d: journal open %v, %v (-want +got):\n%s", pass, open, err, diff)
		}
		if s := w.status(t, "motd"); !s.RestartPending {
			t.Errorf("pass %d: status %+v", pass, s)
		}
	}
}

// A folder of NodeConfigs keeps a real Debian: names of owners are those of its
// own passwd, and the second pass has nothing to do.
func TestDebian_isKept(t *testing.T) {
	w := newDebianWorld(t)
	const head = "apiVersion: keel.tlspu.io/v1alpha1\nkind: NodeConfig\n"
	w.write(t, "files.yaml", head+`metadata: {name: backup-key}
spec:
  type: file
  params: {path: /var/backups/keel/key, content: "secret\n", mode: "0640", owner: backup, group: www-data}
---
`+head+`metadata: {name: issue}
spec:
  type: file
  params: {path: /etc/issue, content: "kept by Keel\n"}
---
`+head+`metadata: {name: no-legacy-alias}
spec:
  type: file
  params: {path: /etc/debian_version, ensure: absent}
---
`+head+`metadata: {name: through-a-link}
spec:
  type: file
  params: {path: /lib/keel/example.conf, content: "a = 1\n"}
`)
	for _, want := range []string{
		"changed   backup-key\nchanged   issue\nchanged   no-legacy-alias\nchanged   through-a-link\n",
		"unchanged backup-key\nunchanged issue\nunchanged no-legacy-alias\nunchanged through-a-link\n",
	} {
		w.out.Reset()
		if err := w.run(t); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, w.out.String()); diff != "" {
			t.Errorf("output (-want +got):\n%s", diff)
		}
	}
	info, err := os.Stat(filepath.Join(w.Env.Root, "var/backups/keel/key"))
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	if st.Uid != 34 || st.Gid != 33 || info.Mode() != 0o640 { // Debian's own numbers
		t.Errorf("owner %d:%d, mode %v", st.Uid, st.Gid, info.Mode())
	}
	if _, err := os.Lstat(filepath.Join(w.Env.Root, "etc/debian_version")); !os.IsNotExist(err) {
		t.Errorf("debian_version: %v", err)
	}
	if _, err := os.Stat(filepath.Join(w.Env.Root, "usr/lib/keel/example.conf")); err != nil {
		t.Error(err)
	}
}
