package parts

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Debian gives a test a Debian root of its own to write to: an overlay over the
// shared one, which lasts as long as the test. It needs uid 0.
func Debian(t testing.TB) string {
	t.Helper()
	Need(t, "root", "debian-root")
	dir := t.TempDir()
	for _, name := range []string{"upper", "work", "root"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	root := filepath.Join(dir, "root")
	options := "lowerdir=" + Dir("debian-root") + ",upperdir=" + filepath.Join(dir, "upper") + ",workdir=" + filepath.Join(dir, "work")
	if err := syscall.Mount("overlay", root, "overlay", 0, options); err != nil {
		t.Fatalf("mount an overlay over %s: %v", Dir("debian-root"), err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(root, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", root, err)
		}
	})
	return root
}
