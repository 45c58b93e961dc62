package contract

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A Tree is a folder as it was at one moment: for each path below it, one line
// of everything about it that a change would alter: type, mode, owner, links,
// modification time to the nanosecond, content. Access times are left out,
// since looking may move them.
type Tree map[string]string

// Snapshot reads the folder dir without following any link.
func Snapshot(t testing.TB, dir string) Tree {
	t.Helper()
	tree := Tree{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		line, err := describe(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone between the listing and the look
		}
		rel, _ := filepath.Rel(dir, path)
		tree["/"+strings.TrimPrefix(rel, ".")] = line
		return err
	})
	if err != nil {
		t.Fatalf("take a snapshot of %s: %v", dir, err)
	}
	return tree
}

func describe(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	line := fmt.Sprintf("%v %s", info.Mode(), info.ModTime().UTC().Format(time.RFC3339Nano))
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		line += fmt.Sprintf(" uid=%d gid=%d links=%d inode=%d", st.Uid, st.Gid, st.Nlink, st.Ino)
	}
	switch info.Mode().Type() {
	case fs.ModeSymlink:
		target, err := os.Readlink(path)
		return line + " -> " + target, err
	case 0:
		sum, err := digest(path)
		return line + fmt.Sprintf(" size=%d ", info.Size()) + sum, err
	}
	return line, nil
}

func digest(path string) (string, error) {
	content, err := os.ReadFile(path)
	return fmt.Sprintf("sha256:%x", sha256.Sum256(content)), err
}

// Changed lists the paths that differ between two snapshots, in order.
func (before Tree) Changed(after Tree) []string {
	var paths []string
	for path, line := range before {
		if after[path] != line {
			paths = append(paths, path)
		}
	}
	for path := range after {
		if _, was := before[path]; !was {
			paths = append(paths, path)
		}
	}
	return slices.Sorted(slices.Values(paths))
}

// Unchanged fails the test when the folder is not as it was.
func (before Tree) Unchanged(t testing.TB, dir, what string) {
	t.Helper()
	after := Snapshot(t, dir)
	if maps.Equal(before, after) {
		return
	}
	t.Errorf("%s changed the tree (-before +after):\n%s", what, cmp.Diff(before, after))
}
