// Package cli is the command line: the cobra tree made from the roles of the
// backends, settings, log formats, output formats and exit codes.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/tlspu/keel/core/plugin"
)

// app is one run of the program: what it holds, and the outside world.
type app struct {
	set  plugin.Set
	args []string // without the program's name
	in   io.Reader
	out  *output
	err  io.Writer
	now  func() time.Time
	uid  int
	form string // of the output, once settings are known
}

// Main runs the command line that the process was started with and returns its
// exit code. SIGINT, SIGTERM and SIGHUP end the command: one that only reads at
// once, one that writes after the step that runs. The signal after that ends the
// process on the spot, which every step survives.
func Main(ctx context.Context, set plugin.Set) int {
	ctx, stop := signal.NotifyContext(ctx, ending()...)
	defer stop()
	context.AfterFunc(ctx, stop)
	// With somebody to tell, a reader who went away is an error of the write and
	// not the end of the process. Ignoring the signal would pass that on to every
	// command that is run.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(pipe)
	a := &app{
		set:  set,
		args: os.Args[1:],
		in:   os.Stdin,
		out:  &output{w: standardOutput()},
		err:  os.Stderr,
		now:  time.Now, //nolint:forbidigo // this is the clock that everybody else is given
		uid:  os.Geteuid(),
	}
	return a.run(ctx)
}

// ending lists the signals that end a command. What the starter of the process
// ignores, as nohup does SIGHUP, stays ignored.
func ending() []os.Signal {
	signals := []os.Signal{syscall.SIGTERM}
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signals = append(signals, s)
		}
	}
	return signals
}

// run executes the command and says what went wrong. It returns the exit code.
func (a *app) run(ctx context.Context) int {
	root := a.command()
	root.SetArgs(a.args)
	cmd, err := root.ExecuteContextC(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = &plugin.Exit{Code: exitInterrupted, Err: err}
	}
	if lost := a.out.failure(); lost != nil {
		if errors.Is(lost, syscall.EPIPE) {
			return exitPipe
		}
		err = fmt.Errorf("write standard output: %w", lost)
	}
	code := codeOf(err)
	if err := a.failure(cmd, code, err); err != nil {
		a.sayError(err)
	}
	var usage *usageError
	var said quiet
	switch {
	case err == nil, errors.As(err, &said):
	case errors.As(err, &usage):
		a.say("Usage: %s", cmd.UseLine())
		a.sayError(err)
	case code == exitInterrupted:
		a.say("Interrupted")
	default:
		a.sayError(err)
	}
	return code
}

// sayError prints err for a person, an "Error:" for each of its lines.
func (a *app) sayError(err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		a.say("Error: %s", plugin.Printable(line))
	}
}

// say prints a line on standard error; that nobody reads it is no error.
func (a *app) say(format string, args ...any) {
	_, _ = fmt.Fprintf(a.err, format+"\n", args...)
}

// reading runs f, which only reads, and comes back soon after ctx ended even if
// f does not; a second is enough to stop the commands that it runs. It ends, too,
// when there is nobody left to read for. What writes does not: a machine is not
// left half done because nobody listens.
func (a *app) reading(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.out.whenLost(cancel)
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = f(ctx)
	}()
	select {
	case <-done:
		return err
	case <-ctx.Done():
	}
	grace := time.NewTimer(time.Second)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
	}
	return ctx.Err()
}
