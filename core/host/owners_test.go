package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tlspu/keel/test/parts"
)

// owners are trees in which a user tries to lead Keel astray.
func owners() []hostile {
	const stray = "refused"
	tmp := func(s *site) {
		s.folder("root/tmp", 0)
		must(s.t, os.Chmod(filepath.Join(s.root(), "tmp"), os.ModeSticky|0o777))
	}
	rows := []hostile{
		{name: "a user's own directory", path: "/home/bob/f", read: "root/home/bob/f"},
		{name: "a user's link to root's directory", path: "/home/bob/.config/f", no: stray,
			build: func(s *site) { s.link("/etc", "root/home/bob/.config", bob) }},
		{name: "a user's relative link to root's directory", path: "/home/bob/.config/f", no: stray,
			build: func(s *site) { s.link("../../etc", "root/home/bob/.config", bob) }},
		{name: "a user's link to the root", path: "/home/bob/l/etc/f", no: stray,
			build: func(s *site) { s.link("/", "root/home/bob/l", bob) }},
		{name: "a user's link to the directory above", path: "/home/bob/l/alice/f", no: stray,
			build: func(s *site) { s.link("..", "root/home/bob/l", bob) }},
		{name: "a user's link to another user's directory", path: "/home/bob/l/f", no: stray,
			build: func(s *site) { s.link("/home/alice", "root/home/bob/l", bob) }},
		{name: "a user's link to his own directory", path: "/home/bob/l/f", read: "root/home/bob/d/f",
			build: func(s *site) {
				s.folder("root/home/bob/d", bob)
				s.file("root/home/bob/d/f", bob)
				s.link("/home/bob/d", "root/home/bob/l", bob)
			}},
		{name: "a user's link to his own directory elsewhere", path: "/home/bob/l/f", read: "root/data/d/f",
			build: func(s *site) {
				s.folder("root/data/d", bob)
				s.file("root/data/d/f", bob)
				s.link("../../data/d", "root/home/bob/l", bob)
			}},
		{name: "a user's link to root's file", path: "/home/bob/l", attr: follow(Attr{}), no: stray,
			build: func(s *site) { s.link("/etc/f", "root/home/bob/l", bob) }},
		{name: "a user's link to root's file, replaced", path: "/home/bob/l", no: stray, put: "root/home/bob/l",
			build: func(s *site) { s.link("/etc/f", "root/home/bob/l", bob) }},
		{name: "a user's link to his own file", path: "/home/bob/l", attr: follow(Attr{}), read: "root/home/bob/f",
			build: func(s *site) { s.link("/home/bob/f", "root/home/bob/l", bob) }},
		{name: "a user's link to nothing in root's directory", path: "/home/bob/l", attr: follow(Attr{}), no: stray,
			build: func(s *site) { s.link("/etc/new", "root/home/bob/l", bob) }},
		{name: "a user's link to nothing in his own directory", path: "/home/bob/l", attr: follow(Attr{}), no: "not exist", put: "root/home/bob/new",
			build: func(s *site) { s.link("new", "root/home/bob/l", bob) }},
		{name: "a user's link by way of root's link", path: "/home/bob/l/f", no: stray,
			build: func(s *site) { s.link("/etc", "root/opt/l", 0); s.link("/opt/l", "root/home/bob/l", bob) }},
		{name: "a user's link by way of root's link to his own", path: "/home/bob/l/f", read: "root/home/bob/f",
			build: func(s *site) { s.link("/home/bob", "root/opt/l", 0); s.link("/opt/l", "root/home/bob/l", bob) }},
		{name: "a user's link by way of another user's", path: "/home/bob/l", attr: follow(Attr{}), no: stray,
			build: func(s *site) {
				s.link("/home/bob/f", "root/home/alice/l", alice)
				s.link("/home/alice/l", "root/home/bob/l", bob)
			}},
		{name: "a user's link through root's directory and back", path: "/home/bob/l/f", read: "root/home/bob/f",
			build: func(s *site) { s.link("../../etc/../home/bob", "root/home/bob/l", bob) }},
		{name: "root's link in a user's directory", path: "/home/bob/l/f", no: stray,
			build: func(s *site) { s.link("/etc", "root/home/bob/l", 0) }},
		{name: "root's link in a user's directory to the user's own", path: "/home/bob/l", attr: follow(Attr{}), read: "root/home/bob/f",
			build: func(s *site) { s.link("/home/bob/f", "root/home/bob/l", 0) }},
		{name: "another user's link in a user's directory", path: "/home/bob/l", attr: follow(Attr{}), no: stray,
			build: func(s *site) { s.link("/home/alice/f", "root/home/bob/l", alice) }},
		{name: "root's link to a user's directory", path: "/opt/l/f", read: "root/home/bob/f",
			build: func(s *site) { s.link("/home/bob", "root/opt/l", 0) }},
		{name: "a user's link in root's directory", path: "/opt/l/f", no: stray,
			build: func(s *site) { s.link("/etc", "root/opt/l", bob) }},
		{name: "root's directory in a user's", path: "/home/bob/d/f", no: stray,
			build: func(s *site) { s.folder("root/home/bob/d", 0); s.file("root/home/bob/d/f", 0) }},
		{name: "another user's directory in a user's", path: "/home/bob/d/f", no: stray,
			build: func(s *site) { s.folder("root/home/bob/d", alice); s.file("root/home/bob/d/f", alice) }},
		{name: "deep in a user's directory", path: "/home/bob/d/e/f", no: stray,
			build: func(s *site) {
				s.folder("root/home/bob/d", bob)
				s.folder("root/home/bob/d/e", 0)
				s.file("root/home/bob/d/e/f", 0)
			}},
		{name: "root's file in a user's directory", path: "/home/bob/r", read: "root/home/bob/r",
			build: func(s *site) { s.file("root/home/bob/r", 0) }},
		{name: "a user's file in root's directory", path: "/etc/b", read: "root/etc/b",
			build: func(s *site) { s.file("root/etc/b", bob) }},
		{name: "up from a user's directory", path: "/home/bob/../alice/f", read: "root/home/alice/f"},
		{name: "a symlink in a sticky directory to root's directory", path: "/tmp/l/f", no: stray,
			build: func(s *site) { tmp(s); s.link("/etc", "root/tmp/l", bob) }},
		{name: "a symlink in a sticky directory to the user's own", path: "/tmp/l/f", read: "root/home/bob/f",
			build: func(s *site) { tmp(s); s.link("/home/bob", "root/tmp/l", bob) }},
		{name: "root's link in a sticky directory", path: "/tmp/l/f", read: "root/etc/f",
			build: func(s *site) { tmp(s); s.link("/etc", "root/tmp/l", 0) }},
		{name: "root's directory in a user's in a sticky directory", path: "/tmp/b/d/f", no: stray,
			build: func(s *site) {
				tmp(s)
				s.folder("root/tmp/b", bob)
				s.folder("root/tmp/b/d", 0)
				s.file("root/tmp/b/d/f", 0)
			}},
	}
	for i := range rows {
		rows[i].users = true
	}
	return rows
}

