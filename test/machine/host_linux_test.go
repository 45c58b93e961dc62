package machine

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tlspu/keel/test/parts"
)

func TestBoot_isAMachineOfItsOwn(t *testing.T) {
	h := Boot(t, Options{Name: "web1", Prepare: func(root string) error {
		return os.WriteFile(filepath.Join(root, "etc/prepared"), []byte("before systemd\n"), 0o600)
	}})
	other := Boot(t, Options{})
	for _, tt := range []struct{ command, want string }{
		{"cat /proc/1/comm", "systemd"},
		{"systemctl is-system-running", "running"},
		{"systemctl is-active dbus.service systemd-journald.service systemd-logind.service", "active\nactive\nactive"},
		{"hostname; cat /etc/hostname", "web1\nweb1"},
		{"cat /etc/prepared", "before systemd"},
		{"systemd-detect-virt --container", "container-other"},
		{"ls /sys/class/net", "lo"},
		{"test -w /proc/sys/kernel || echo cannot change the kernel", "cannot change the kernel"},
	} {
		if got := h.Exec(t, "sh", "-c", tt.command); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.command, got, tt.want)
		}
	}
	if got := other.Exec(t, "hostname"); got != "debian" {
		t.Errorf("the other host is %s", got)
	}

	// What one writes is its own, and seen below its root.
	h.Exec(t, "touch", "/etc/mine")
	for path, want := range map[string]bool{h.Root(): true, other.Root(): false, parts.Dir("debian-root"): false} {
		if _, err := os.Stat(filepath.Join(path, "etc/mine")); (err == nil) != want {
			t.Errorf("%s/etc/mine: %v, want it there: %t", path, err, want)
		}
	}
}

func TestBoot_failsWithTheReason(t *testing.T) {
	unit := "[Service]\nType=oneshot\nExecStart=false\n"
	parts.Need(t, "root", "debian-root", "cgroup2", "mounted root", "nsenter")
	h, err := newHost(Options{Name: "bad", Prepare: func(root string) error {
		return installUnit(root, "bad.service", unit)
	}}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Off)
	if err := h.on(t.Context()); err == nil || !strings.Contains(err.Error(), "boot bad: units failed:\nbad.service") {
		t.Errorf("got %v, want an error that names the unit", err)
	}
}

// installUnit makes a unit that starts with the machine.
func installUnit(root, name, text string) error {
	dir := filepath.Join(root, "etc/systemd/system")
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		return err
	}
	wants := filepath.Join(dir, "multi-user.target.wants")
	if err := os.MkdirAll(wants, 0o755); err != nil {
		return err
	}
	return os.Symlink("../"+name, filepath.Join(wants, name))
}

func TestReboot_keepsTheDisk(t *testing.T) {
	h := Boot(t, Options{})
	h.Exec(t, "sh", "-c", "echo a >/etc/kept && echo b >/run/gone")
	before := h.PID
	if err := h.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := h.Exec(t, "sh", "-c", "cat /etc/kept; ls /run/gone 2>&1 || true"); got != "a\nls: cannot access '/run/gone': No such file or directory" {
		t.Errorf("after a reboot: %s", got)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", before)); h.PID == before || !os.IsNotExist(err) {
		t.Errorf("PID %d before and %d after the reboot; %v", before, h.PID, err)
	}
}

// Nothing of a host stays when its test is killed, and the next one sweeps what
// cannot end by itself.
func TestHost_endsWithItsProcess(t *testing.T) {
	if os.Getenv("KEEL_TEST_HOST_CHILD") != "" {
		h := Boot(t, Options{})
		h.Exec(t, "systemd-run", "-q", "sleep", "infinity")
		fmt.Printf("host %d\n", h.PID)
		<-t.Context().Done()
		return
	}
	parts.Need(t, "root", "debian-root", "cgroup2", "mounted root")
	child := exec.Command(os.Args[0], "-test.run=^TestHost_endsWithItsProcess$")
	child.Env = append(os.Environ(), "KEEL_TEST_HOST_CHILD=1", "TMPDIR="+t.TempDir())
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	pid, said := 0, ""
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		said += lines.Text() + "\n"
		if rest, ok := strings.CutPrefix(lines.Text(), "host "); ok {
			pid, _ = strconv.Atoi(rest)
		}
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	if pid == 0 {
		t.Fatalf("the child booted no host:\n%s", said)
	}
	gone(t, fmt.Sprintf("/proc/%d", pid))
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || strings.Contains(string(mounts), t.TempDir()) {
		t.Errorf("mounts are left (%v):\n%s", err, mounts)
	}

	cgroup, err := newCgroup()
	if err != nil {
		t.Fatal(err)
	}
	removeCgroup(cgroup)
	left, err := filepath.Glob(filepath.Join(filepath.Dir(cgroup), fmt.Sprintf("keel-test-%d-*", child.Process.Pid)))
	if err != nil || len(left) > 0 {
		t.Errorf("cgroups are left: %v, %v", left, err)
	}
}

// gone waits until a path is.
func gone(t *testing.T, path string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(10 * time.Second); ; {
		if _, err := os.Stat(path); os.IsNotExist(err) {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%s is still there", path)
		case <-tick.C:
		}
	}
}
