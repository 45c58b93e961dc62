package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os/exec"
	"path/filepath"
	"strings"
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

// Exec runs commands on this machine behind the words in Prefix: none, chroot,
// nsenter, jexec. LC_ALL=C, empty stdin, small environment, the root folder as
// working directory, own process group. A cancelled or overdue command is
// killed with its whole group, a Finish command only when overdue. Of standard
// output 1 MiB is kept: a Query with more is an error, another command's rest
// is dropped. A child that keeps stdout open does not hang it (ErrWaitDelay with
// exit 0 is success, and logged). A Prefix command that fails itself is never
// an *ExitError.
type Exec struct {
	Prefix []string
	Log    *slog.Logger // nil: slog.Default

	// booted is the folder that exists where the machine behind Prefix has
	// systemd as PID 1. Empty: the usual one without Prefix, else none.
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
		return e.runUnit(ctx, c)
	}
	return e.run(ctx, c)
}

// run runs c as a child of this process.
func (e Exec) run(ctx context.Context, c Cmd) ([]byte, error) {
	child, err := e.command(c)
	if err != nil {
		return nil, err
	}
	var grace time.Duration
	if c.Finish {
		ctx, grace = context.WithoutCancel(ctx), finishGrace
	}
	running, stop := context.WithTimeout(ctx, timeout(c))
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
	if err := child.Start(); err != nil {
		if len(e.Prefix) > 0 {
			// Not wrapped: a prefix that does not exist is not a command that does not.
			return nil, fmt.Errorf("run %s behind %s: %s", c, e.Prefix[0], err.Error())
		}
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
	code := exitCode(exit.ProcessState)
	if err := e.prefixError(c, code, stderr); err != nil {
		return nil, err
	}
	return stdout.kept.Bytes(), &ExitError{Cmd: c, Code: code, Stderr: string(stderr.kept)}
}

// prefixError is set when it was the prefix that failed, and not the command:
// "nsenter: cannot open /proc/1/ns/mnt: Permission denied" exits with 1, which
// from dpkg-query means that a package is not installed.
func (e Exec) prefixError(c Cmd, code int, stderr *tail) error {
	if len(e.Prefix) == 0 || stderr.cut {
		return nil
	}
	said, program := string(stderr.kept), e.Prefix[0]
	// Some name themselves as they were called, some by their last element.
	if !strings.HasPrefix(said, program+": ") && !strings.HasPrefix(said, filepath.Base(program)+": ") {
		return nil
	}
	text := lastLines(said, maxSaid)
	if code == 127 {
		return fmt.Errorf("run %s: %s: %w", c, text, fs.ErrNotExist)
	}
	return fmt.Errorf("run %s: %s", c, text)
}

// command prepares c, with nothing inherited from this process.
func (e Exec) command(c Cmd) (*exec.Cmd, error) {
	env := environment(c.Env)
	argv := append(append([]string{}, e.Prefix...), c.Argv...)
	path := argv[0]
	if len(e.Prefix) == 0 {
		var err error
		if path, err = lookPath(path, searchPath(env)); err != nil {
			return nil, fmt.Errorf("run %s: %w", c, err)
		}
	}
	return &exec.Cmd{
		Path:        path,
		Args:        argv,
		Env:         env,
		Dir:         "/",
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
		WaitDelay:   outputDelay,
	}, nil
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
