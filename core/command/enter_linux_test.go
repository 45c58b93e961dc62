package command_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/test/contract"
	"github.com/tlspu/keel/test/parts"
	"github.com/tlspu/keel/test/recorded"
)

// entered are the namespaces of the host that a command gets.
func entered() []string { return []string{"ipc", "uts", "net", "pid", "mnt"} }

// newHost is a process with namespaces of its own, in which a script was run. It
// ends with the test, in whatever way that ends: its input is closed then.
func newHost(t *testing.T, script string) (process string) {
	t.Helper()
	parts.Need(t, "root", "mount")
	cmd := exec.Command("sh", "-ec", "mount --make-rprivate /\n"+script+"\necho ready\nexec cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID,
	}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("a host that is not ready says %q, %v", line, err)
	}
	return fmt.Sprintf("/proc/%d", cmd.Process.Pid)
}

// namespace names a namespace of a process or thread.
func namespace(t *testing.T, process, name string) string {
	t.Helper()
	to, err := os.Readlink(filepath.Join(process, "ns", name))
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func TestExec_contractInNamespaces(t *testing.T) {
	process := newHost(t, "")
	contract.Runner(t, func(*testing.T, []recorded.Exchange) command.Runner { return command.ExecIn(process) })
}

func TestEnter_namespaces(t *testing.T) {
	process := newHost(t, "")
	want := map[string]string{}
	for _, name := range entered() {
		want[name] = namespace(t, process, name)
		if want[name] == namespace(t, "/proc/self", name) {
			t.Fatalf("the host has no %s namespace of its own", name)
		}
	}
	for _, name := range []string{"cgroup", "user"} {
		want[name] = namespace(t, "/proc/self", name)
	}
	for name, want := range want {
		got, err := command.ExecIn(process).Run(t.Context(), command.Cmd{Argv: []string{"readlink", "/proc/self/ns/" + name}, Query: true})
		if string(got) != want+"\n" || err != nil {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
		}
	}
}

// A command is looked for where it runs, and its host may have no /proc.
func TestEnter_looksUpCommandsInside(t *testing.T) {
	dir := t.TempDir()
	process := newHost(t, fmt.Sprintf(`
		mount -t tmpfs none %[1]s
		printf '#!/bin/sh\necho inside; ls /proc\n' >%[1]s/tool
		chmod 755 %[1]s/tool
		mount -t tmpfs none /proc`, dir))
	for name, tt := range map[string]struct{ argv []string }{
		"by name": {[]string{"tool"}},
		"by path": {[]string{filepath.Join(dir, "tool")}},
	} {
		c := command.Cmd{Argv: tt.argv, Env: []string{"PATH=" + dir + ":/usr/bin:/bin"}, Query: true}
		if out, err := command.ExecIn(process).Run(t.Context(), c); string(out) != "inside\n" || err != nil {
			t.Errorf("%s: got %q, %v", name, out, err)
		}
		if _, err := (command.Exec{}).Run(t.Context(), c); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: outside: got %v, want no such command", name, err)
		}
	}
}

// A cancelled command ends with its whole group, although its processes are in
// another PID namespace.
func TestEnter_killsTheWholeGroup(t *testing.T) {
	process := newHost(t, "")
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	held := make(chan error, 1)
	go func() {
		// Whoever lives has it open.
		f, err := os.Open(fifo)
		if err != nil {
			held <- err
			return
		}
		defer func() { _ = f.Close() }()
		_, err = io.ReadFull(f, make([]byte, 1))
		cancel()
		if err == nil {
			_, err = io.Copy(io.Discard, f)
		}
		held <- err
	}()
	_, err := command.ExecIn(process).Run(ctx, command.Cmd{Argv: []string{"sh", "-c", `exec 3>"$1"; trap "" TERM; sleep 600 & echo >&3; wait`, "sh", fifo}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want it cancelled", err)
	}
	select {
	case err := <-held:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("a process of the group lives")
	}
}

// Only the thread that starts a command is ever in the host's namespaces, and
// only for as long: the runtime makes no thread from it.
func TestEnter_movesNoOtherThread(t *testing.T) {
	process := newHost(t, "")
	// inside are the threads that have a namespace of the host.
	inside := func() map[string]bool {
		found := map[string]bool{}
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", os.Getpid()))
		if err != nil || len(tasks) == 0 {
			t.Errorf("list threads: %v, %v", tasks, err)
		}
		for _, task := range tasks {
			for _, name := range []string{"ipc", "uts", "net", "pid_for_children", "mnt"} {
				got, err := os.Readlink(filepath.Join(task, "ns", name))
				if errors.Is(err, fs.ErrNotExist) {
					break // it ended
				}
				if err != nil {
					t.Error(err)
				}
				if got == namespace(t, process, strings.TrimSuffix(name, "_for_children")) {
					found[filepath.Base(task)] = true
				}
			}
		}
		return found
	}
	for range 20 {
		at, look, end := make(chan int), make(chan struct{}), make(chan error)
		var busy sync.WaitGroup
		go func() {
			end <- command.Enter(process, func() error {
				// Goroutines that block in system calls need threads, which are
				// started by whoever makes them ready: here, this one.
				for range 50 {
					busy.Go(func() {
						_ = unix.Nanosleep(&unix.Timespec{Nsec: 5e6}, nil)
					})
				}
				at <- unix.Gettid()
				<-look
				return nil
			})
		}()
		tid := <-at
		if tid == os.Getpid() {
			t.Error("it is the first thread, which cannot end")
		}
		if got := inside(); len(got) != 1 || !got[fmt.Sprint(tid)] {
			t.Errorf("threads in the host's namespaces: got %v, want %d", got, tid)
		}
		close(look)
		if err := <-end; err != nil {
			t.Error(err)
		}
		busy.Wait()
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(20 * time.Second); len(inside()) > 0; {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("threads stay in the host's namespaces: %v", inside())
		}
	}
}

// An entry that fails is no answer of the machine, whatever is missing.
func TestEnter_failure(t *testing.T) {
	process := newHost(t, "")
	broken := t.TempDir()
	if err := os.Mkdir(filepath.Join(broken, "ns"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range entered() {
		if err := os.Symlink(filepath.Join(process, "ns", name), filepath.Join(broken, "ns", name)); err != nil {
			t.Fatal(err)
		}
	}
	last := filepath.Join(broken, "ns/mnt")
	if err := os.Remove(last); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(last, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for process, want := range map[string]string{
		"/proc/none": "run true: enter the ipc namespace of /proc/none: open /proc/none/ns/ipc: no such file or directory: give the pod hostPID",
		broken:       "run true: enter the mnt namespace of " + broken + ": setns: invalid argument: give the pod hostPID and privileged, or use exec mode chroot",
	} {
		out, err := command.ExecIn(process).Run(t.Context(), command.Cmd{Argv: []string{"true"}, Query: true})
		exit, entry := new(command.ExitError), new(command.EntryError)
		if out != nil || !errors.As(err, &entry) || errors.As(err, &exit) || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, %v, want %q, an *EntryError", out, err, want)
		}
	}
}
