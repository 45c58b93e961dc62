package host

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTree_MkdirNeverReplacesAFolder: two programs that make one folder at once
// end in the same one. What one has opened the other must not replace.
func TestTree_MkdirNeverReplacesAFolder(t *testing.T) {
	root := t.TempDir()
	for range 200 {
		made := make([]uint64, 4)
		var wg sync.WaitGroup
		for i := range made {
			wg.Go(func() {
				tree, err := OpenTree(root)
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = tree.Close() }()
				if _, err := tree.Mkdir("/d", 0o755); err != nil {
					t.Error(err)
					return
				}
				var st unix.Stat_t
				if err := unix.Stat(filepath.Join(root, "d"), &st); err != nil {
					t.Error(err)
				}
				made[i] = st.Ino
			})
		}
		wg.Wait()
		for _, ino := range made {
			if ino != made[0] {
				t.Fatalf("the directory was replaced while it was in use: inodes %d", made)
			}
		}
		if err := os.Remove(filepath.Join(root, "d")); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}
