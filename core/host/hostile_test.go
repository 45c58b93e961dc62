package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tlspu/keel/test/parts"
)

// Users of the machines below; Keel runs as neither.
const bob, alice = 1001, 1002

// A site is a folder with the machine's root and what must stay out of reach.
type site struct {
	t   testing.TB
	dir string
}

func newSite(t testing.TB) *site {
	s := &site{t: t, dir: scratch(t)}
	s.folder("root", 0)
	s.folder("outside", 0)
	s.file("outside/secret", 0)
	for _, d := range []string{"etc", "data", "opt", "home", "home/bob", "home/alice"} {
		uid := map[string]int{"home/bob": bob, "home/alice": alice}[d]
		s.folder("root/"+d, uid)
		s.file("root/"+d+"/f", uid)
	}
	return s
}

// root is the machine's root.
func (s *site) root() string { return filepath.Join(s.dir, "root") }

// own gives something to a user, where the test may.
func (s *site) own(name string, uid int) {
	s.t.Helper()
	if uid != 0 {
		must(s.t, os.Lchown(filepath.Join(s.dir, name), uid, uid))
	}
}

func (s *site) folder(name string, uid int) {
	s.t.Helper()
	must(s.t, os.Mkdir(filepath.Join(s.dir, name), 0o755))
	if os.Geteuid() == 0 {
		s.own(name, uid)
	}
}

// file makes a file that holds its own name.
func (s *site) file(name string, uid int) {
	s.t.Helper()
	create(s.t, filepath.Join(s.dir, name), name, 0o644)
	if os.Geteuid() == 0 {
		s.own(name, uid)
	}
}

func (s *site) link(text, name string, uid int) {
	s.t.Helper()
	must(s.t, os.Symlink(text, filepath.Join(s.dir, name)))
	s.own(name, uid)
}

// look describes everything there is.
func (s *site) look() map[string]string {
	s.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch info.Mode().Type() {
		case 0:
			content, err := os.ReadFile(path)
			text += fmt.Sprintf(" %q %v", content, err)
		case fs.ModeSymlink:
			to, err := os.Readlink(path)
			text += fmt.Sprintf(" -> %q %v", to, err)
		}
		name, err := filepath.Rel(s.dir, path)
		all[name] = text
		return err
	})
	must(s.t, err)
	return all
}

// A hostile tree, what reading path must give, and where putting it must land.
type hostile struct {
	name  string
	users bool // somebody else owns something
	build func(s *site)
	path  string
	attr  Attr
	read  string // name of the file that is read; or
	no    string // part of the error
	put   string // name of the file that is written, "" for the one that is read; or
	noPut string // part of the error, "" for the same
}

func follow(a Attr) Attr { a.Last = Follow; return a }

func TestHostileTrees(t *testing.T) {
	for _, tt := range append(links(), owners()...) {
		t.Run(tt.name, func(t *testing.T) {
			if tt.users {
				parts.Need(t, "root")
			}
			s := newSite(t)
			if tt.build != nil {
				tt.build(s)
			}
			tree := openTree(t, s.root())
			before := s.look()

			content, err := tree.Read(tt.path, 1000)
			switch {
			case tt.no != "":
				if err == nil || !strings.Contains(err.Error(), tt.no) {
					t.Errorf("Read = %q, %v, want an error with %q", content, err, tt.no)
				}
			case err != nil || string(content) != tt.read:
				t.Errorf("Read = %q, %v, want %q", content, err, tt.read)
			}
			foretold := tree.CanPut(tt.path, []byte("new"), tt.attr)
			if diff := cmp.Diff(before, s.look()); diff != "" {
				t.Errorf("looking changed something:\n%s", diff)
			}

			changed, err := tree.Put(t.Context(), tt.path, strings.NewReader("new"), tt.attr)
			if fmt.Sprint(foretold) != fmt.Sprint(err) {
				t.Errorf("CanPut said %v", foretold)
			}
			lands, refused := tt.put, tt.noPut
			if lands == "" && refused == "" {
				lands, refused = tt.read, tt.no
			}
			if refused != "" {
				if changed || err == nil || !strings.Contains(err.Error(), refused) {
					t.Errorf("Put = %v, %v, want an error with %q", changed, err, refused)
				}
				if diff := cmp.Diff(before, s.look()); diff != "" {
					t.Errorf("a refused Put changed something:\n%s", diff)
				}
				return
			}
			if err != nil || !changed {
				t.Errorf("Put = %v, %v", changed, err)
			}
			after := s.look()
			if !strings.Contains(after[lands], `"new"`) {
				t.Errorf("%s is %s", lands, after[lands])
			}
			delete(before, lands)
			delete(after, lands)
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("Put changed more than %s:\n%s", lands, diff)
			}
		})
	}
}

