package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/plugin"
)

// onMachine are the settings of every command that reaches a machine.
type onMachine struct {
	Root     string `flag:"root" usage:"directory of the machine's root file system"`
	ExecMode string `flag:"exec-mode" usage:"how commands reach the root" enum:"auto|direct|chroot|nsenter"`
}

func thisMachine() onMachine { return onMachine{Root: "/", ExecMode: command.Auto} }

// defaultLockTimeout is how long a visit waits for the machine's lock.
const defaultLockTimeout = 5 * time.Minute

// env is what a backend is given by a command that reaches no machine: its
// handlers can judge parameters, and whatever they run is refused.
func (a *app) env(log *slog.Logger) plugin.Env {
	return plugin.Env{
		Version:  thisBuild().Version,
		Run:      nowhere,
		Handlers: a.set.Handlers(nowhere),
		In:       a.in, Out: a.out, Err: a.err,
		Now: a.now,
		Log: log,
		UID: a.uid,

		LockTimeout: defaultLockTimeout,
	}
}

// reach completes env for the machine at root, which flag named. With look nothing but queries is
// run there.
func (a *app) reach(env plugin.Env, flag, root, execMode string, look bool) (plugin.Env, error) {
	if root == "" {
		return env, usagef("--%s is empty: name the directory of the machine, or /", flag)
	}
	path, err := filepath.Abs(root)
	if err != nil {
		return env, fmt.Errorf("root %s: %w", root, err)
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return env, exitWith(exitUnreadable, fmt.Errorf("root %w: name the machine's root with --%s; / is this machine", pathError(path, err), flag))
	}
	if err != nil {
		return env, exitWith(exitUnreadable, fmt.Errorf("root %w", pathError(path, err)))
	}
	if !info.IsDir() {
		return env, exitWith(exitUnreadable, fmt.Errorf("root %s: is not a directory", plugin.Printable(path)))
	}
	if execMode == "" {
		execMode = command.Auto
	}
	run, err := command.Runners(path, execMode)
	if err != nil {
		return env, &usageError{err}
	}
	if look {
		acting := run
		run = func(root string) command.Runner { return command.NewReadOnly(acting(root)) }
	}
	env.Root, env.Run, env.Handlers = path, run, a.set.Handlers(run)
	return env, nil
}

// nowhere is how commands reach a machine that there is not.
func nowhere(string) command.Runner { return noMachine{} }

type noMachine struct{}

func (noMachine) Run(_ context.Context, c command.Cmd) ([]byte, error) {
	return nil, fmt.Errorf("run %s: this command looks at no machine", c)
}
