package host

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tlspu/keel/test/parts"
)

// inMounts runs the rest of a test in a child that has its mounts to itself, and
// reports whether this is the child.
func inMounts(t *testing.T) bool {
	t.Helper()
	if os.Getenv("KEEL_TEST_MOUNTS") == t.Name() {
		return true
	}
	parts.Need(t, "root", "mounted root", "unshare")
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--propagation", "private", "--",
		os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "KEEL_TEST_MOUNTS="+t.Name())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("in its own mounts: %v\n%s", err, out)
	}
	return false
}

func bind(t *testing.T, from, to string, flags uintptr) {
	t.Helper()
	must(t, unix.Mount(from, to, "", unix.MS_BIND, ""))
	if flags != 0 {
		must(t, unix.Mount("", to, "", unix.MS_BIND|unix.MS_REMOUNT|flags, ""))
	}
	t.Cleanup(func() { must(t, unix.Unmount(to, unix.MNT_DETACH)) })
}

func TestTree_mountPoints(t *testing.T) {
	if !inMounts(t) {
		return
	}
	s := newSite(t)
	root := s.root()
	s.file("root/etc/hosts", 0)
	s.folder("root/mnt", 0)
	s.folder("outside/d", 0)
	s.file("outside/d/f", 0)
	s.link("/etc/hosts", "root/etc/l", 0)
	bind(t, filepath.Join(s.dir, "outside/secret"), filepath.Join(root, "etc/hosts"), 0)
	bind(t, filepath.Join(s.dir, "outside"), filepath.Join(root, "mnt"), 0)
	tree := openTree(t, root)
	put := func(path string, a Attr) string {
		return result(tree.Put(t.Context(), path, strings.NewReader("new"), a))
	}
	one, err1 := tree.Place("/mnt/d/f")
	mounted, err2 := tree.Place("/mnt/")
	out, err3 := OpenView(filepath.Join(s.dir, "outside"))
	must(t, errors.Join(err1, err2, err3))
	two, err1 := out.Place("/d/f")
	folder, err2 := out.Place("/")
	must(t, errors.Join(err1, err2, out.Close()))
	if one != two || mounted != folder {
		t.Errorf("through a mount: Place = %v and %v, want %v and %v", one, mounted, two, folder)
	}
	const point = "is a mount point: unmount "
	for what, got := range map[string][2]string{
		"Put":                {put("/etc/hosts", Attr{}), "write /etc/hosts: " + point + "/etc/hosts"},
		"CanPut":             {fmt.Sprint(tree.CanPut("/etc/hosts", []byte("new"), Attr{})), "write /etc/hosts: " + point + "/etc/hosts"},
		"CanRemove":          {fmt.Sprint(tree.CanRemove("/etc/hosts")), "remove /etc/hosts: " + point},
		"Put equal":          {result(tree.Put(t.Context(), "/etc/hosts", strings.NewReader("outside/secret"), Attr{Mode: mode(0o600)})), "write /etc/hosts: " + point},
		"Put by a symlink":   {put("/etc/l", Attr{Last: Follow}), "write /etc/l: " + point + "/etc/hosts"},
		"Remove":             {result(tree.Remove("/etc/hosts")), "remove /etc/hosts: " + point},
		"Remove a directory": {result(tree.Remove("/mnt")), "remove /mnt: " + point},
		"Symlink":            {result(tree.Symlink("x", "/etc/hosts")), "link /etc/hosts: " + point},
		"Chattr":             {result(tree.Chattr("/etc/hosts", Attr{Mode: mode(0o600)})), "change attributes of /etc/hosts: " + point},
		"Mkdir":              {result(tree.Mkdir("/mnt", 0o700)), "same"},
		"Put below":          {put("/mnt/d/f", Attr{}), "changed"},
		"Put new below":      {put("/mnt/e/f", Attr{Parents: 0o755}), "changed"},
		"Put up below":       {put("/mnt/d/../../data/f", Attr{}), "changed"},
	} {
		if !strings.HasPrefix(got[0], got[1]) {
			t.Errorf("%s: %s, want %s", what, got[0], got[1])
		}
	}
	if got, err := tree.Read("/etc/hosts", 100); err != nil || string(got) != "outside/secret" {
		t.Errorf("Read = %q, %v", got, err)
	}
	if got, err := os.ReadFile(filepath.Join(root, "data/f")); err != nil || string(got) != "new" {
		t.Errorf("up through a mount: %q, %v", got, err)
	}
	// What the rename says where the system does not tell mount points.
	p, err := tree.walk("/etc/hosts", walkOptions{})
	must(t, err)
	defer p.close()
	w := &write{view: &tree.View, place: p, meaning: meaning{uid: -1, gid: -1}}
	if _, err := w.run(t.Context(), tree, strings.NewReader("new")); !IsBusy(err) {
		t.Errorf("renaming over a mount point: %v, want EBUSY", err)
	}
	if l := leftovers(t, root); l != nil {
		t.Errorf("left behind: %v", l)
	}
}