func links() []hostile {
	long := strings.Repeat("n", 255)
	chain := func(n int) func(s *site) {
		return func(s *site) {
			s.link("f", "root/etc/1", 0)
			for i := 2; i <= n; i++ {
				s.link(fmt.Sprint(i-1), fmt.Sprintf("root/etc/%d", i), 0)
			}
		}
	}
	node := func(kind uint32, dev int) func(s *site) {
		return func(s *site) {
			mknod(s.t, filepath.Join(s.root(), "etc/n"), kind|0o666, dev)
			s.link("n", "root/etc/l", 0)
		}
	}
	return []hostile{
		{name: "plain", path: "/etc/f", read: "root/etc/f"},
		{name: "relative to the root", path: "etc/f", read: "root/etc/f"},
		{name: "slashes and dots", path: "//etc/.//./f", read: "root/etc/f"},
		{name: "up at the root", path: "/../../../etc/f", read: "root/etc/f"},
		{name: "up out of the root", path: "/../outside/secret", no: "no such file"},
		{name: "up and down again", path: "/etc/../data/../../data/f", read: "root/data/f"},
		{name: "up from a file", path: "/etc/f/../f", no: "not a directory"},
		{name: "absolute link in parents", path: "/l/f", read: "root/data/f",
			build: func(s *site) { s.link("/data", "root/l", 0) }},
		{name: "relative link in parents", path: "/etc/l/f", read: "root/data/f",
			build: func(s *site) { s.link("../data", "root/etc/l", 0) }},
		{name: "link above the root", path: "/etc/l/f", read: "root/data/f",
			build: func(s *site) { s.link("../../../../../data", "root/etc/l", 0) }},
		{name: "link to the outside by its real path", path: "/l/secret", no: "which is not there",
			build: func(s *site) { s.link(filepath.Join(s.dir, "outside"), "root/l", 0) }},
		{name: "relative link to the outside", path: "/l/secret", no: "which is not there",
			build: func(s *site) { s.link("../outside", "root/l", 0) }},
		{name: "link to the root", path: "/l/etc/f", read: "root/etc/f",
			build: func(s *site) { s.link("/", "root/l", 0) }},
		{name: "up behind a symlink is up where it leads", path: "/l/../f", read: "root/data/d/f",
			build: func(s *site) {
				s.folder("root/data/d", 0)
				s.folder("root/data/d/e", 0)
				s.file("root/data/d/f", 0)
				s.link("/data/d/e", "root/l", 0)
			}},
		{name: "link that is followed", path: "/etc/l", attr: follow(Attr{}), read: "root/data/f",
			build: func(s *site) { s.link("/data/f", "root/etc/l", 0) }},
		{name: "link that is replaced", path: "/etc/l", read: "root/data/f", put: "root/etc/l",
			build: func(s *site) { s.link("/data/f", "root/etc/l", 0) }},
		{name: "link that is refused", path: "/etc/l", attr: Attr{Last: Refuse}, read: "root/data/f", noPut: "is a symlink",
			build: func(s *site) { s.link("/data/f", "root/etc/l", 0) }},
		{name: "no links in parents", path: "/l/f", attr: Attr{NoLinks: true}, read: "root/data/f", noPut: "/l is a symlink",
			build: func(s *site) { s.link("/data", "root/l", 0) }},
		{name: "no link at the end", path: "/etc/l", attr: Attr{NoLinks: true}, read: "root/data/f", noPut: "/etc/l is a symlink",
			build: func(s *site) { s.link("/data/f", "root/etc/l", 0) }},
		{name: "link to nothing", path: "/etc/l", attr: follow(Attr{}), no: "not exist", put: "root/data/new",
			build: func(s *site) { s.link("/data/new", "root/etc/l", 0) }},
		{name: "link to nothing above the root", path: "/etc/l", attr: follow(Attr{}), no: "not exist", put: "root/new",
			build: func(s *site) { s.link("../../../new", "root/etc/l", 0) }},
		{name: "link into no directory", path: "/etc/l", attr: follow(Attr{Parents: 0o755}), no: "leads to /no, which is not there",
			build: func(s *site) { s.link("/no/new", "root/etc/l", 0) }},
		{name: "link to a device that is missing", path: "/etc/l", attr: follow(Attr{}), no: "not exist", noPut: "a device that is not there",
			build: func(s *site) { s.folder("root/dev", 0); s.link("/dev/null", "root/etc/l", 0) }},
		{name: "link to a directory", path: "/etc/l", attr: follow(Attr{}), no: "leads to /data, which is a directory",
			build: func(s *site) { s.link("/data", "root/etc/l", 0) }},
		{name: "link with a slash at its end", path: "/etc/l", attr: follow(Attr{}), no: "not a directory",
			build: func(s *site) { s.link("/data/f/", "root/etc/l", 0) }},
		{name: "path with a slash at its end", path: "/etc/f/", no: "not a directory"},
		{name: "two links in a ring", path: "/etc/a", attr: follow(Attr{}), no: "more than 40 symlinks",
			build: func(s *site) { s.link("b", "root/etc/a", 0); s.link("a", "root/etc/b", 0) }},
		{name: "link to itself in parents", path: "/l/f", no: "more than 40 symlinks",
			build: func(s *site) { s.link("l", "root/l", 0) }},
		{name: "40 links", path: "/etc/40", attr: follow(Attr{}), read: "root/etc/f", build: chain(40)},
		{name: "41 links", path: "/etc/41", attr: follow(Attr{}), no: "more than 40 symlinks", build: chain(41)},
		{name: "the longest name", path: "/" + long + "/" + long, read: "root/" + long + "/" + long,
			build: func(s *site) { s.folder("root/"+long, 0); s.file("root/"+long+"/"+long, 0) }},
		{name: "a name too long", path: "/" + long + "n/f", no: "file name too long"},
		{name: "the longest link", path: "/l", attr: follow(Attr{}), read: "root/etc/f",
			build: func(s *site) { s.link(strings.Repeat("/", 4088)+"etc/f", "root/l", 0) }},
		{name: "odd names", path: "/etc/-rf \n\\\x01ü/f", read: "root/etc/-rf \n\\\x01ü/f",
			build: func(s *site) { s.folder("root/etc/-rf \n\\\x01ü", 0); s.file("root/etc/-rf \n\\\x01ü/f", 0) }},
		{name: "a directory", path: "/etc", no: "is a directory"},
		{name: "the root", path: "/", no: "is a directory", noPut: "names a directory"},
		{name: "a pipe", path: "/etc/n", no: "is a named pipe", build: node(unix.S_IFIFO, 0)},
		{name: "link to a pipe", path: "/etc/l", attr: follow(Attr{}), no: "which is a named pipe", build: node(unix.S_IFIFO, 0)},
		{name: "a socket", path: "/etc/n", no: "is a socket", build: node(unix.S_IFSOCK, 0)},
		{name: "a pipe in parents", path: "/etc/n/f", no: "not a directory", build: node(unix.S_IFIFO, 0)},
		{name: "a device", users: true, path: "/etc/n", no: "is a device", build: node(unix.S_IFCHR, 0x103)},
		{name: "link to a device", users: true, path: "/etc/l", attr: follow(Attr{}), no: "leads to /etc/n, which is a device", build: node(unix.S_IFCHR, 0x103)},
		{name: "link to a device that is replaced", users: true, path: "/etc/l", no: "which is a device", put: "root/etc/l", build: node(unix.S_IFCHR, 0x103)},
		{name: "a disk", users: true, path: "/etc/n", no: "is a device", build: node(unix.S_IFBLK, 0x7fff)},
	}
}

