package restart_test

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tlspu/keel/core/restart"
	"github.com/tlspu/keel/test/parts"
)

// TestFile_notAllowed: what may not be read is nothing to remove.
func TestFile_notAllowed(t *testing.T) {
	parts.Need(t, "root")
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	tree := openTree(t, root)
	if err := restart.NewFile(tree, journal).Save(t.Context(), restart.Record{Phase: restart.Ensuring, Units: map[string]string{"a.service": ""}}); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread() // and let go with the test: the thread is another user's
	if err := unix.Setfsuid(65534); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Setfsuid(0) }()
	err := loadError(t, restart.NewFile(tree, journal))
	if err == nil || !errors.Is(err, fs.ErrPermission) || strings.Contains(err.Error(), "remove") || !strings.Contains(err.Error(), "as root") {
		t.Errorf("got %v", err)
	}
}
