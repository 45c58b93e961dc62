package file

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/host"
	"github.com/tlspu/keel/test/contract"
	"github.com/tlspu/keel/test/parts"
)

// nobodyUID is a user that owns nothing in these tests.
const nobodyUID = 65534

// mount mounts something on a folder or file until the test ends.
func mount(t *testing.T, source, target, kind string, flags uintptr, data string) {
	t.Helper()
	check(t, unix.Mount(source, target, kind, flags, data))
	t.Cleanup(func() {
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", target, err)
		}
	})
}

func run(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
	return string(out)
}

// A unit masked by a link to /dev/null, managed through the link: the device
// must not become a file.
func TestEnsure_maskedUnit(t *testing.T) {
	parts.Need(t, "root")
	root := rooted(t, entry{path: "dev/"}, entry{path: "etc/systemd/system/foo.service", link: "/dev/null"})
	null := root + "/dev/null"
	check(t, unix.Mknod(null, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	params := map[string]string{"path": "/etc/systemd/system/foo.service", "content": "[Service]\n"}

	refused(t, root, params, "/etc/systemd/system/foo.service", "/dev/null", "a device")
	r := observe(t, call(t, root, params))
	if len(r) != 1 || r[0].Verdict != drift.Drift || r[0].Observed != "a symlink to /dev/null, a device" || !strings.Contains(r[0].Note, "link: replace") {
		t.Errorf("observed %+v", r)
	}

	// To unmask it is said, and leaves the device alone too.
	params["link"] = "replace"
	ensure(t, root, params, true)
	holds(t, root+params["path"], "[Service]\n", "0644")
	var st unix.Stat_t
	check(t, unix.Stat(null, &st))
	if st.Mode&unix.S_IFMT != unix.S_IFCHR {
		t.Errorf("/dev/null is no device any more: %o", st.Mode)
	}
}

func TestEnsure_specialFiles(t *testing.T) {
	parts.Need(t, "root")
	for name, mode := range map[string]uint32{
		"a named pipe": unix.S_IFIFO, "a socket": unix.S_IFSOCK, "a device": unix.S_IFCHR,
	} {
		t.Run(name, func(t *testing.T) {
			root := rooted(t)
			check(t, unix.Mknod(root+"/f", mode|0o600, int(unix.Mkdev(1, 3))))
			for _, params := range []map[string]string{
				{"path": "/f", "content": "x"},
				{"path": "/f", "content": "x", "link": "replace"},
				{"path": "/f", "ensure": "absent"},
			} {
				refused(t, root, params, "/f", name)
				if r := observe(t, call(t, root, params)); len(r) != 1 || r[0].Observed != name {
					t.Errorf("observed %+v, want %s", r, name)
				}
			}
		})
	}
}

// A file on which another is mounted, as container engines do with /etc/hosts.
func TestEnsure_mountPoint(t *testing.T) {
	parts.Need(t, "root")
	root := rooted(t, entry{path: "etc/hosts", content: "old"}, entry{path: "run/hosts", content: "mounted"})
	mount(t, root+"/run/hosts", root+"/etc/hosts", "", unix.MS_BIND, "")
	for _, params := range []map[string]string{
		{"path": "/etc/hosts", "content": "new"},
		{"path": "/etc/hosts", "content": "new", "link": "replace"},
		{"path": "/etc/hosts", "content": "new", "link": "refuse"},
		{"path": "/etc/hosts", "ensure": "absent"},
	} {
		refused(t, root, params, "/etc/hosts", "mount point")
	}
	holds(t, root+"/run/hosts", "mounted", "0644")
}

func TestEnsure_fullDisk(t *testing.T) {
	parts.Need(t, "root")
	root := t.TempDir()
	mount(t, "tmpfs", root, "tmpfs", 0, "size=64k")
	build(t, root, entry{path: "f", content: "old", mode: 0o600})
	params := map[string]string{"path": "/f", "content": strings.Repeat("x", 1<<20)}

	before := contract.Snapshot(t, root)
	changed, err := New().Ensure(t.Context(), call(t, root, params))
	if changed || !host.IsNoSpace(err) || !strings.Contains(err.Error(), "write /f") {
		t.Errorf("got %v, %v, want an error about /f and space", changed, err)
	}
	// The folder's time moves when a temporary file comes and goes.
	if paths := before.Changed(contract.Snapshot(t, root)); len(paths) > 1 || len(paths) == 1 && paths[0] != "/" {
		t.Errorf("left behind or changed: %q", paths)
	}
	holds(t, root+"/f", "old", "0600")

	params["content"] = "fits"
	ensure(t, root, params, true)
}

func TestEnsure_readOnly(t *testing.T) {
	parts.Need(t, "root")
	root := rooted(t, entry{path: "etc/f", content: "old"})
	mount(t, root+"/etc", root+"/etc", "", unix.MS_BIND, "")
	check(t, unix.Mount("", root+"/etc", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	for _, params := range []map[string]string{
		{"path": "/etc/f", "content": "new"},
		{"path": "/etc/f", "content": "old", "mode": "0600"},
		{"path": "/etc/new/f", "content": "new"},
		{"path": "/etc/f", "ensure": "absent"},
	} {
		foretold(t, root, params, params["path"], "read-only file system: remount it writable")
		before := contract.Snapshot(t, root)
		changed, err := New().Ensure(t.Context(), call(t, root, params))
		if changed || !host.IsReadOnly(err) || !strings.Contains(err.Error(), params["path"]) {
			t.Errorf("%v: got %v, %v, want an error about a read-only file system", params, changed, err)
		}
		before.Unchanged(t, root, "a refused Ensure")
	}
	ensure(t, root, map[string]string{"path": "/etc/f", "content": "old"}, false)
	ensure(t, root, map[string]string{"path": "/etc/g", "ensure": "absent"}, false)
}

// A symlink into a read-only /usr: the error says where it leads, and what to write.
func TestEnsure_symlinkIntoReadOnly(t *testing.T) {
	parts.Need(t, "root")
	root := rooted(t, entry{path: "usr/f", content: "old"}, entry{path: "etc/l", link: "/usr/f"}, entry{path: "etc/d", link: "../usr"})
	mount(t, root+"/usr", root+"/usr", "", unix.MS_BIND, "")
	check(t, unix.Mount("", root+"/usr", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	const remount = ": read-only file system: remount it writable, then run again"
	for path, want := range map[string]string{
		"/etc/l":     "write /etc/l: the symlink /etc/l leads to /usr/f" + remount + ", or write link: replace to put a file in the symlink's place",
		"/etc/d/f":   "write /etc/d/f: the symlink /etc/d leads to /usr/f" + remount,
		"/etc/d/n":   "write /etc/d/n: the symlink /etc/d leads to /usr/n" + remount,
		"/etc/d/n/f": "write /etc/d/n/f: make directory /usr/n: the symlink /etc/d leads to /usr/n" + remount,
		"/usr/f":     "write /usr/f" + remount,
	} {
		params := map[string]string{"path": path, "content": "new"}
		foretold(t, root, params, want)
		if changed, err := New().Ensure(t.Context(), call(t, root, params)); changed || err == nil || err.Error() != want {
			t.Errorf("got %v, %v, want %s", changed, err, want)
		}
	}
	ensure(t, root, map[string]string{"path": "/etc/l", "content": "new", "link": "replace"}, true)
	holds(t, root+"/etc/l", "new", "0644")
}

func TestEnsure_immutable(t *testing.T) {
	parts.Need(t, "root", "chattr")
	root := rooted(t, entry{path: "etc/f", content: "old"}, entry{path: "etc/g", content: "old"})
	immutable := func(path string) {
		run(t, "chattr", "+i", path)
		t.Cleanup(func() { run(t, "chattr", "-i", path) })
	}
	immutable(root + "/etc/f")
	for _, params := range []map[string]string{
		{"path": "/etc/f", "content": "new"},
		{"path": "/etc/f", "content": "old", "mode": "0600"},
		{"path": "/etc/f", "ensure": "absent"},
	} {
		foretold(t, root, params, "/etc/f", "is immutable (chattr -i to change it)")
		before := contract.Snapshot(t, root)
		changed, err := New().Ensure(t.Context(), call(t, root, params))
		if changed || !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), "immutable") {
			t.Errorf("%v: got %v, %v, want an error that says it is immutable", params, changed, err)
		}
		if paths := before.Changed(contract.Snapshot(t, root)); len(paths) > 1 || len(paths) == 1 && paths[0] != "/etc" {
			t.Errorf("%v: left behind or changed: %q", params, paths)
		}
	}
	immutable(root + "/etc")
	for _, params := range []map[string]string{
		{"path": "/etc/g", "content": "new"},
		{"path": "/etc/h", "content": "new"},
		{"path": "/etc/new/f", "content": "new"},
		{"path": "/etc/g", "ensure": "absent"},
	} {
		foretold(t, root, params, params["path"], "its directory is immutable (chattr -i to change it)")
		refused(t, root, params, params["path"], "directory is immutable")
	}
	ensure(t, root, map[string]string{"path": "/etc/g", "content": "old", "mode": "0600"}, true) // in place
}

func TestEnsure_appendOnly(t *testing.T) {
	parts.Need(t, "root", "chattr")
	root := rooted(t, entry{path: "etc/f", content: "old"}, entry{path: "log/f", content: "old"})
	for _, path := range []string{root + "/etc/f", root + "/log"} {
		run(t, "chattr", "+a", path)
		t.Cleanup(func() { run(t, "chattr", "-a", path) })
	}
	for path, want := range map[string]string{"/etc/f": "is append-only", "/log/f": "its directory is append-only", "/log/new": "its directory is append-only"} {
		foretold(t, root, map[string]string{"path": path, "content": "new"}, path, want)
		if changed, err := New().Ensure(t.Context(), call(t, root, map[string]string{"path": path, "content": "new"})); changed || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v, want %q", path, changed, err, want)
		}
	}
	if entries, err := os.ReadDir(root + "/log"); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// Files of the kernel are switches, and no place for files of a machine.
func TestEnsure_kernelFiles(t *testing.T) {
	for _, path := range []string{"/proc/version", "/proc/new", "/proc/new/f"} {
		err := dryRun(t, "/", map[string]string{"path": path, "content": "x"})
		if err == nil || !strings.Contains(err.Error(), "write "+path) || !strings.Contains(err.Error(), "is on proc") {
			t.Errorf("%s: got %v", path, err)
		}
	}
}

// reachable lets every user enter the test's folders.
func reachable(t *testing.T, root string) {
	t.Helper()
	for dir := root; dir != filepath.Clean(os.TempDir()) && dir != "/"; dir = filepath.Dir(dir) {
		check(t, os.Chmod(dir, 0o755))
	}
}

// as runs f with the file access of another user. The thread ends with it.
func as(t *testing.T, uid int, f func()) {
	t.Helper()
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread is not one to come back to
		_, err = unix.SetfsgidRetGid(uid)
		if err == nil {
			_, err = unix.SetfsuidRetUid(uid)
		}
		if err == nil {
			f()
		}
	}()
	<-done
	check(t, err)
}

// A secret is never readable by others: not the file, not a temporary one, not
// for an instant.
func TestEnsure_secretIsNeverReadable(t *testing.T) {
	parts.Need(t, "root")
	root := rooted(t, entry{path: "etc/"})
	reachable(t, root)
	stop, read, looks := make(chan struct{}), make(chan string, 1), 0
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		as(t, nobodyUID, func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				looks++
				names, err := filepath.Glob(root + "/etc/*") // with temporary ones
				if err != nil {
					t.Error(err)
				}
				for _, path := range append(names, root+"/etc/secret") {
					fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
					if err != nil {
						continue
					}
					_ = unix.Close(fd)
					select {
					case read <- path:
					default:
					}
				}
			}
		})
	}()
	for _, params := range []map[string]string{
		{"path": "/etc/secret", "content": "s", "mode": "0600"},
		{"path": "/etc/secret", "content": "another", "mode": "0600", "owner": "1"},
		{"path": "/etc/secret", "ensure": "absent"},
	} {
		for range 50 {
			_, err := New().Ensure(t.Context(), call(t, root, params))
			check(t, err)
			_, err = New().Ensure(t.Context(), call(t, root, map[string]string{"path": "/etc/secret", "content": params["content"] + "!", "mode": "0600"}))
			check(t, err)
		}
	}
	close(stop)
	<-polled
	select {
	case path := <-read:
		t.Errorf("nobody could open %s", path)
	default:
	}
	if looks < 10 {
		t.Errorf("nobody looked only %d times", looks)
	}
}