func TestPut_maskedUnit(t *testing.T) {
	parts.Need(t, "root")
	s := newSite(t)
	s.folder("root/dev", 0)
	null := filepath.Join(s.root(), "dev/null")
	mknod(t, null, unix.S_IFCHR|0o666, 0x103)
	s.link("/dev/null", "root/etc/foo.service", 0)
	tree := openTree(t, s.root())
	changed, err := tree.Put(t.Context(), "/etc/foo.service", strings.NewReader("[Unit]\n"), Attr{Last: Follow})
	if want := "leads to /dev/null, which is a device"; changed || err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Put = %v, %v, want an error with %q", changed, err, want)
	}
	info, err := os.Lstat(null)
	if err != nil || info.Mode()&fs.ModeCharDevice == 0 {
		t.Errorf("/dev/null is now %v, %v", info.Mode(), err)
	}
}

func TestView_missingIsNotExist(t *testing.T) {
	s := newSite(t)
	s.link("/no", "root/l", 0)
	tree := openTree(t, s.root())
	for _, path := range []string{"/no", "/no/f", "/l", "/l/f"} {
		_, err := tree.Read(path, 10)
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Read(%s) = %v, want fs.ErrNotExist", path, err)
		}
		if changed, err := tree.Remove(path + "/x"); changed || err != nil {
			t.Errorf("Remove(%s/x) = %v, %v, want nothing to do", path, changed, err)
		}
	}
}
