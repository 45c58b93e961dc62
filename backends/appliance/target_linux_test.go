package appliance

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/test/parts"
)

func TestObserve_devicesAreUnknown(t *testing.T) {
	parts.Need(t, "root")
	root := plain().write(t)
	const zero = 1<<8 | 5
	for _, name := range []string{"etc/hostname", "etc/hosts", "etc/resolv.conf", "etc/network/interfaces"} {
		file := filepath.Join(root, name)
		if err := errors.Join(os.Remove(file), syscall.Mknod(file, syscall.S_IFCHR|0o666, zero)); err != nil {
			t.Fatal(err)
		}
	}
	within(t, func() {
		if r := reportOf(t, plainSpec, root); r.Count(drift.NotRead) != 3 {
			t.Errorf("got\n%s", verdicts(r))
		}
	})
}

// TestObserve_withoutPermissionIsUnknown takes the right to read one file at a
// time from what is the same: each leaf that needs it is unknown, none drifts.
func TestObserve_withoutPermissionIsUnknown(t *testing.T) {
	for _, name := range []string{"etc/hostname", "etc/hosts", "etc/resolv.conf", "etc/network/interfaces", "etc/network", "etc"} {
		t.Run(name, func(t *testing.T) {
			root := plain().write(t)
			if err := os.Chmod(filepath.Join(root, name), 0); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Chmod(filepath.Join(root, name), 0o755) })
			for dir := root; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
				if err := os.Chmod(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			asNobody(t, func() {
				r := reportOf(t, plainSpec, root)
				if r.Count(drift.Drift) > 0 || r.Count(drift.NotRead) == 0 {
					t.Errorf("got\n%s", verdicts(r))
				}
				for _, f := range r {
					if f.Verdict == drift.NotRead && !strings.Contains(f.Reason, " permission denied (root only)") {
						t.Errorf("%s: %s", f.Path, f.Reason)
					}
				}
			})
		})
	}
}

// asNobody runs f without root's rights on files; f keeps to its goroutine.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() == 0 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := syscall.Setfsuid(65534); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = syscall.Setfsuid(0) }()
	}
	f()
}
