package machine

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/test/parts"
)

// bootTimeout is long: a busy machine with two cores boots a host in 15 s, an
// idle one in 3.
const bootTimeout = 2 * time.Minute

//go:embed boot.sh
var bootScript string

// Options of a host; the zero value is a clean Debian named debian.
type Options struct {
	Name string // its hostname
	// Prepare, if not nil, changes the root before systemd starts, as an installer
	// would.
	Prepare func(root string) error
}

// Host is a Debian with systemd as PID 1, in namespaces of its own for mounts,
// processes, names, IPC, network and cgroups. Its root is an overlay over
// parts.Dir("debian-root"). It ends with its test, also when the test's process
// is killed: then nothing of it is left but what the host wrote below TMPDIR.
type Host struct {
	PID int // of its systemd, as seen from here

	name    string
	nsenter string // where it lies here
	disk    string // upper and work of the overlay
	off     func() // kills it and waits for its end; nil when it is off
}

// Boot starts a host and waits until it is up. It skips the test where that
// cannot be done; see package parts.
func Boot(t testing.TB, o Options) *Host {
	t.Helper()
	parts.Need(t, "root", "debian-root", "cgroup2", "mounted root", "nsenter", "unshare", "mount")
	h, err := newHost(o, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Off() })
	if err := h.on(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h
}

// newHost makes a host that is off.
func newHost(o Options, disk string) (*Host, error) {
	h := &Host{name: o.Name, disk: disk}
	if h.name == "" {
		h.name = "debian"
	}
	var err error
	if h.nsenter, err = exec.LookPath("nsenter"); err != nil {
		return nil, err
	}
	return h, h.install(o.Prepare)
}

// Reboot pulls the plug and boots the host again from what is on its disk.
func (h *Host) Reboot(ctx context.Context) error {
	h.Off()
	return h.on(ctx)
}

// Off kills everything on the host and waits for its end. A host that is off
// stays so until Reboot.
func (h *Host) Off() {
	if h.off != nil {
		h.off()
		h.off = nil
	}
}

// Root is a path to the host's root, for as long as it is on. Absolute links
// below it lead out of it, as below a pod's host root.
func (h *Host) Root() string { return fmt.Sprintf("/proc/%d/root", h.PID) }

// Argv is the command line that runs a command on the host, as an administrator
// who is logged in would.
func (h *Host) Argv(argv ...string) []string {
	return append([]string{h.nsenter, "-t", strconv.Itoa(h.PID), "-a", "--"}, argv...)
}

// Runner runs commands on the host as Argv does.
func (h *Host) Runner() command.Runner { return loggedIn{h} }

type loggedIn struct{ host *Host }

// Run runs a command on the host.
func (l loggedIn) Run(ctx context.Context, c command.Cmd) ([]byte, error) {
	asked := c
	c.Argv = l.host.Argv(c.Argv...)
	out, err := command.Exec{}.Run(ctx, c)
	if exit := new(command.ExitError); errors.As(err, &exit) {
		exit.Cmd = asked
	}
	return out, err
}

