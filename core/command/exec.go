package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"time"
)

const (
	maxStdout = 1 << 20
	maxStderr = 4 << 10

	queryTimeout  = time.Minute
	finishTimeout = 30 * time.Minute

	// finishGrace is how long a transaction may take to end after TERM.
	finishGrace = 30 * time.Second
	// outputDelay is how long output is awaited from processes that outlive the
	// command and hold it open.
	outputDelay = 2 * time.Second
)

// systemPath is where commands are looked for, on this machine and in a root.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Exec runs commands. The zero value runs them on this machine; Runners gives
// those that run them in another root or in the namespaces of PID 1. LC_ALL=C,
// empty stdin, small environment, the root directory as working directory, own
// process group. PATH is looked up where the command runs. A cancelled or overdue
// command is killed with its whole group, a Finish command only when overdue. Of
// standard output 1 MiB is kept: a Query with more is an error, another command's
// rest is dropped. A child that keeps stdout open does not hang it (ErrWaitDelay
// with exit 0 is success, and logged). An Exec that cannot enter where it runs
// commands answers with an *EntryError.
type Exec struct {
	Log *slog.Logger // nil: slog.Default

	// At most one of these is set: an absolute root to change to, or a process,
	// as its directory in /proc, whose namespaces to enter.
	root, process string
	// booted is the directory that exists where the machine that is entered has
	// systemd as PID 1. Empty: the usual one on this machine, else none.
	booted string
}

// Run runs c to its end. See Runner for its errors.
func (e Exec) Run(ctx context.Context, c Cmd) ([]byte, error) {
	switch {
	case len(c.Argv) == 0 || c.Argv[0] == "":
		return nil, errors.New("run: there is no command to run")
	case c.Unit != "" && !c.Finish:
		return nil, fmt.Errorf("run %s: only a Finish command can be unit %s", c, c.Unit)
	case c.Unit != "" && c.Stdin != nil:
		return nil, fmt.Errorf("run %s: unit %s has no standard input to give it", c, c.Unit)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("run %s: %w", c, err)
	}
	if c.Unit != "" && e.hasSystemd() {
		return transient(e.run).run(ctx, c)
	}
	return e.run(ctx, c)
}

// run runs c as a child of this process, for as long as it may take.
func (e Exec) run(ctx context.Context, c Cmd) ([]byte, error) {
	if c.Finish {
		ctx = context.WithoutCancel(ctx)
	}
	deadline, stop := context.WithTimeout(ctx, timeout(c))
	defer stop()
	return e.runUntil(ctx, deadline, c)
}

// runUntil runs c as a child that is overdue once deadline is done, and called
// off when ctx is, from which deadline comes.
func (e Exec) runUntil(ctx, deadline context.Context, c Cmd) ([]byte, error) {
	// An error on the way is not wrapped: a missing /dev/null is no missing command.
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("run %s: %s", c, err.Error())
	}
	defer func() { _ = null.Close() }()
	child := prepare(c)
	child.Stdin = null
	var grace time.Duration
	if c.Finish {
		grace = finishGrace
	}
	running, stop := context.WithCancel(deadline)
	defer stop()

	stdout := &head{max: maxStdout}
	if c.Query {
		stdout.full = stop
	}
	stderr := &tail{max: maxStderr}
	child.Stdout, child.Stderr = stdout, stderr
	if c.Stdin != nil {
		child.Stdin = bytes.NewReader(c.Stdin)
	}
	if err := e.start(child); err != nil {
		return nil, fmt.Errorf("run %s: %w", c, err)
	}
	ended := make(chan struct{})
	killed := killWhenDone(running, child.Process.Pid, grace, ended)
	err = child.Wait()
	close(ended)
	cut := <-killed
	switch {
	case c.Query && stdout.over:
		return nil, fmt.Errorf("run %s: it answers with more than %d bytes, and a cut answer is none", c, maxStdout)
	case cut && ctx.Err() != nil:
		return nil, fmt.Errorf("run %s: %w", c, ctx.Err())
	case cut:
		return nil, overdue(c)
	}
	return e.result(c, err, stdout, stderr)
}

