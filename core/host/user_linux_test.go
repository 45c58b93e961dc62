package host

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tlspu/keel/test/parts"
)

const nobody = 65534

// asUser runs f as another user, on a thread that ends with it.
func asUser(t *testing.T, uid int, f func()) {
	t.Helper()
	parts.Need(t, "root")
	var wg sync.WaitGroup
	wg.Go(func() {
		runtime.LockOSThread() // and never unlocked: the thread is not used again
		// The raw calls change this thread alone, as the kernel has it.
		for _, c := range [][4]uintptr{{unix.SYS_SETGROUPS, 0, 0, 0}, {unix.SYS_SETRESGID, uintptr(uid), uintptr(uid), uintptr(uid)}, {unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)}} {
			if _, _, errno := unix.RawSyscall(c[0], c[1], c[2], c[3]); errno != 0 {
				t.Errorf("become user %d: %v", uid, errno)
				return
			}
		}
		f()
	})
	wg.Wait()
}

func TestPut_asAUser(t *testing.T) {
	parts.Need(t, "root")
	s := newSite(t)
	s.own("root/data", nobody)
	s.own("root/data/f", nobody)
	s.file("root/data/roots", 0)
	s.file("root/data/closed", nobody)
	must(t, os.Chmod(filepath.Join(s.root(), "data/closed"), 0))
	s.link("/etc/f", "root/data/l", nobody)
	s.link("/home/bob", "root/home/bob/l", bob)
	s.link("/etc", "root/home/bob/e", bob)
	asUser(t, nobody, func() {
		tree, err := OpenTree(s.root())
		if err != nil {
			t.Error(err)
			return
		}
		defer tree.Close() //nolint:errcheck // only read through
		put := func(path, content string, a Attr) string {
			return result(tree.Put(t.Context(), path, strings.NewReader(content), a))
		}
		for what, got := range map[string][2]string{
			"own file":                     {put("/data/f", "new", Attr{}), "changed"},
			"own file, own mode":           {put("/data/f", "new", Attr{Mode: mode(0o600)}), "changed"},
			"new file in a new directory":  {put("/data/d/f", "new", Attr{Parents: 0o755}), "changed"},
			"given to root":                {put("/data/new", "new", Attr{UID: id(0)}), "write /data/new: give it to 0:-1, which only root can: operation not permitted"},
			"equal, given to root":         {put("/data/f", "new", Attr{UID: id(0)}), "write /data/f: give it to 0:65534, which only root can: operation not permitted"},
			"root's file in own directory": {put("/data/roots", "new", Attr{}), "write /data/roots: give it to 0:0, which only root can: operation not permitted"},
			"the same, private":            {put("/data/roots", "new", Attr{Private: true}), "changed"},
			"what cannot be read":          {put("/data/closed", "new", Attr{}), "write /data/closed: permission denied"},
			"root's directory":             {put("/etc/f", "new", Attr{}), "permission denied"},
			"own link to root's file":      {put("/data/l", "new", Attr{Last: Follow}), "permission denied"},
			"another user's link":          {put("/home/bob/e/f", "new", Attr{}), "refused"},
			"lock":                         {result(false, second2(tree.Lock(t.Context(), "test"))), "root " + s.root() + ": lock /run/keel/lock: make directory /run: permission denied: run keel as root, or as the owner of the root"},
			"root's file, equal":           {put("/etc/f", "root/etc/f", Attr{}), "same"},
			"another user's link, to his":  {put("/home/bob/l/f", "root/home/bob/f", Attr{}), "same"},
		} {
			if !strings.Contains(got[0], got[1]) {
				t.Errorf("%s: %s, want %s", what, got[0], got[1])
			}
		}
		info, err := tree.Stat("/data/closed")
		if err != nil || info.Mode() != 0 || info.UID != nobody {
			t.Errorf("Stat of what cannot be read = %v of %d, %v", info.Mode(), info.UID, err)
		}
	})
	if l := leftovers(t, s.root()); l != nil {
		t.Errorf("left behind: %v", l)
	}
}

func second2(_ func(), err error) error { return err }