func TestTree_readOnlyAndFull(t *testing.T) {
	if !inMounts(t) {
		return
	}
	s := newSite(t)
	s.folder("root/ro", 0)
	s.folder("root/full", 0)
	bind(t, filepath.Join(s.root(), "etc"), filepath.Join(s.root(), "ro"), unix.MS_RDONLY)
	full := filepath.Join(s.root(), "full")
	must(t, unix.Mount("none", full, "tmpfs", 0, "size=64k,nr_inodes=4"))
	t.Cleanup(func() { must(t, unix.Unmount(full, unix.MNT_DETACH)) })
	create(t, filepath.Join(full, "f"), "root/full/f", 0o644)
	tree := openTree(t, s.root())
	for what, err := range map[string]error{
		"content": tree.CanPut("/ro/f", []byte("new"), Attr{}),
		"mode":    tree.CanPut("/ro/f", []byte("root/etc/f"), Attr{Mode: mode(0o600)}),
		"new":     tree.CanPut("/ro/g", nil, Attr{}),
		"parents": tree.CanPut("/ro/a/f", []byte("new"), Attr{Parents: 0o755}),
		"remove":  tree.CanRemove("/ro/f"),
	} {
		if !IsReadOnly(err) || !strings.Contains(err.Error(), "remount it writable") {
			t.Errorf("%s: foretold %v", what, err)
		}
	}
	if err := tree.CanPut("/ro/f", []byte("root/etc/f"), Attr{}); err != nil {
		t.Errorf("nothing to change: %v", err)
	}
	big := strings.Repeat("x", 1<<20)
	tests := []struct {
		name string
		do   func() (bool, error)
		is   func(error) bool
		hint string
	}{
		{"read-only", func() (bool, error) { return tree.Put(t.Context(), "/ro/f", strings.NewReader("new"), Attr{}) }, IsReadOnly, "remount it writable"},
		{"read-only, mode", func() (bool, error) {
			return tree.Put(t.Context(), "/ro/f", strings.NewReader("root/etc/f"), Attr{Mode: mode(0o600)})
		}, IsReadOnly, "remount it writable"},
		{"read-only, parents", func() (bool, error) {
			return tree.Put(t.Context(), "/ro/a/f", strings.NewReader("new"), Attr{Parents: 0o755})
		}, IsReadOnly, "remount it writable"},
		{"read-only, remove", func() (bool, error) { return tree.Remove("/ro/f") }, IsReadOnly, "remount it writable"},
		{"no blocks", func() (bool, error) { return tree.Put(t.Context(), "/full/f", strings.NewReader(big), Attr{}) }, IsNoSpace, "free some space"},
		{"no blocks for a stream", func() (bool, error) {
			return tree.Put(t.Context(), "/full/f", onlyReader{strings.NewReader(big)}, Attr{})
		}, IsNoSpace, "free some space"},
		{"no inodes", func() (bool, error) {
			return tree.Put(t.Context(), "/full/a/b/c/f", strings.NewReader("new"), Attr{Parents: 0o755})
		}, IsNoSpace, "free some space"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.do()
			if !tt.is(err) || !strings.Contains(err.Error(), tt.hint) {
				t.Errorf("error is %v, want one with %q", err, tt.hint)
			}
			for _, name := range []string{"etc/f", "full/f"} {
				got, err := os.ReadFile(filepath.Join(s.root(), name))
				if err != nil || string(got) != "root/"+name {
					t.Errorf("%s holds %d bytes, %v", name, len(got), err)
				}
			}
			if l := leftovers(t, s.root()); l != nil {
				t.Errorf("left behind: %v", l)
			}
		})
	}
	if _, err := tree.Lock(t.Context(), "test"); err != nil {
		t.Errorf("the rest of the machine is writable: %v", err)
	}
}

