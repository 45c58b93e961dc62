package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tlspu/keel/test/parts"
)

// What a umask takes away is given back: a user who is not root can open what
// Keel made for him, also in a later run.
func TestTree_umask(t *testing.T) {
	for _, mask := range []int{0o077, 0o700, 0o777} {
		t.Run(fmt.Sprintf("%04o", mask), func(t *testing.T) {
			parts.Need(t, "root")
			root := scratch(t)
			must(t, os.Chown(root, nobody, nobody))
			lock := filepath.Join(root, "run/keel/lock")
			asUser(t, nobody, func() {
				if err := unix.Unshare(unix.CLONE_FS); err != nil { // a umask of this thread alone
					t.Error(err)
					return
				}
				unix.Umask(mask)
				tree, err := OpenTree(root)
				if err != nil {
					t.Error(err)
					return
				}
				defer tree.Close() //nolint:errcheck // only read through
				for _, killed := range []bool{false, true} {
					if killed { // before the file got its mode
						if err := os.Chmod(lock, 0); err != nil {
							t.Error(err)
						}
					}
					unlock, err := tree.Lock(t.Context(), "test")
					if err != nil {
						t.Errorf("lock: %v", err)
						continue
					}
					unlock()
					if info, err := os.Stat(lock); err != nil || info.Mode().Perm() != 0o600 {
						t.Errorf("the lock is %v, %v", info.Mode(), err)
					}
				}
				readable := func(_ context.Context, path string) error {
					_, err := tree.Read(path, 10)
					return err
				}
				if _, err := tree.Put(t.Context(), "/a/b/f", strings.NewReader("x"), Attr{Parents: 0o755, Fresh: 0o644, Check: readable}); err != nil {
					t.Errorf("put: %v", err)
				}
			})
			for path, want := range map[string]os.FileMode{"run/keel": 0o700, "a": 0o755, "a/b": 0o755, "a/b/f": 0o644} {
				if info, err := os.Stat(filepath.Join(root, path)); err != nil || info.Mode().Perm() != want {
					t.Errorf("%s: %v, want %v", path, err, want)
				}
			}
		})
	}
}

// The advice to become root is for those who are not.
func TestLock_immutable(t *testing.T) {
	parts.Need(t, "root", "chattr")
	for path, want := range map[string]string{
		"run/keel/lock": "lock /run/keel/lock: is immutable (chattr -i to change it): operation not permitted",
		"run":           "make directory /run/keel: its directory is immutable (chattr -i to change it): operation not permitted",
	} {
		root := t.TempDir() // on a disk
		create(t, filepath.Join(root, path, "../x"), "", 0o600)
		if path == "run" {
			must(t, os.Mkdir(filepath.Join(root, path), 0o755))
		} else {
			create(t, filepath.Join(root, path), "", 0o600)
		}
		acls(t, "chattr", "+i", filepath.Join(root, path))
		_, err := openTree(t, root).Lock(t.Context(), "test")
		acls(t, "chattr", "-i", filepath.Join(root, path))
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("Lock = %v, want %s", err, want)
		}
	}
}
