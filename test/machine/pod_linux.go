package machine

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tlspu/keel/test/parts"
)

// Pod is what a process sees that is started as a DaemonSet's pod with hostPID
// would be: the folder Image as its root, the host's root below /host with
// HostToContainer propagation, the host's processes, an empty /tmp, and the
// network of the test.
type Pod struct {
	Image  string            // see the function Image
	Mounts map[string]string // folders or files of the test, by their path in the pod
	// Root, if not empty, is a folder of the test that is at /host instead.
	Root string
	// ReadOnly is a container's readOnlyRootFilesystem: there is no /tmp to write to.
	ReadOnly bool
}

// Start starts cmd in a pod on the host. The command's path is one of the pod; an
// empty environment is the test's. Output goes to a writer: what StdoutPipe gives
// is closed when the process ends. It is killed at the end of the test, and with
// the host.
func (h *Host) Start(t testing.TB, pod Pod, cmd *exec.Cmd) *Process {
	t.Helper()
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	p, err := start(cmd, func() error { return pod.enter(h.PID) })
	if err != nil {
		t.Fatalf("start %s in a pod on %s: %v", cmd, h.name, err)
	}
	t.Cleanup(p.Kill)
	return p
}

// Start starts cmd in the pod on this machine, whose processes it sees, as Host.Start
// does on a host. It is killed at the end of the test, in whatever way that ends.
func (pod Pod) Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	parts.Need(t, "root", "mounted root")
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	p, err := start(cmd, func() error { return pod.enter(os.Getpid()) })
	if err != nil {
		t.Fatalf("start %s in a pod: %v", cmd, err)
	}
	t.Cleanup(p.Kill)
	return p
}

// enter moves this thread into a new pod on the host whose systemd is pid.
func (pod Pod) enter(pid int) error {
	type mount struct {
		at   string
		tree int
	}
	// What is mounted is taken from the test's mounts before they are left behind.
	var mounts []mount
	defer func() {
		for _, m := range mounts {
			_ = unix.Close(m.tree)
		}
	}()
	take := func(at, path string) error {
		tree, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return fmt.Errorf("open tree %s: %w", path, err)
		}
		mounts = append(mounts, mount{at, tree})
		return nil
	}
	for _, dir := range []string{"host", "proc", "dev", "tmp"} {
		if err := os.MkdirAll(filepath.Join(pod.Image, dir), 0o755); err != nil {
			return err
		}
	}
	if err := take("", pod.Image); err != nil {
		return err
	}
	folders := map[string]string{}
	maps.Copy(folders, pod.Mounts)
	if pod.Root != "" {
		folders["/host"] = pod.Root
	}
	for at, path := range folders {
		if err := mountPoint(filepath.Join(pod.Image, at), path); err != nil {
			return err
		}
		if err := take(at, path); err != nil {
			return err
		}
	}

	// A thread that shares its working directory with others may not change
	// mount namespaces; Unshare ends that.
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("leave the mounts of the test: %w", err)
	}
	for _, ns := range []struct {
		name string
		flag int
	}{{"pid", unix.CLONE_NEWPID}, {"mnt", unix.CLONE_NEWNS}} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, ns.name))
		if err != nil {
			return err
		}
		err = unix.Setns(int(f.Fd()), ns.flag)
		_ = f.Close()
		if err != nil {
			return fmt.Errorf("enter the host's %s namespace: %w", ns.name, err)
		}
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make mounts for the pod: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return err
	}
	for _, name := range []string{"/", "/proc", "/dev"} {
		at := name
		if name == "/" {
			if pod.Root != "" {
				continue
			}
			at = "/host"
		}
		if err := take(at, name); err != nil {
			return err
		}
	}
	const root = "/mnt"
	for _, m := range mounts {
		if err := unix.MoveMount(m.tree, "", unix.AT_FDCWD, root+m.at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("mount %s%s: %w", root, m.at, err)
		}
	}
	if pod.ReadOnly {
		if err := unix.MountSetattr(unix.AT_FDCWD, root, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return fmt.Errorf("make the pod's root read-only: %w", err)
		}
	} else if err := unix.Mount("tmpfs", root+"/tmp", "tmpfs", 0, "mode=1777"); err != nil {
		return err
	}
	if err := unix.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot root: %w", err)
	}
	return unix.Unmount(".", unix.MNT_DETACH)
}

// mountPoint makes a folder or an empty file, as path is one.
func mountPoint(at, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.MkdirAll(at, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(at, os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// Image makes the root of a pod for a test: the given static programs in /bin.
func Image(t testing.TB, programs ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "bin", filepath.Base(p)), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