// Exec runs a command on the host and returns its standard output without the
// last end of line; its failure ends the test.
func (h *Host) Exec(t testing.TB, argv ...string) string {
	t.Helper()
	out, err := h.exec(t.Context(), argv...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (h *Host) exec(ctx context.Context, argv ...string) (string, error) {
	argv = h.Argv(argv...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("run %v: %w: %s", argv[5:], err, stderr.Bytes())
	}
	return strings.TrimSuffix(string(out), "\n"), err
}

// install makes the disk.
func (h *Host) install(prepare func(root string) error) error {
	for _, name := range []string{"upper", "work", "root"} {
		if err := os.Mkdir(filepath.Join(h.disk, name), 0o755); err != nil {
			return err
		}
	}
	if prepare == nil {
		return nil
	}
	root := filepath.Join(h.disk, "root")
	if err := syscall.Mount("overlay", root, "overlay", 0, h.overlay()); err != nil {
		return fmt.Errorf("mount an overlay over %s: %w", parts.Dir("debian-root"), err)
	}
	return errors.Join(prepare(root), syscall.Unmount(root, 0))
}

func (h *Host) overlay() string {
	return "lowerdir=" + parts.Dir("debian-root") + ",upperdir=" + filepath.Join(h.disk, "upper") + ",workdir=" + filepath.Join(h.disk, "work")
}

// on boots the host.
func (h *Host) on(ctx context.Context) error {
	cgroup, err := newCgroup()
	if err != nil {
		return err
	}
	// systemd's own words on the console, for when it does not come up.
	console, err := os.Create(filepath.Join(h.disk, "console"))
	if err != nil {
		return err
	}
	defer func() { _ = console.Close() }()
	cmd := exec.Command("unshare", "--cgroup", "--", "sh", "-ec", bootScript, "boot.sh")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "OVERLAY=" + h.overlay(), "ROOT=" + filepath.Join(h.disk, "root"), "NAME=" + h.name}
	cmd.Stdout, cmd.Stderr = console, console
	group, err := os.Open(cgroup)
	if err != nil {
		return err
	}
	defer func() { _ = group.Close() }()
	// With its PID 1 everything in a PID namespace ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET,
		Setsid:      true,
		UseCgroupFD: true,
		CgroupFD:    int(group.Fd()),
	}
	systemd, err := Start(cmd)
	if err != nil {
		removeCgroup(cgroup)
		return fmt.Errorf("boot %s: %w", h.name, err)
	}
	h.PID = systemd.PID
	h.off = func() {
		// Everything in its PID namespace ends with its PID 1; what a runner put
		// beside it ends with the cgroup.
		_ = os.WriteFile(filepath.Join(cgroup, "cgroup.kill"), []byte("1"), 0)
		systemd.Kill()
		removeCgroup(cgroup)
	}
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	if err := h.up(ctx, systemd.ended); err != nil {
		said, _ := os.ReadFile(console.Name())
		h.Off()
		return fmt.Errorf("boot %s: %w\n%s", h.name, err, said)
	}
	return nil
}

// up waits until systemd has started everything that a boot starts.
func (h *Host) up(ctx context.Context, ended <-chan struct{}) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for state := "nothing"; ; {
		select {
		case <-ended:
			return errors.New("it ended")
		case <-ctx.Done():
			return fmt.Errorf("systemctl is-system-running says %s: %w", state, ctx.Err())
		case <-tick.C:
		}
		out, err := h.exec(ctx, "systemctl", "is-system-running")
		if state = out; state == "running" {
			return nil
		}
		if state == "degraded" {
			failed, _ := h.exec(ctx, "systemctl", "--failed", "--no-legend", "--plain")
			return fmt.Errorf("units failed:\n%s", failed)
		}
		if state == "" && err != nil {
			state = err.Error()
		}
	}
}

// newCgroup makes a cgroup of this process for one host. Those of processes that
// were killed are swept.
func newCgroup() (string, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", err
	}
	var top string
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); f[2] == "cgroup2" {
			top = f[1]
			break
		}
	}
	if top == "" {
		return "", errors.New("no cgroup2 is mounted: mount -t cgroup2 none /sys/fs/cgroup")
	}
	const prefix = "keel-test-"
	old, err := filepath.Glob(filepath.Join(top, prefix+"*"))
	if err != nil {
		return "", err
	}
	for _, dir := range old {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
		if _, err := os.Stat("/proc/" + pid); os.IsNotExist(err) {
			removeCgroup(dir)
		}
	}
	return os.MkdirTemp(top, fmt.Sprintf("%s%d-", prefix, os.Getpid()))
}

// removeCgroup removes a cgroup and those below it. One in which a process still
// ends is tried again for a while, and then left for newCgroup.
func removeCgroup(dir string) {
	deadline := time.After(5 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		var dirs []string
		_ = filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, name)
			}
			return nil
		})
		for i := len(dirs) - 1; i >= 0; i-- {
			_ = os.Remove(dirs[i])
		}
		if len(dirs) == 0 {
			return
		}
		select {
		case <-deadline:
			return
		case <-tick.C:
		}
	}
}
