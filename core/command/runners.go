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
// anew whenever the function it returns is asked: roots come and go. Mode is auto, direct, chroot or nsenter; auto is direct for "/", nsenter
// when PID 1 is visible and its root is the host root, else chroot. Direct and
// nsenter are refused for a root that is not the one they reach: a command for
// one machine must not run on another.
//
// An unknown mode is an error at once. A way that is not open here, such as
// chroot without uid 0, is an error of each command and not of Runners: who
// never asks for a command does not need one.
func Runners(root, mode string) (func(root string) Runner, error) {
	return reach{
		pid1:   "/proc/1/root",
		path:   os.Getenv("PATH") + ":" + systemPath,
		isRoot: os.Geteuid() == 0,
	}.runners(root, mode)
}

// reach is what this machine lets commands do.
type reach struct {
	pid1   string // a path to PID 1's root
	path   string // where chroot and nsenter are looked for: this machine's, not the root's
	isRoot bool
}

func (w reach) runners(root, mode string) (func(root string) Runner, error) {
	modes := []string{Auto, Direct, Chroot, Nsenter}
	if !slices.Contains(modes, mode) {
		return nil, fmt.Errorf("exec mode %q: want one of %s", mode, strings.Join(modes, ", "))
	}
	if root == "" {
		return nil, fmt.Errorf("exec mode %s: the root is empty: name the folder of the machine, or /", mode)
	}
	if _, err := filepath.Abs(root); err != nil {
		return nil, fmt.Errorf("exec mode %s: root %s: %w", mode, root, err)
	}
	return func(root string) Runner {
		if root == "" {
			return unreachable{fmt.Errorf("the root is empty")}
		}
		path, err := filepath.Abs(root)
		if err != nil {
			return unreachable{fmt.Errorf("root %s: %w", root, err)}
		}
		return w.runner(path, mode)
	}, nil
}

// runner decides for one clean absolute root.
func (w reach) runner(root, mode string) Runner {
	shared, sharedErr := sameFolder(root, w.pid1)
	if mode == Auto {
		switch {
		case root == "/":
			mode = Direct
		case shared:
			mode = Nsenter
		default:
			mode = Chroot
		}
	}
	switch {
	case mode == Direct:
		if same, err := sameFolder(root, "/"); err != nil || !same {
			return unreachable{fmt.Errorf("exec mode direct runs commands on this machine, and %s is not its root: use exec mode chroot or auto", root)}
		}
		return Exec{}
	case mode == Nsenter && sharedErr != nil:
		return unreachable{fmt.Errorf("exec mode nsenter cannot tell whether %s is the root of PID 1: %s: give the pod hostPID and privileged, or use exec mode chroot", root, sharedErr.Error())}
	case mode == Nsenter && !shared:
		return unreachable{fmt.Errorf("exec mode nsenter runs commands on the machine of PID 1, and %s is not its root: use exec mode chroot", root)}
	case !w.isRoot:
		return unreachable{fmt.Errorf("exec mode %s, by which commands reach %s, needs uid 0: run keel as root", mode, root)}
	}
	program, err := lookPath(mode, w.path)
	if err != nil {
		// Not wrapped: the machine's command is not what is missing.
		return unreachable{fmt.Errorf("exec mode %s needs the command %s beside keel, and it is not in %s: add it to the image, or use another exec mode", mode, mode, w.path)}
	}
	if mode == Nsenter {
		return Exec{
			Prefix: []string{program, "-t", "1", "-m", "-u", "-i", "-n", "-p", "--"},
			booted: filepath.Join(w.pid1, systemdFolder),
		}
	}
	return Exec{Prefix: []string{program, root}}
}

// sameFolder compares device and inode, through links.
func sameFolder(a, b string) (bool, error) {
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
type unreachable struct{ why error }

func (u unreachable) Run(_ context.Context, c Cmd) ([]byte, error) {
	return nil, fmt.Errorf("run %s: %w", c, u.why)
}