func TestPut_parentsBelongToTheFoldersOwner(t *testing.T) {
	parts.Need(t, "root")
	s := newSite(t)
	tree := openTree(t, s.root())
	for range 2 {
		if _, err := tree.Put(t.Context(), "/home/bob/.config/app/f", strings.NewReader("x"), Attr{Parents: 0o700}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tree.Mkdir("/home/bob/a/b", 0o750); err != nil {
		t.Fatal(err)
	}
	for path, uid := range map[string]int{
		"/home/bob/.config": bob, "/home/bob/.config/app": bob, "/home/bob/.config/app/f": 0, "/home/bob/a/b": bob,
	} {
		info, err := tree.Stat(path)
		if err != nil || info.UID != uid {
			t.Errorf("%s belongs to %d, %v, want %d", path, info.UID, err, uid)
		}
	}
}

func TestPut_hardLinkToRootsFile(t *testing.T) {
	parts.Need(t, "root")
	s := newSite(t)
	// Without protected_hardlinks a user may link root's file into his folder, and
	// what is meant for his own file must not be done to it.
	must(t, os.Link(filepath.Join(s.root(), "etc/f"), filepath.Join(s.root(), "home/bob/h")))
	tree := openTree(t, s.root())
	attr := Attr{UID: id(bob), Mode: mode(0o600)}
	if _, err := tree.Put(t.Context(), "/home/bob/h", strings.NewReader("root/etc/f"), attr); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Chattr("/home/bob/f", Attr{UID: id(bob), Mode: mode(0o600)}); err != nil {
		t.Fatal(err)
	}
	for path, uid := range map[string]int{"/etc/f": 0, "/home/bob/h": bob} {
		info, err := tree.Stat(path)
		if err != nil || info.UID != uid {
			t.Errorf("%s belongs to %d, %v, want %d", path, info.UID, err, uid)
		}
	}
}

func TestTree_ofAUserKeptByRoot(t *testing.T) {
	parts.Need(t, "root")
	// A root that belongs to an ordinary user, as a checkout, fakeroot or a container
	// leaves it: he is that machine's root, but not its other users.
	s := newSite(t)
	for _, name := range []string{"root", "root/etc", "root/data", "root/home", "root/etc/f"} {
		s.own(name, bob)
	}
	s.link("/data", "root/l", bob)
	s.link("/etc", "root/home/alice/l", alice)
	tree := openTree(t, s.root())
	for path, want := range map[string]string{"/l/f": "root/data/f", "/home/alice/f": "root/home/alice/f", "/home/bob/f": "root/home/bob/f"} {
		if got, err := tree.Read(path, 100); err != nil || string(got) != want {
			t.Errorf("Read(%s) = %q, %v", path, got, err)
		}
	}
	if got, err := tree.Read("/home/alice/l/f", 100); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("Read = %q, %v", got, err)
	}
	check := func(context.Context, string) error { return nil }
	if _, err := tree.Put(t.Context(), "/l/new/f", strings.NewReader("x"), Attr{Parents: 0o755, Check: check}); err != nil {
		t.Error(err)
	}
	for range 2 {
		unlock, err := tree.Lock(t.Context(), "test")
		must(t, err)
		unlock()
	}
	s.own("root/run/keel", bob) // as if he had run Keel himself before
	unlock, err := tree.Lock(t.Context(), "test")
	must(t, err)
	unlock()
}

func TestPut_temporaryFolderOfSomebodyElse(t *testing.T) {
	parts.Need(t, "root")
	s := newSite(t)
	tree := openTree(t, s.root())
	for _, tt := range []struct{ path, temp, want string }{
		{"/etc/f", "/home/bob", "others may replace files in it"},
		{"/home/alice/f", "/home/bob", "others may replace files in it"},
		{"/home/bob/f", "/home/bob", ""},
		{"/home/bob/f", "/data", ""},
	} {
		_, err := tree.Put(t.Context(), tt.path, strings.NewReader("new"), Attr{Temp: tt.temp})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("Put(%s) by way of %s = %v, want %q", tt.path, tt.temp, err, tt.want)
		}
	}
}

