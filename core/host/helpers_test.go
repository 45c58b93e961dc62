package host

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// openTree opens the machine at root for one test.
func openTree(t testing.TB, root string) *Tree {
	t.Helper()
	tree, err := OpenTree(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
	})
	return tree
}

// mode makes an Attr's Mode.
func mode(m fs.FileMode) *fs.FileMode { return &m }

// id makes an Attr's UID or GID.
func id(i int) *int { return &i }

// create puts a file where the test needs one.
func create(t testing.TB, path, content string, perm fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, perm); err != nil {
		t.Fatal(err)
	}
}

// leftovers lists temporary names anywhere below dir.
func leftovers(t testing.TB, dir string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), ".keel-") {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// scratch makes a folder that everybody may look into, where syncing is cheap if
// there is such a place.
func scratch(t testing.TB) string {
	t.Helper()
	base := os.TempDir()
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		base = "/dev/shm"
	}
	dir, err := os.MkdirTemp(base, "host-test-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	must(t, os.Chmod(dir, 0o755))
	return dir
}
