package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tlspu/keel/test/parts"
)

// result describes one call for a table.
func result(changed bool, err error) string {
	switch {
	case err != nil && changed:
		return "changed and " + err.Error()
	case err != nil:
		return err.Error()
	case changed:
		return "changed"
	}
	return "same"
}

func TestTree_Remove(t *testing.T) {
	tests := []struct {
		name  string
		build func(s *site)
		path  string
		want  string
		gone  string
	}{
		{"a file", nil, "/etc/f", "changed", "root/etc/f"},
		{"nothing", nil, "/etc/no", "same", ""},
		{"nothing in no directory", nil, "/no/no", "same", ""},
		{"nothing below a file", nil, "/etc/f/no", "same", ""},
		{"a symlink and not what it leads to", func(s *site) { s.link("/data/f", "root/etc/l", 0) }, "/etc/l", "changed", "root/etc/l"},
		{"through a symlink", func(s *site) { s.link("/data", "root/l", 0) }, "/l/f", "changed", "root/data/f"},
		{"an empty directory", func(s *site) { s.folder("root/etc/d", 0) }, "/etc/d", "changed", "root/etc/d"},
		{"a directory that holds something", nil, "/etc", "remove /etc: is a directory that still holds something", ""},
		{"the root", nil, "/", "remove /: names a directory by its end, not by its name", ""},
		{"a pipe", func(s *site) { must(s.t, unix.Mkfifo(filepath.Join(s.root(), "etc/p"), 0o600)) }, "/etc/p", "changed", "root/etc/p"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			if tt.build != nil {
				tt.build(s)
			}
			want := s.look()
			tree := openTree(t, s.root())
			if got := result(tree.Remove(tt.path)); got != tt.want {
				t.Errorf("Remove = %s, want %s", got, tt.want)
			}
			delete(want, tt.gone)
			if diff := cmp.Diff(want, s.look()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if tt.gone != "" {
				if got := result(tree.Remove(tt.path)); got != "same" {
					t.Errorf("second Remove = %s", got)
				}
			}
		})
	}
}

func TestTree_Remove_device(t *testing.T) {
	parts.Need(t, "root")
	s := newSite(t)
	mknod(t, filepath.Join(s.root(), "etc/null"), unix.S_IFCHR|0o666, 0x103)
	if got := result(openTree(t, s.root()).Remove("/etc/null")); got != "remove /etc/null: is a device" {
		t.Errorf("Remove = %s", got)
	}
}