// spy opens whatever it can in a folder, as nobody, until it is told to stop,
// and returns what it read in there that holds the secret.
func spy(t *testing.T, dir, secret string, looks *atomic.Int64, stop *atomic.Bool) (leaks map[string]bool) {
	leaks = map[string]bool{}
	asUser(t, nobody, func() {
		buf := make([]byte, 4096)
		read := func(path string) {
			fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
			if err != nil {
				return
			}
			n, _ := unix.Read(fd, buf)
			if strings.Contains(string(buf[:max(n, 0)]), secret) {
				leaks[filepath.Base(path)] = true
			}
			// What is not there yet may come: keep it open for a moment.
			n, _ = unix.Pread(fd, buf, 0)
			if strings.Contains(string(buf[:max(n, 0)]), secret) {
				leaks[filepath.Base(path)] = true
			}
			_ = unix.Close(fd)
		}
		for !stop.Load() {
			looks.Add(1)
			read(filepath.Join(dir, "f"))
			names, _ := filepath.Glob(filepath.Join(dir, ".keel-*"))
			for _, name := range names {
				read(name)
				inner, _ := filepath.Glob(filepath.Join(name, "*"))
				for _, i := range inner {
					read(i)
				}
			}
		}
	})
	return leaks
}

func TestPut_secretIsNeverReadable(t *testing.T) {
	parts.Need(t, "root", "setfacl")
	const secret = "hunter2"
	tests := []struct {
		name  string
		old   fs.FileMode
		acl   []string // setfacl arguments for the folder
		attr  Attr
		leaks bool
	}{
		{"new, mode 0600", 0, nil, Attr{Mode: mode(0o600)}, false},
		{"new, private", 0, nil, Attr{Private: true, Fresh: 0o644}, false},
		{"new, another owner", 0, nil, Attr{Mode: mode(0o600), UID: id(bob), GID: id(bob)}, false},
		{"the directory hands on an ACL", 0, []string{"-d", "-m", "u:65534:rwx,o::rwx"}, Attr{Mode: mode(0o660)}, false},
		{"in the place of a public file", 0o666, nil, Attr{Mode: mode(0o600)}, false},
		{"private in the place of a public file", 0o666, nil, Attr{Private: true}, false},
		{"narrower than an ACL's others", 0o666, []string{"-m", "u:1:r"}, Attr{Mode: mode(0o600)}, false},
		{"public", 0, nil, Attr{Mode: mode(0o644)}, true}, // the spy does see what there is to see
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := scratch(t)
			if tt.acl != nil {
				acls(t, slices.Concat([]string{"setfacl"}, tt.acl, []string{root})...)
			}
			tree := openTree(t, root)
			var stop atomic.Bool
			var wg sync.WaitGroup
			var looks atomic.Int64
			var leaks map[string]bool
			wg.Go(func() { leaks = spy(t, root, secret, &looks, &stop) })
			for i := 0; i < 200 || looks.Load() < 1000 && i < 50_000; i++ {
				if tt.old != 0 {
					create(t, filepath.Join(root, "f"), "old", tt.old)
					if tt.acl != nil {
						acls(t, "setfacl", "-m", "u:1:r", filepath.Join(root, "f"))
					}
				}
				content := io.MultiReader(strings.NewReader(secret), strings.NewReader(strings.Repeat("!", i%100)))
				if _, err := tree.Put(t.Context(), "/f", content, tt.attr); err != nil {
					t.Error(err)
				}
				if tt.old != 0 || i%3 == 0 {
					must(t, os.Remove(filepath.Join(root, "f")))
				}
			}
			stop.Store(true)
			wg.Wait()
			if n := looks.Load(); n < 1000 {
				t.Errorf("looked only %d times", n)
			}
			if (len(leaks) > 0) != tt.leaks {
				t.Errorf("the secret was seen in %v", leaks)
			}
		})
	}
}

func TestPut_checkIsPrivate(t *testing.T) {
	root := scratch(t)
	tree := openTree(t, root)
	check := func(_ context.Context, path string) error {
		var got error
		asUser(t, nobody, func() { _, got = os.ReadFile(filepath.Join(root, path)) })
		if !errors.Is(got, fs.ErrPermission) {
			t.Errorf("nobody reads the copy: %v", got)
		}
		return nil
	}
	if _, err := tree.Put(t.Context(), "/f", strings.NewReader("x"), Attr{Mode: mode(0o644), Check: check}); err != nil {
		t.Error(err)
	}
}