func TestPut_temporaryFileExchanged(t *testing.T) {
	s := newSite(t)
	tree := openTree(t, s.root())
	exchange := func(context.Context, string) error {
		found := leftovers(t, filepath.Join(s.root(), "etc"))
		if len(found) != 1 {
			t.Fatalf("temporary files: %v", found)
		}
		return errors.Join(os.Rename(found[0], found[0]+".moved"), os.WriteFile(found[0], []byte("other"), 0o644))
	}
	changed, err := tree.Put(t.Context(), "/etc/f", strings.NewReader("new"), Attr{Check: exchange})
	if !changed || err == nil || !strings.Contains(err.Error(), "somebody else replaced it") {
		t.Errorf("Put = %v, %v, want an error: path holds what somebody else wrote", changed, err)
	}
}

func TestTempDir_isGivenAwayOnlyEmpty(t *testing.T) {
	parts.Need(t, "root")
	s := newSite(t)
	tree := openTree(t, s.root())
	p, err := tree.walk("/etc/.", walkOptions{})
	must(t, err)
	defer p.close()
	// As if bob had put root's folder in the place of the one just made.
	tmp := &temp{fd: p.dir.fd}
	if err := tmp.giveAway(bob, bob); err == nil {
		t.Error("a directory that holds something was given away")
	}
	if info, err := tree.Stat("/etc"); err != nil || info.UID != 0 {
		t.Errorf("/etc belongs to %d, %v", info.UID, err)
	}
}

func TestWalk_upFromAFolderThatMoved(t *testing.T) {
	s := newSite(t)
	s.folder("root/data/d", 0)
	tree := openTree(t, s.root())
	move := func(_ *walk, name string) error {
		return errors.Join(
			os.Mkdir(filepath.Join(s.root(), "data/d", name), 0o755),
			os.Rename(filepath.Join(s.root(), "data/d"), filepath.Join(s.root(), "opt/d")))
	}
	p, err := tree.walk("/data/d/new/../../f", walkOptions{mkdir: move})
	if err == nil {
		p.close()
		t.Fatalf("the walk ended at %s", p.path)
	}
	if !strings.Contains(err.Error(), "was moved while it was walked") {
		t.Error(err)
	}
}
