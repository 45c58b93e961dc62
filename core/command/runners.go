package command

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The exec modes: how commands reach the machine at a root.
const (
	Auto    = "auto"
	Direct  = "direct"
	Chroot  = "chroot"
	Nsenter = "nsenter"
)

// Runners decides, for agents and command line alike, how commands reach a root,
// each time that the function it returns is asked: roots come and go. Mode is
// auto, direct, chroot or nsenter; auto is direct for "/", nsenter when PID 1 is
// visible and its root is the host root, else chroot. Direct and nsenter are
// refused for a root that is not the one they reach: a command for one machine
// must not run on another.
//
// An unknown mode is an error at once. A way that is not open here, such as
// chroot without uid 0, is an *EntryError of each command and not of Runners: who
// never asks for a command does not need one.
func Runners(root, mode string) (func(root string) Runner, error) {
	return reach{pid1: "/proc/1", namespaces: canEnter, isRoot: os.Geteuid() == 0}.runners(root, mode)
}

// reach is what this machine lets commands do.
type reach struct {
	pid1       string // PID 1's directory in /proc
	namespaces bool   // which Linux has
	isRoot     bool
}

func (w reach) runners(root, mode string) (func(root string) Runner, error) {
	modes := []string{Auto, Direct, Chroot, Nsenter}
	if !slices.Contains(modes, mode) {
		return nil, fmt.Errorf("exec mode %q: want one of %s", mode, strings.Join(modes, ", "))
	}
	if root == "" {
		return nil, fmt.Errorf("exec mode %s: the root is empty: name the directory of the machine, or /", mode)
	}
	if _, err := filepath.Abs(root); err != nil {
		return nil, fmt.Errorf("exec mode %s: root %s: %w", mode, root, err)
	}
	return func(root string) Runner {
		if root == "" {
			return unreachable{&EntryError{"the machine", "the root is empty"}}
		}
		path, err := filepath.Abs(root)
		if err != nil {
			return unreachable{&EntryError{"root " + root, err.Error()}}
		}
		return w.runner(path, mode)
	}, nil
}

// runner decides for one clean absolute root.
func (w reach) runner(root, mode string) Runner {
	refused := func(format string, args ...any) Runner {
		return unreachable{&EntryError{Into: "root " + root, Why: fmt.Sprintf(format, args...)}}
	}
	shared, sharedErr := sameDirectory(root, filepath.Join(w.pid1, "root"))
	if mode == Auto {
		switch {
		case root == "/":
			mode = Direct
		case shared && w.namespaces:
			mode = Nsenter
		default:
			mode = Chroot
		}
	}
	switch {
	case mode == Direct:
		if same, err := sameDirectory(root, "/"); err != nil || !same {
			return refused("exec mode direct runs commands on this machine, and %s is not its root: use exec mode chroot or auto", root)
		}
		return Exec{}
	case mode == Nsenter && !w.namespaces:
		return refused("exec mode nsenter is not supported on this system: use exec mode chroot or direct")
	case mode == Nsenter && sharedErr != nil:
		return refused("exec mode nsenter cannot compare %s with the root of PID 1: %v: %s", root, sharedErr, privileges)
	case mode == Nsenter && !shared:
		return refused("exec mode nsenter runs commands on the machine of PID 1, and %s is not its root: use exec mode chroot", root)
	case !w.isRoot:
		return refused("exec mode %s needs uid 0: run keel as root", mode)
	case mode == Nsenter:
		return Exec{process: w.pid1, booted: filepath.Join(w.pid1, "root", systemdDirectory)}
	}
	return Exec{root: root}
}

// sameDirectory compares device and inode, through symlinks.
func sameDirectory(a, b string) (bool, error) {
	one, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	two, err := os.Stat(b)
	if err != nil {
		return false, err
	}
	return os.SameFile(one, two), nil
}

// unreachable answers every command with the reason why none can run.
type unreachable struct{ why *EntryError }

func (u unreachable) Run(_ context.Context, c Cmd) ([]byte, error) {
	return nil, fmt.Errorf("run %s: %w", c, u.why)
}
