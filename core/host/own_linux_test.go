package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What Keel has on a machine for itself nobody else writes, by whatever name.
func TestTree_ownFiles(t *testing.T) {
	if !inMounts(t) {
		return
	}
	root := scratch(t)
	records := filepath.Join(root, "data/keel/restart")
	create(t, filepath.Join(records, "a.json"), "record", 0o600)
	create(t, filepath.Join(root, "run/keel/lock"), "lock", 0o600)
	create(t, filepath.Join(root, "etc/f"), "x", 0o644)
	must(t, errors.Join(
		os.MkdirAll(filepath.Join(root, "var/lib"), 0o755),
		os.Symlink("/data/keel", filepath.Join(root, "var/lib/keel")),
		os.Symlink("/run/keel/lock", filepath.Join(root, "etc/lock")),
		os.Symlink("../run", filepath.Join(root, "var/run")),
		os.Link(filepath.Join(root, "run/keel/lock"), filepath.Join(root, "etc/hard")),
		os.MkdirAll(filepath.Join(root, "mnt/restart"), 0o755),
		os.MkdirAll(filepath.Join(root, "mnt/keel"), 0o755),
	))
	bind(t, records, filepath.Join(root, "mnt/restart"), 0)
	bind(t, filepath.Join(root, "data/keel"), filepath.Join(root, "mnt/keel"), 0)
	tree := openTree(t, root)
	attr := Attr{Last: Follow, Parents: 0o755}
	for _, path := range []string{
		"/run/keel/lock", "/run/keel/new", "/run/keel/d/new", "/var/run/keel/lock", "/etc/lock",
		"/var/lib/keel/restart/a.json", "/var/lib/keel/new", "/data/keel/restart/a.json", "/data/keel/d/new",
		"/mnt/keel/restart/a.json", "/mnt/keel/new", "/mnt/restart/a.json", "/mnt/restart/d/new",
	} {
		_, err := tree.Put(t.Context(), path, strings.NewReader("new"), attr)
		if foretold := tree.CanPut(path, []byte("new"), attr); !errors.Is(err, errOwn) || !errors.Is(foretold, errOwn) {
			t.Errorf("Put %s: %v, foretold %v", path, err, foretold)
		}
	}
	for _, path := range []string{"/run/keel/lock", "/var/run/keel/lock", "/var/lib/keel", "/var/lib/keel/restart/a.json", "/mnt/keel/restart/a.json"} {
		_, err := tree.Remove(path)
		if foretold := tree.CanRemove(path); !errors.Is(err, errOwn) || !errors.Is(foretold, errOwn) {
			t.Errorf("Remove %s: %v, foretold %v", path, err, foretold)
		}
		if _, err := tree.Symlink("x", path); !errors.Is(err, errOwn) {
			t.Errorf("Symlink %s: %v", path, err)
		}
		if _, err := tree.Chattr(path, Attr{Mode: mode(0o644)}); !errors.Is(err, errOwn) {
			t.Errorf("Chattr %s: %v", path, err)
		}
	}
	for _, path := range []string{"/run/keel/d", "/var/lib/keel/d/e", "/mnt/restart/d", "/mnt/keel/d"} {
		if _, err := tree.Mkdir(path, 0o755); !errors.Is(err, errOwn) {
			t.Errorf("Mkdir %s: %v", path, err)
		}
	}
	// The name itself is somebody else's, and the own file stays as it was.
	for _, path := range []string{"/etc/lock", "/etc/hard"} {
		if _, err := tree.Put(t.Context(), path, strings.NewReader("new"), Attr{}); err != nil {
			t.Errorf("Put %s in place of its name: %v", path, err)
		}
	}
	for path, want := range map[string]string{"run/keel/lock": "lock", "data/keel/restart/a.json": "record"} {
		if got, err := os.ReadFile(filepath.Join(root, path)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v", path, got, err)
		}
	}
	own := tree.Own()
	if _, err := own.Put(t.Context(), "/var/lib/keel/restart/a.json", strings.NewReader("new"), Attr{}); err != nil {
		t.Errorf("Keel itself: %v", err)
	}
	if _, err := own.Remove("/run/keel/lock"); err != nil {
		t.Errorf("Keel itself: %v", err)
	}
}
