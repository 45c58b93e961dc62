package host

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPut_leftovers(t *testing.T) {
	const name = ".keel-0123456789abcdef.tmp"
	tests := []struct {
		name string
		make func(dir string) error
		want bool // stays
	}{
		{name, func(d string) error { return os.WriteFile(filepath.Join(d, name), nil, 0o600) }, false},
		{".keel-fedcba9876543210.tmp", func(d string) error { return os.Mkdir(filepath.Join(d, ".keel-fedcba9876543210.tmp"), 0o700) }, false},
		{".keel-0000000000000000.tmp", func(d string) error { return os.Symlink("/x", filepath.Join(d, ".keel-0000000000000000.tmp")) }, false},
		{".keel-0123456789ABCDEF.tmp", func(d string) error { return os.WriteFile(filepath.Join(d, ".keel-0123456789ABCDEF.tmp"), nil, 0o600) }, true},
		{".keel-0123.tmp", func(d string) error { return os.WriteFile(filepath.Join(d, ".keel-0123.tmp"), nil, 0o600) }, true},
		{name + "/full", func(d string) error {
			return errors.Join(os.Mkdir(filepath.Join(d, name), 0o700), os.WriteFile(filepath.Join(d, name, "full"), nil, 0o600))
		}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			if err := tt.make(root); err != nil {
				t.Fatal(err)
			}
			if _, err := openTree(t, root).Put(t.Context(), "/f", strings.NewReader("x"), Attr{}); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(filepath.Join(root, tt.name)); (err == nil) != tt.want {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// A Tree looks once in a run, and again in the next.
func TestPut_leftoversInARun(t *testing.T) {
	root := t.TempDir()
	left := filepath.Join(root, "d", ".keel-0123456789abcdef.tmp")
	create(t, left, "", 0o600)
	tree := openTree(t, root)
	put := func(path, content string, stays bool) {
		t.Helper()
		if _, err := tree.Put(t.Context(), path, strings.NewReader(content), Attr{}); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(left); (err == nil) != stays {
			t.Errorf("after putting %s: %v, want it to stay: %t", path, err, stays)
		}
	}
	put("/f", "1", true) // another folder
	put("/d/f", "1", false)
	create(t, left, "", 0o600)
	put("/d/f", "2", true)
	tree.Forget()
	put("/d/f", "3", false)
}

// A run that looked before it had the lock looks again where another process had
// it, and Keel's own directory is swept whenever the lock is taken.
func TestLock_forgetsWhatWasSwept(t *testing.T) {
	root := t.TempDir()
	left, copied := filepath.Join(root, "d/.keel-0123456789abcdef.tmp"), filepath.Join(root, "run/keel/.keel-0123456789abcdef.tmp/f")
	create(t, filepath.Join(root, "d/f"), "", 0o600)
	tree := openTree(t, root)
	leftovers := func(want int) {
		t.Helper()
		if n, err := tree.Leftovers("/d/f", Follow, Info{}); err != nil || n != want {
			t.Errorf("Leftovers = %d, %v, want %d", n, err, want)
		}
	}
	lock := func() {
		t.Helper()
		unlock, err := tree.Lock(t.Context(), "this")
		must(t, err)
		unlock()
	}
	lock()
	leftovers(0)
	create(t, left, "", 0o600)
	lock()
	leftovers(0) // a directory is listed once a run
	other, err := openTree(t, root).Lock(t.Context(), "other")
	must(t, err)
	other()
	create(t, copied, "secret", 0o600)
	lock()
	leftovers(1)
	if _, err := os.Lstat(filepath.Dir(copied)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the copy of a killed check: %v", err)
	}
	must(t, tree.Sweep("/d/f", Follow))
	leftovers(0)
	if _, err := os.Lstat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("swept: %v", err)
	}
}

func TestPut_livingWriterKeepsItsFile(t *testing.T) {
	root := t.TempDir()
	first, second := openTree(t, root), openTree(t, root)
	check := func(ctx context.Context, path string) error {
		// Another one works in the same folder without the machine's lock, and
		// checks its own file, while the first is in the middle of its work.
		_, err := second.Put(ctx, "/g", strings.NewReader("g"), Attr{Check: func(context.Context, string) error { return nil }})
		if err != nil {
			return err
		}
		_, err = first.Read(path, 10)
		return err
	}
	if _, err := first.Put(t.Context(), "/f", strings.NewReader("f"), Attr{Check: check}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, "f"))
	if diff := cmp.Diff("f", string(got)); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func TestPut_temporaryNamesThatAreTaken(t *testing.T) {
	root := t.TempDir()
	tree := openTree(t, root)
	tree.random = io.MultiReader(bytes.NewReader(make([]byte, 24)), strings.NewReader("abcdefgh"))
	create(t, filepath.Join(root, ".keel-0000000000000000.tmp", "full"), "", 0o600)
	if _, err := tree.Put(t.Context(), "/f", strings.NewReader("x"), Attr{}); err != nil {
		t.Errorf("a fourth name was free: %v", err)
	}
	tree.random = strings.NewReader("short")
	if _, err := tree.Put(t.Context(), "/f", strings.NewReader("y"), Attr{}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("Put without random names = %v", err)
	}
}