// A user's link leads only to what is his; it is replaced like any other.
func TestEnsure_linkOfAUser(t *testing.T) {
	parts.Need(t, "root")
	root := rooted(t, entry{path: "etc/shadow", content: "x"}, entry{path: "etc/motd", link: "shadow"})
	check(t, os.Lchown(root+"/etc/motd", nobodyUID, nobodyUID))
	refused(t, root, with(), "/etc/motd", "a symlink that user 65534 made")
	if r := observe(t, call(t, root, with())); len(r) != 1 || r[0].Verdict != drift.NotRead {
		t.Errorf("observed through it: %+v", r)
	}
	ensure(t, root, with("link", "replace"), true)
	holds(t, root+"/etc/motd", "hello\n", "0644")
	holds(t, root+"/etc/shadow", "x", "0644")
}

// Set-user-id is refused even beside an owner, so that no order of chown and
// chmod matters; nothing is touched.
func TestEnsure_mode4750WithOwner(t *testing.T) {
	root := rooted(t, entry{path: "f", content: "old"})
	refused(t, root, map[string]string{"path": "/f", "content": "new", "mode": "4750", "owner": "1", "group": "1"}, `mode: "4750"`, `"0750"`)
}

// Without the right to read there is no answer: neither same nor drift. Without
// the right to give a file away, the error names what could not be given.
func TestOtherUser_isToldWhatHeMayNot(t *testing.T) {
	parts.Need(t, "root")
	root := rooted(t, entry{path: "etc/motd", content: "hello\n", mode: 0o600}, entry{path: "closed/f", content: "x"}, entry{path: "closed/", mode: 0o700})
	reachable(t, root)
	as(t, nobodyUID, func() {
		for _, params := range []map[string]string{with(), with("path", "/closed/f"), with("path", "/closed/f", "-content", "ensure", "absent")} {
			r := observe(t, call(t, root, params))
			if len(r) != 1 || r[0].Verdict != drift.NotRead || !strings.Contains(r[0].Reason, "permission denied") {
				t.Errorf("%v: got %+v", params, r)
			}
			before := params["path"]
			if changed, err := New().Ensure(t.Context(), call(t, root, params)); changed || !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), before) {
				t.Errorf("%v: got %v, %v, want an error about permission", params, changed, err)
			}
		}
	})
	as(t, nobodyUID, func() {
		declared, observed, err := New().Observe(t.Context(), call(t, root, with("mode", "0600")).Look)
		check(t, err)
		r := drift.Compare(declared, observed)
		if r[0].Verdict != drift.NotRead || r[1].Verdict != drift.Same {
			t.Errorf("got %+v, want only the content unknown", r)
		}
		if u, ok := observed[0].Value.(drift.Unknown); !ok || u.Kind != drift.Permission {
			t.Errorf("got %+v, want an unknown for lack of permission", observed[0])
		}
	})
	check(t, os.Mkdir(root+"/mine", 0o755))
	check(t, os.Chown(root+"/mine", nobodyUID, nobodyUID))
	as(t, nobodyUID, func() {
		changed, err := New().Ensure(t.Context(), call(t, root, map[string]string{"path": "/mine/f", "content": "x", "owner": "0"}))
		if changed || err == nil || !strings.Contains(err.Error(), "/mine/f") || !strings.Contains(err.Error(), "0:") {
			t.Errorf("got %v, %v, want an error that names the owner", changed, err)
		}
	})
	if entries, err := os.ReadDir(root + "/mine"); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