func TestTree_Mkdir(t *testing.T) {
	tests := []struct {
		name, path string
		mode       fs.FileMode
		want       string
		made       []string
	}{
		{"new", "/etc/d", 0o750, "changed", []string{"root/etc/d"}},
		{"with those above", "/a/b/c", 0o700, "changed", []string{"root/a", "root/a/b", "root/a/b/c"}},
		{"with a slash", "/a/", 0o755, "changed", []string{"root/a"}},
		{"there already, whatever its mode", "/etc", 0o700, "same", nil},
		{"the root", "/", 0o700, "same", nil},
		{"a file", "/etc/f", 0o700, "make directory /etc/f: /etc/f is a regular file, not a directory: not a directory", nil},
		{"special bits", "/d", 0o1777, "make directory /d: mode 01777 has more than permission bits", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			want := s.look()
			tree := openTree(t, s.root())
			if got := result(tree.Mkdir(tt.path, tt.mode)); got != tt.want {
				t.Errorf("Mkdir = %s, want %s", got, tt.want)
			}
			for _, name := range tt.made {
				want[name] = (fs.ModeDir | tt.mode).String()
			}
			if diff := cmp.Diff(want, s.look()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTree_Symlink(t *testing.T) {
	tests := []struct {
		name  string
		build func(s *site)
		text  string
		path  string
		want  string
	}{
		{"new", nil, "/data/f", "/etc/l", "changed"},
		{"there already", func(s *site) { s.link("/data/f", "root/etc/l", 0) }, "/data/f", "/etc/l", "same"},
		{"another text", func(s *site) { s.link("/data", "root/etc/l", 0) }, "/data/f", "/etc/l", "changed"},
		{"in the place of a file", nil, "/data/f", "/etc/f", "changed"},
		{"in the place of a directory", nil, "/data/f", "/etc", "link /etc: is a directory, not a symlink or a regular file"},
		{"in no directory", nil, "/data/f", "/no/l", "link /no/l: no such file or directory"},
		{"without a text", nil, "", "/etc/l", "link /etc/l: no such file or directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			if tt.build != nil {
				tt.build(s)
			}
			want := s.look()
			tree := openTree(t, s.root())
			if got := result(tree.Symlink(tt.text, tt.path)); got != tt.want {
				t.Errorf("Symlink = %s, want %s", got, tt.want)
			}
			if tt.want == "changed" {
				want["root"+tt.path] = `Lrwxrwxrwx -> "` + tt.text + `" <nil>`
				if got, err := tree.Readlink(tt.path); err != nil || got != tt.text {
					t.Errorf("Readlink = %q, %v", got, err)
				}
			}
			if diff := cmp.Diff(want, s.look()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTree_Chattr(t *testing.T) {
	tests := []struct {
		name  string
		build func(s *site)
		path  string
		attr  Attr
		want  string
		which string
		mode  string
	}{
		{"a file", nil, "/etc/f", Attr{Mode: mode(0o600)}, "changed", "root/etc/f", `-rw------- "root/etc/f" <nil>`},
		{"a file that has it", nil, "/etc/f", Attr{Mode: mode(0o644)}, "same", "", ""},
		{"nothing named", nil, "/etc/f", Attr{}, "same", "", ""},
		{"a directory", nil, "/etc", Attr{Mode: mode(0o700)}, "changed", "root/etc", "drwx------"},
		{"a sticky directory stays sticky", func(s *site) { must(s.t, os.Chmod(filepath.Join(s.root(), "etc"), fs.ModeSticky|0o777)) },
			"/etc", Attr{Mode: mode(0o755)}, "changed", "root/etc", "dtrwxr-xr-x"},
		{"a symlink", func(s *site) { s.link("/data/f", "root/etc/l", 0) }, "/etc/l", Attr{Mode: mode(0o600)},
			"change attributes of /etc/l: is a symlink, not a regular file", "", ""},
		{"behind a symlink", func(s *site) { s.link("/data/f", "root/etc/l", 0) }, "/etc/l", Attr{Mode: mode(0o600), Last: Follow},
			"changed", "root/data/f", `-rw------- "root/data/f" <nil>`},
		{"several names", func(s *site) { must(s.t, os.Link(filepath.Join(s.root(), "etc/f"), filepath.Join(s.root(), "data/g"))) },
			"/etc/f", Attr{Mode: mode(0o600)}, "change attributes of /etc/f: has 2 hard links, which would all change", "", ""},
		{"nothing", nil, "/no", Attr{Mode: mode(0o600)}, "change attributes of /no: file does not exist", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			if tt.build != nil {
				tt.build(s)
			}
			want := s.look()
			if got := result(openTree(t, s.root()).Chattr(tt.path, tt.attr)); got != tt.want {
				t.Errorf("Chattr = %s, want %s", got, tt.want)
			}
			if tt.which != "" {
				want[tt.which] = tt.mode
			}
			if diff := cmp.Diff(want, s.look()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestView_asks(t *testing.T) {
	s := newSite(t)
	s.link("../data/f", "root/etc/l", 0)
	s.link("/data", "root/d", 0)
	v, err := OpenView(s.root())
	must(t, err)
	defer func() { must(t, v.Close()) }()

	info, err := v.Stat("/etc/l")
	if err != nil || info.Name() != "l" || info.Mode() != 0o644 || info.Size() != 11 || info.UID != os.Geteuid() || info.Links != 1 {
		t.Errorf("Stat = %+v, %v", info, err)
	}
	if info, err := v.Lstat("/etc/l"); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("Lstat = %+v, %v", info, err)
	}
	if _, err := v.Stat("/no"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Stat = %v", err)
	}
	if info, err := v.Stat("/"); err != nil || !info.IsDir() || info.Name() != "/" {
		t.Errorf("Stat = %+v, %v", info, err)
	}
	names, err := v.List("/etc")
	if diff := cmp.Diff([]string{"f", "l"}, names); err != nil || diff != "" {
		t.Errorf("List: %v %s", err, diff)
	}
	if names, err := v.List("/etc/f"); err == nil || !strings.Contains(err.Error(), "is a regular file, not a directory") {
		t.Errorf("List = %v, %v", names, err)
	}
	if text, err := v.Readlink("/etc/l"); err != nil || text != "../data/f" {
		t.Errorf("Readlink = %q, %v", text, err)
	}
	if text, err := v.Readlink("/etc/f"); err == nil {
		t.Errorf("Readlink of a file = %q", text)
	}
	for path, want := range map[string]string{
		"/etc/l": "/data/f", "/d/f": "/data/f", "/d/new": "/data/new", "/etc/../d": "/data", "/": "/", "..": "/", "/d/": "/data",
	} {
		if got, err := v.Resolve(path); err != nil || got != want {
			t.Errorf("Resolve(%s) = %s, %v, want %s", path, got, err, want)
		}
	}
	if got, err := v.Resolve("/no/new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Resolve = %s, %v", got, err)
	}
	for _, same := range [][2]string{{"/etc/l", "/data/f"}, {"/d/new", "/data/new"}, {"/d/", "/data/"}, {"/", ".."}} {
		one, err1 := v.Place(same[0])
		two, err2 := v.Place(same[1])
		if one != two || err1 != nil || err2 != nil {
			t.Errorf("Place(%s) = %v, %v and Place(%s) = %v, %v", same[0], one, err1, same[1], two, err2)
		}
	}
	for _, other := range [][2]string{{"/etc/f", "/data/f"}, {"/etc/f", "/etc/g"}, {"/etc/", "/data/"}} {
		one, _ := v.Place(other[0])
		if two, _ := v.Place(other[1]); one == two {
			t.Errorf("Place(%s) = Place(%s) = %v", other[0], other[1], one)
		}
	}
	if _, err := v.Place("/no/new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Place = %v", err)
	}
	if _, err := OpenView(filepath.Join(s.root(), "etc/f")); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("OpenView of a file = %v", err)
	}
}

func TestView_replaced(t *testing.T) {
	dir := t.TempDir()
	root, link := filepath.Join(dir, "root"), filepath.Join(dir, "link")
	must(t, errors.Join(os.Mkdir(root, 0o755), os.Symlink("root", link)))
	v, err := OpenView(link)
	must(t, err)
	t.Cleanup(func() { must(t, v.Close()) })
	check := func(what string, want bool) {
		t.Helper()
		if got, err := v.Replaced(); got != want || err != nil {
			t.Errorf("%s: Replaced = %v, %v, want %v", what, got, err, want)
		}
	}
	must(t, os.Mkdir(filepath.Join(root, "etc"), 0o755))
	check("a change inside", false)
	must(t, os.Rename(root, root+".old"))
	if got, err := v.Replaced(); got || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing there: Replaced = %v, %v", got, err)
	}
	must(t, os.Mkdir(root, 0o755))
	check("another directory", true)
	must(t, errors.Join(os.Remove(link), os.Symlink("root.old", link)))
	check("the first one again", false)
}

func TestView_readLimit(t *testing.T) {
	s := newSite(t)
	create(t, filepath.Join(s.root(), "ten"), "0123456789", 0o644)
	create(t, filepath.Join(s.root(), "none"), "", 0o644)
	v := openTree(t, s.root())
	for _, tt := range []struct {
		path string
		max  int64
		ok   bool
	}{{"/ten", 10, true}, {"/ten", 11, true}, {"/ten", 9, false}, {"/ten", 0, false}, {"/none", 0, true}} {
		got, err := v.Read(tt.path, tt.max)
		if (err == nil) != tt.ok || tt.ok && int64(len(got)) > tt.max {
			t.Errorf("Read(%s, %d) = %q, %v", tt.path, tt.max, got, err)
		}
	}
}

func TestErrors_kinds(t *testing.T) {
	tests := []struct {
		err                     error
		noSpace, readOnly, busy bool
	}{
		{unix.ENOSPC, true, false, false},
		{unix.EDQUOT, true, false, false},
		{unix.EROFS, false, true, false},
		{unix.EBUSY, false, false, true},
		{unix.ETXTBSY, false, false, true},
		{unix.EACCES, false, false, false},
		{nil, false, false, false},
	}
	for _, tt := range tests {
		err := failed("write", "/f", tt.err)
		if IsNoSpace(err) != tt.noSpace || IsReadOnly(err) != tt.readOnly || IsBusy(err) != tt.busy || !errors.Is(err, tt.err) {
			t.Errorf("%v is taken for something else", err)
		}
	}
}
