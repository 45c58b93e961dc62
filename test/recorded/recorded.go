// Package recorded plays commands and their answers back to tests.
package recorded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tlspu/keel/core/command"
)

// Runner plays a machine in tests: exact argv and stdin, strictly in order.
// The first command that is not the next of Script is an error that names both,
// and so is every later one. Use it by pointer.
type Runner struct {
	Script []Exchange

	mu     sync.Mutex
	next   int
	broken error
}

// An Exchange is one command and its answer. Of Cmd, Argv and Stdin are
// compared, and Env where it is set. A *command.ExitError in Err gets the
// command that
// was run.
type Exchange struct {
	Cmd    command.Cmd
	Stdout string
	Err    error
}

// Run answers c when it is the next command of the script.
func (r *Runner) Run(ctx context.Context, c command.Cmd) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("run %s: %w", c, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken != nil {
		return nil, r.broken
	}
	if r.next == len(r.Script) {
		r.broken = fmt.Errorf("recorded: the script of %d commands has ended, and then came: %s", len(r.Script), c)
		return nil, r.broken
	}
	x := r.Script[r.next]
	if err := differs(x.Cmd, c); err != nil {
		r.broken = fmt.Errorf("recorded: command %d of %d: %w", r.next+1, len(r.Script), err)
		return nil, r.broken
	}
	r.next++
	if exit := new(command.ExitError); errors.As(x.Err, &exit) {
		answer := *exit
		answer.Cmd = c
		return []byte(x.Stdout), &answer
	}
	if x.Err != nil {
		return nil, x.Err
	}
	return []byte(x.Stdout), nil
}

// Left reports what went wrong in the whole play: a command that was not
// expected, or those of the script that nobody ran. Tests end with it.
func (r *Runner) Left() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken != nil {
		return r.broken
	}
	if n := len(r.Script) - r.next; n > 0 {
		return fmt.Errorf("recorded: %d of %d commands were not run, next would be: %s", n, len(r.Script), r.Script[r.next].Cmd)
	}
	return nil
}

// differs names how got is not the command that was expected.
func differs(want, got command.Cmd) error {
	switch {
	case !slices.Equal(want.Argv, got.Argv):
		return fmt.Errorf("want: %s\ngot: %s", want, got)
	case !bytes.Equal(want.Stdin, got.Stdin):
		return fmt.Errorf("%s: want stdin %q, got %q", want, want.Stdin, got.Stdin)
	case want.Env != nil && !slices.Equal(want.Env, got.Env):
		return fmt.Errorf("%s: want environment %q, got %q", want, want.Env, got.Env)
	}
	return nil
}
