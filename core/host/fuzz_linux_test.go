package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tlspu/keel/test/parts"
)

// FuzzWalk walks odd paths through odd links and compares with what the kernel
// finds when it may not leave the root either. Everything belongs to one user, so
// the owner rule has no say.
func FuzzWalk(f *testing.F) {
	for _, seed := range [][3]string{
		{"/etc/f", "/data", "../f"},
		{"/etc/1/f", "/data", "../etc/f"},
		{"/etc/1/../2", "..", "/etc/1/f"},
		{"/1/2", "/etc/../../../..", "./././f"},
		{"/etc/1", "2", "1"},
		{"/etc/1/", "../data/f/", "//"},
		{"../../outside/secret", "../../outside", "/../../outside/secret"},
		{"/etc/2/1/2/1/f", ".", ".."},
		{"/etc/1/new", "/data/", "/no"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, path, one, two string) {
		s := newSite(t)
		for _, dir := range []string{"root", "root/etc", "root/data"} {
			for name, text := range map[string]string{"1": one, "2": two} {
				if os.Symlink(text, filepath.Join(s.dir, dir, name)) != nil {
					return // no text for a link
				}
			}
		}
		must(t, filepath.WalkDir(s.root(), func(path string, _ os.DirEntry, err error) error {
			must(t, err)
			return os.Lchown(path, os.Geteuid(), os.Getegid())
		}))
		tree := openTree(t, s.root())
		var want unix.Stat_t
		fd, wantErr := unix.Openat2(int(tree.root.Fd()), path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
		if errors.Is(wantErr, unix.ENOSYS) {
			parts.Missing(t, "openat2", "run the tests on Linux 5.6 or later")
		}
		if wantErr == nil {
			must(t, unix.Fstat(fd, &want))
			must(t, unix.Close(fd))
		}
		got, err := tree.Stat(path)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("Stat(%q) = %v, the kernel says %v (1 -> %q, 2 -> %q)", path, err, wantErr, one, two)
		}
		if err == nil && got.id != idOf(&want) {
			t.Fatalf("Stat(%q) finds another file than the kernel (1 -> %q, 2 -> %q)", path, one, two)
		}
		if found, err := tree.Resolve(path); err == nil && wantErr == nil {
			again, err := tree.Lstat(found)
			if err != nil || again.id != got.id {
				t.Fatalf("Resolve(%q) = %q, which is something else, %v", path, found, err)
			}
		}
		before, attr := s.look(), Attr{Last: Follow, Parents: 0o755}
		foretold := tree.CanPut(path, []byte("new"), attr)
		if diff := cmp.Diff(before, s.look()); diff != "" {
			t.Fatalf("CanPut(%q) changed something: %s", path, diff)
		}
		_, err = tree.Put(t.Context(), path, strings.NewReader("new"), attr)
		if foretold != nil && fmt.Sprint(foretold) != fmt.Sprint(err) {
			t.Fatalf("CanPut(%q) said %v, and Put %v", path, foretold, err)
		}
		after := s.look()
		for _, all := range []map[string]string{before, after} {
			for name := range all {
				if strings.HasPrefix(name, "root/") {
					delete(all, name)
				}
			}
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Fatalf("Put(%q) changed what is outside: %s", path, diff)
		}
	})
}

// FuzzOwners lets a user make links and then asks for what lies behind them: only
// his own files may be read or changed.
func FuzzOwners(f *testing.F) {
	for _, seed := range [][3]string{
		{"1/f", "/etc", "../.."},
		{"1/2/f", "2", "../../etc"},
		{"1", "2", "/data/f"},
		{"../bob/1/f", "../../home/bob", "/etc"},
		{"1/alice/f", "..", "."},
		{"1/new", "/data", "/home/alice/new"},
		{"2/../../etc/f", "/", "/home"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, rest, one, two string) {
		parts.Need(t, "root")
		// What the caller writes may lead anywhere; what bob writes may not.
		rest = strings.TrimLeft(rest, "/")
		if slices.Contains(strings.Split(rest, "/"), "..") {
			return // the caller goes elsewhere himself
		}
		s := newSite(t)
		for name, text := range map[string]string{"1": one, "2": two} {
			path := filepath.Join(s.root(), "home/bob", name)
			if os.Symlink(text, path) != nil {
				return // no text for a link
			}
			must(t, os.Lchown(path, bob, bob))
		}
		tree := openTree(t, s.root())
		path := "/home/bob/" + rest
		if got, err := tree.Read(path, 100); err == nil && string(got) != "root/home/bob/f" {
			t.Fatalf("Read(%q) = %q (1 -> %q, 2 -> %q)", path, got, one, two)
		}
		before := s.look()
		_, _ = tree.Put(t.Context(), path, strings.NewReader("new"), Attr{Last: Follow, Parents: 0o755})
		after := s.look()
		for _, all := range []map[string]string{before, after} {
			for name := range all {
				if strings.HasPrefix(name, "root/home/bob/") {
					delete(all, name)
				}
			}
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Fatalf("Put(%q) changed what is not bob's (1 -> %q, 2 -> %q): %s", path, one, two, diff)
		}
	})
}

// What with promises, over every mode and some lists.
func TestACL_with(t *testing.T) {
	for group := range uint16(8) {
		for mask := range uint16(8) {
			for named := range uint16(8) {
				a := acl{{aclUserObj, 6, 0}, {aclUser, named, 1}, {aclGroupObj, group, 0}, {aclMask, mask, 0}, {aclOther, 0, 0}}
				for perm := range os.FileMode(0o1000) {
					got := a.with(perm)
					if got.perm() != perm {
						t.Fatalf("%v with %v gives %v: %v", a, perm, got.perm(), got)
					}
					if may := got[1].perm & got.mask(); may != named&mask {
						t.Fatalf("%v with %v gives the named user %o: %v", a, perm, may, got)
					}
				}
			}
		}
	}
}
