package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// Spec describes a process that outlives its caller. It gets the small clean
// environment with Env added, the root folder as working directory, and a
// session of its own; what is not set of Stdout and Stderr goes nowhere.
type Spec struct {
	Argv, Env      []string
	Stdout, Stderr *os.File
	Sys            any // *syscall.SysProcAttr where the system has it
}

// Process is a started process.
type Process interface {
	Pid() int
	// Wait returns the exit code, 128 and the signal's number for a process that
	// a signal ended. The error is for "cannot be known". Call it once: until
	// then, or until this process ends, the system keeps an ended process's entry.
	Wait() (exit int, err error)
	// Signal returns os.ErrProcessDone for a process that was waited for.
	Signal(os.Signal) error
}

// Start starts a process that is not waited for. Neither ctx, once it has
// started, nor this process's end touches it.
func Start(ctx context.Context, s Spec) (Process, error) {
	c := Cmd{Argv: s.Argv}
	if len(s.Argv) == 0 || s.Argv[0] == "" {
		return nil, errors.New("start: there is no command to start")
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c, err)
	}
	attr := &syscall.SysProcAttr{}
	if s.Sys != nil {
		given, ok := s.Sys.(*syscall.SysProcAttr)
		if !ok {
			return nil, fmt.Errorf("start %s: attributes are a %T, want a *syscall.SysProcAttr", c, s.Sys)
		}
		own := *given
		attr = &own
	}
	attr.Setsid, attr.Setpgid = true, false // a new session is a new group, and may not be asked for twice
	env := environment(s.Env)
	path, err := lookPath(s.Argv[0], searchPath(env))
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c, err)
	}
	child := &exec.Cmd{Path: path, Args: s.Argv, Env: env, Dir: "/", SysProcAttr: attr}
	if s.Stdout != nil {
		child.Stdout = s.Stdout
	}
	if s.Stderr != nil {
		child.Stderr = s.Stderr
	}
	if err := child.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c, err)
	}
	return process{child}, nil
}

type process struct{ child *exec.Cmd }

func (p process) Pid() int { return p.child.Process.Pid }

func (p process) Wait() (int, error) {
	err := p.child.Wait()
	exit := new(exec.ExitError)
	if err != nil && !errors.As(err, &exit) {
		return 0, fmt.Errorf("wait for %s: %w", Cmd{Argv: p.child.Args}, err)
	}
	return exitCode(p.child.ProcessState), nil
}

func (p process) Signal(s os.Signal) error { return p.child.Process.Signal(s) }

// exitCode is the exit code as a shell counts it.
func exitCode(s *os.ProcessState) int {
	if status, ok := s.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return s.ExitCode()
}