// result makes a Runner's answer of a command that ended by itself.
func (e Exec) result(c Cmd, err error, stdout *head, stderr *tail) ([]byte, error) {
	if errors.Is(err, exec.ErrWaitDelay) {
		log := e.Log
		if log == nil {
			log = slog.Default()
		}
		log.Warn("a command left a process behind that holds its output", "command", c)
		err = nil
	}
	exit := new(exec.ExitError)
	switch {
	case err == nil:
		return stdout.kept.Bytes(), nil
	case !errors.As(err, &exit):
		return nil, fmt.Errorf("run %s: %w", c, err)
	}
	return stdout.kept.Bytes(), &ExitError{Cmd: c, Code: exitCode(exit.ProcessState), Stderr: string(stderr.kept)}
}

// exitCode is the exit code as a shell counts it.
func exitCode(s *os.ProcessState) int {
	if status, ok := s.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return s.ExitCode()
}

// prepare makes a child of c, with nothing inherited from this process. Its path
// is still to be found.
func prepare(c Cmd) *exec.Cmd {
	return &exec.Cmd{
		Args:        c.Argv,
		Env:         environment(c.Env),
		Dir:         "/",
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
		WaitDelay:   outputDelay,
	}
}

// start finds the child's program and starts it, where e runs commands.
func (e Exec) start(child *exec.Cmd) error {
	switch {
	case e.process != "":
		return enter(e.process, func() error { return startHere(child) })
	case e.root != "":
		return e.startInRoot(child)
	}
	return startHere(child)
}

// startHere starts the child in the root of this thread.
func startHere(child *exec.Cmd) error {
	var err error
	if child.Path, err = lookPath("", child.Args[0], searchPath(child.Env)); err != nil {
		return err
	}
	return child.Start()
}

// startInRoot starts the child in e.root. The system does not say whether the
// root or the program is missing, so both are looked at first, and what fails
// after that is not wrapped.
func (e Exec) startInRoot(child *exec.Cmd) error {
	refused := func(why string) error {
		return &EntryError{Into: "root " + e.root, Why: why}
	}
	switch info, err := os.Stat(e.root); {
	case err != nil:
		return refused(err.Error() + ": mount the machine's root there, or name another")
	case !info.IsDir():
		return refused("it is not a directory: name the root of a machine")
	}
	var err error
	if child.Path, err = lookPath(e.root, child.Args[0], searchPath(child.Env)); err != nil {
		return err
	}
	child.SysProcAttr.Chroot = e.root
	switch err := child.Start(); {
	case errors.Is(err, syscall.EPERM):
		return refused(err.Error() + ": run keel as root with CAP_SYS_CHROOT")
	case err != nil:
		return fmt.Errorf("start in root %s: %s", e.root, err.Error())
	}
	return nil
}

// environment is the small clean one, with what is added to it.
func environment(added []string) []string {
	return append([]string{"PATH=" + systemPath, "HOME=/", "LANG=C", "LC_ALL=C"}, added...)
}

func timeout(c Cmd) time.Duration {
	switch {
	case c.Timeout > 0:
		return c.Timeout
	case c.Finish:
		return finishTimeout
	}
	return queryTimeout
}

// overdue is the error of a command that took longer than it may.
func overdue(c Cmd) error {
	return fmt.Errorf("run %s: it did not end within %s: %w", c, timeout(c), context.DeadlineExceeded)
}

// killWhenDone kills the process group once ctx is done, unless ended comes
// first. With a grace it gets TERM and that time to end. The answer, whether it
// was killed, comes when nothing more will be.
func killWhenDone(ctx context.Context, group int, grace time.Duration, ended <-chan struct{}) <-chan bool {
	killed := make(chan bool, 1)
	go func() {
		select {
		case <-ended:
			killed <- false
			return
		case <-ctx.Done():
		}
		if grace > 0 {
			_ = syscall.Kill(-group, syscall.SIGTERM) // only fails when it is gone
			waitGone(group, grace)
		}
		_ = syscall.Kill(-group, syscall.SIGKILL)
		killed <- true
	}()
	return killed
}

// waitGone waits until the group has no process any more, or for limit. Its
// leader may well end before those who do the work.
func waitGone(group int, limit time.Duration) {
	late := time.NewTimer(limit)
	defer late.Stop()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for syscall.Kill(-group, 0) == nil {
		select {
		case <-late.C:
			return
		case <-look.C:
		}
	}
}