// Who has the file mounted, as a container has, keeps what it held: that is said.
func TestPut_fileIsMountedElsewhere(t *testing.T) {
	if !inMounts(t) {
		return
	}
	root := scratch(t)
	create(t, filepath.Join(root, "etc/a b"), "old", 0o644)
	create(t, filepath.Join(root, "etc/g"), "", 0o644)
	create(t, filepath.Join(root, "etc/free"), "old", 0o644)
	file, to := filepath.Join(root, "etc/a b"), filepath.Join(root, "etc/g")
	container := exec.CommandContext(t.Context(), "unshare", "--mount", "--propagation", "private", "sh", "-c",
		`mount --bind "$1" "$2" && echo mounted && read line`, "sh", file, to)
	in, err := container.StdinPipe()
	must(t, err)
	out, err := container.StdoutPipe()
	must(t, err)
	must(t, container.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the container says %q, %v", line, err)
	}
	tree := openTree(t, root)
	put := func(path, content string) string {
		var notes []string
		tree := tree.Noting(func(s string) { notes = append(notes, s) })
		if _, err := tree.Put(t.Context(), path, strings.NewReader(content), Attr{}); err != nil {
			t.Error(err)
		}
		return strings.Join(notes, "; ")
	}
	want := fmt.Sprintf("/etc/a b: 1 mount(s) of it, such as %s of process %d, still show the previous content: restart what uses them", to, container.Process.Pid)
	if got := put("/etc/a b", "new"); got != want {
		t.Errorf("said %q, want %q", got, want)
	}
	if got := put("/etc/free", "new"); got != "" {
		t.Errorf("a file without mounts: said %q", got)
	}
	must(t, in.Close())
	_ = container.Wait() // its input ended
	if got := put("/etc/a b", "newer"); got != "" {
		t.Errorf("after the container ended: said %q", got)
	}
}

func TestTree_immutable(t *testing.T) {
	parts.Need(t, "root", "chattr")
	for _, tt := range []struct{ name, flag, path, hint string }{
		{"file", "i", "f", "is immutable (chattr -i to change it)"},
		{"file to append to", "a", "f", "is append-only (chattr -a to change it)"},
		{"directory", "i", ".", "its directory is immutable (chattr -i to change it)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir() // on a disk
			create(t, filepath.Join(root, "f"), "old", 0o644)
			tree := openTree(t, root)
			acls(t, "chattr", "+"+tt.flag, filepath.Join(root, tt.path))
			defer acls(t, "chattr", "-"+tt.flag, filepath.Join(root, tt.path))
			for what, err := range map[string]error{
				"Put":       second(tree.Put(t.Context(), "/f", strings.NewReader("new"), Attr{})),
				"CanPut":    tree.CanPut("/f", []byte("new"), Attr{}),
				"Remove":    second(tree.Remove("/f")),
				"CanRemove": tree.CanRemove("/f"),
				"Symlink":   second(tree.Symlink("x", "/f")),
			} {
				if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), tt.hint) {
					t.Errorf("%s: %v, want %q", what, err, tt.hint)
				}
			}
			if tt.path == "f" {
				_, err := tree.Put(t.Context(), "/f", strings.NewReader("old"), Attr{Mode: mode(0o600)})
				if foretold := tree.CanPut("/f", []byte("old"), Attr{Mode: mode(0o600)}); fmt.Sprint(foretold) != fmt.Sprint(err) {
					t.Errorf("CanPut of a mode: %v", foretold)
				}
				if err == nil || !strings.Contains(err.Error(), tt.hint) {
					t.Errorf("Put of a mode: %v, want %q", err, tt.hint)
				}
			}
			if got, err := os.ReadFile(filepath.Join(root, "f")); err != nil || string(got) != "old" {
				t.Errorf("the old file holds %q, %v", got, err)
			}
			if l := leftovers(t, root); l != nil {
				t.Errorf("left behind: %v", l)
			}
		})
	}
}

func second(_ bool, err error) error { return err }

