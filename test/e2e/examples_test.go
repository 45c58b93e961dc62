package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The examples do what their comments say, and do it once.
func TestExamples_applyTwice(t *testing.T) {
	bin := filepath.Join(keel(t), "keel")
	root := filepath.Join(t.TempDir(), "root")
	if err := os.CopyFS(root, os.DirFS("../fixtures/roots/debian")); err != nil {
		t.Fatal(err)
	}
	settings := filepath.Join(t.TempDir(), "keel.yaml") // not this machine's
	if err := os.WriteFile(settings, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	apply := func() string {
		t.Helper()
		cmd := exec.Command(bin, "apply", "-f", "../../docs/examples/nodeconfigs", "--root", root, "--config", settings)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("keel apply: %v\n%s", err, out)
		}
		return string(out)
	}
	first := apply()
	if strings.Contains(first, "unchanged") {
		t.Errorf("the first apply found something unchanged:\n%s", first)
	}

	drop, err := os.ReadFile(filepath.Join(root, "etc/ssh/sshd_config.d/05-keys-only.conf"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("PasswordAuthentication no\nPermitRootLogin prohibit-password\n", string(drop)); diff != "" {
		t.Error(diff)
	}
	if info, err := os.Stat(filepath.Join(root, "etc/ssh/sshd_config.d/05-keys-only.conf")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the drop-in has mode %v (%v), want 0600", info.Mode(), err)
	}
	if motd, err := os.ReadFile(filepath.Join(root, "etc/motd")); err != nil || !strings.HasPrefix(string(motd), "Debian GNU/Linux 12 (bookworm), kept by Keel") {
		t.Errorf("etc/motd: %q, %v", motd, err)
	}
	if _, err := os.Lstat(filepath.Join(root, "etc/cron.d/old-backup")); !os.IsNotExist(err) {
		t.Errorf("etc/cron.d/old-backup is still there: %v", err)
	}

	second := apply()
	if n := strings.Count(second, "unchanged"); n != 5 || strings.Contains(strings.ReplaceAll(second, "unchanged", ""), "changed") {
		t.Errorf("the second apply changed something:\n%s", second)
	}
}

// The samples of a cluster are right, and so is what their templates give on a node.
func TestSamples_areValid(t *testing.T) {
	bin := filepath.Join(keel(t), "keel")
	facts := filepath.Join(t.TempDir(), "facts.yaml")
	text := "node: {name: n1, labels: {node-restriction.kubernetes.io/pool: database}}\nos: {prettyName: Debian}\ncluster: {id: c1}\n"
	settings := filepath.Join(t.TempDir(), "keel.yaml") // not this machine's
	for name, content := range map[string]string{facts: text, settings: ""} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{nil, {"--facts", facts}} {
		cmd := exec.Command(bin, append([]string{"validate", "-f", "../../deploy/kubernetes/samples", "--config", settings}, args...)...)
		out, err := cmd.CombinedOutput()
		if n := strings.Count(string(out), ": ok\n"); err != nil || n != 7 || n != strings.Count(string(out), "\n") {
			t.Errorf("keel validate %v: %v, %d documents are ok, want 7\n%s", args, err, n, out)
		}
	}
}