func TestView_proc(t *testing.T) {
	v := openTree(t, "/")
	for _, path := range []string{"/proc/self/status", "/proc/mounts", "/proc/sys/kernel/osrelease", "/proc/sys/kernel/ostype", "/sys/class/net/lo/mtu", "/sys/kernel/profiling"} {
		want, err := os.ReadFile(path)
		if err != nil {
			continue // not on this kernel
		}
		got, err := v.Read(path, 1<<20)
		if err != nil || len(got) == 0 || path != "/proc/self/status" && string(got) != string(want) {
			t.Errorf("Read(%s) = %q, %v, want %q", path, got, err, want)
		}
		if _, err := v.Read(path, int64(len(want)-1)); path != "/proc/self/status" && err == nil {
			t.Errorf("Read(%s) takes more than it may", path)
		}
	}
	for _, path := range []string{
		"/proc/self/root/etc/passwd", "/proc/self/cwd/walk.go", "/proc/self/exe", "/proc/self/fd/0", "/proc/self/ns/mnt",
		"/proc/thread-self/root/etc/passwd", "/proc/1/root/etc/passwd", "/proc/self/task/1/../../root/etc/passwd",
	} {
		if got, err := v.Read(path, 1<<20); err == nil || !strings.Contains(err.Error(), "magic link") && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			t.Errorf("Read(%s) = %d bytes, %v", path, len(got), err)
		}
	}
	if got, err := v.Read("/proc/self/root/etc/passwd", 1<<20); err == nil || !strings.Contains(err.Error(), "/root is a magic link of proc") {
		t.Errorf("Read = %d bytes, %v", len(got), err)
	}
	if _, err := v.Readlink("/proc/self/exe"); err != nil {
		t.Errorf("what a magic link says may be read: %v", err)
	}
}

func TestView_procBehindALink(t *testing.T) {
	root := scratch(t)
	// A root that is itself on proc, and a link to a file of proc from elsewhere.
	must(t, os.Symlink("/proc/self/root/etc", filepath.Join(root, "l")))
	v := openTree(t, root)
	if got, err := v.Read("/l/passwd", 1<<20); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Read = %d bytes, %v", len(got), err)
	}
	self := openTree(t, "/proc/self")
	if got, err := self.Read("/root/etc/passwd", 1<<20); err == nil || !strings.Contains(err.Error(), "magic link") {
		t.Errorf("Read = %d bytes, %v", len(got), err)
	}
}

func TestTree_kernelFiles(t *testing.T) {
	tree := openTree(t, "/")
	for path, want := range map[string]string{
		"/proc/sys/kernel/domainname": "is on proc", "/proc/self/comm": "is on proc", "/sys/kernel/profiling": "is on sysfs",
		"/proc/new": "is on proc", "/sys/fs/cgroup/unified/cgroup.procs": "is on cgroup", "/sys/fs/cgroup/cgroup.procs": "is on cgroup", "/dev/pts/ptmx": "is on devpts",
	} {
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			continue // not on this kernel
		}
		if strings.HasPrefix(path, "/sys/fs") {
			if _, err := os.Stat(path); err != nil {
				continue
			}
		}
		for what, err := range map[string]error{
			"Put":       second(tree.Put(t.Context(), path, strings.NewReader("x"), Attr{})),
			"CanPut":    tree.CanPut(path, []byte("x"), Attr{}),
			"Remove":    second(tree.Remove(path)),
			"CanRemove": tree.CanRemove(path),
			"Symlink":   second(tree.Symlink("x", path)),
			"Chattr":    second(tree.Chattr(path, Attr{Mode: mode(0o600)})),
		} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s(%s) = %v, want %q", what, path, err, want)
			}
		}
	}
	if _, err := tree.Mkdir("/proc/a/b", 0o755); err == nil || !strings.Contains(err.Error(), "it is on proc") {
		t.Errorf("Mkdir = %v", err)
	}
}

func TestView_replacedByAMount(t *testing.T) {
	if !inMounts(t) {
		return
	}
	root := t.TempDir()
	v, err := OpenView(root)
	must(t, err)
	t.Cleanup(func() { must(t, v.Close()) })
	if got, err := v.Replaced(); got || err != nil {
		t.Errorf("before: Replaced = %v, %v", got, err)
	}
	bind(t, root, root, 0) // the same folder, and yet not what is mounted below it
	if got, err := v.Replaced(); !got || err != nil {
		t.Errorf("bound to itself: Replaced = %v, %v", got, err)
	}
	must(t, unix.Mount("none", root, "tmpfs", 0, ""))
	if got, err := v.Replaced(); !got || err != nil {
		t.Errorf("tmpfs over it: Replaced = %v, %v", got, err)
	}
	must(t, unix.Unmount(root, 0))
}
