package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

const (
	// systemdDirectory exists where systemd is PID 1: sd_booted(3).
	systemdDirectory = "/run/systemd/system"
	// unitMargin is what systemd gets on top of a unit's own time to end it.
	unitMargin = finishGrace + time.Minute
	// unitPoll is how often a unit that already runs is looked at.
	unitPoll = 2 * time.Second
)

func (e Exec) hasSystemd() bool {
	directory := e.booted
	if directory == "" && e.root == "" && e.process == "" {
		directory = systemdDirectory
	}
	if directory == "" {
		return false
	}
	_, err := os.Stat(directory)
	return err == nil
}

// transient runs commands as transient units. It is how to run systemd's own.
type transient func(context.Context, Cmd) ([]byte, error)

// run runs c as a transient unit: outside this process's cgroup and without
// a pipe to it, so that it lives on when this process does not. A unit of that
// name which runs already, from before this process was killed, is left to its
// end first; c is then run all the same, since nobody saw how that one ended.
// Standard output and error go to the machine's journal: there is no output,
// and Stderr of an ExitError is what the journal says.
func (t transient) run(ctx context.Context, c Cmd) ([]byte, error) {
	unit := unitName(c.Unit)
	if err := t.await(ctx, c, unit); err != nil {
		return nil, err
	}
	mark := rand.Text()
	_, err := t(ctx, Cmd{Argv: unitArgv(c, unit, mark), Finish: true, Timeout: timeout(c) + unitMargin})
	exit := new(ExitError)
	switch {
	case err == nil:
		return nil, nil
	case errors.Is(err, context.DeadlineExceeded):
		return nil, overdue(c)
	case !errors.As(err, &exit):
		return nil, unitError(c, unit, err)
	}
	result := unitResult(exit.Stderr)
	switch {
	case result == "timeout":
		return nil, overdue(c)
	case result == "" && strings.Contains(exit.Stderr, "Failed to find executable"):
		return nil, fmt.Errorf("run %s as unit %s: %s: %w", c, unit, lastLines(exit.Stderr, maxSaid), fs.ErrNotExist)
	case result == "":
		return nil, fmt.Errorf("run %s as unit %s: it was not started: %s", c, unit, lastLines(exit.Stderr, maxSaid))
	}
	said := t.output(ctx, mark)
	if said == "" {
		said = exit.Stderr
	}
	return nil, &ExitError{Cmd: c, Code: exit.Code, Stderr: said}
}

// unitError is an error of systemctl or systemd-run, which callers must not take
// for an answer of c: it is not wrapped.
func unitError(c Cmd, unit string, err error) error {
	return fmt.Errorf("run %s as unit %s: %s", c, unit, err.Error())
}

func unitName(name string) string {
	if strings.HasSuffix(name, ".service") {
		return name
	}
	return name + ".service"
}

// unitArgv is systemd-run's command line for c. systemd itself ends a unit that
// takes too long, so that this holds without keel too. Mark is a field of what
// it writes to the journal.
func unitArgv(c Cmd, unit, mark string) []string {
	argv := []string{
		"systemd-run", "--wait", "--collect", "--unit=" + unit,
		fmt.Sprintf("--property=RuntimeMaxSec=%d", seconds(timeout(c))),
		fmt.Sprintf("--property=TimeoutStopSec=%d", seconds(finishGrace)),
		"--property=LogExtraFields=KEEL_RUN=" + mark,
	}
	for _, e := range environment(c.Env) {
		argv = append(argv, "--setenv="+e)
	}
	argv = append(argv, "--")
	for _, word := range c.Argv {
		// systemd expands variables in every word; "$$" is a dollar sign.
		argv = append(argv, strings.ReplaceAll(word, "$", "$$"))
	}
	return argv
}

func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// unitResult is what systemd-run reports of a unit that ran, or empty when
// there was none: its own failures exit like the command's.
func unitResult(stderr string) string {
	for line := range strings.Lines(stderr) {
		if result, ok := strings.CutPrefix(line, "Finished with result: "); ok {
			return strings.TrimSpace(result)
		}
	}
	return ""
}

// await waits until no unit of that name runs.
func (t transient) await(ctx context.Context, c Cmd, unit string) error {
	limit := timeout(c) + unitMargin
	late := time.NewTimer(limit)
	defer late.Stop()
	look := time.NewTicker(unitPoll)
	defer look.Stop()
	for {
		out, err := t(ctx, Cmd{Argv: []string{"systemctl", "show", "-p", "ActiveState", "--", unit}, Query: true})
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("run %s: wait for unit %s, which may already run: %w", c, unit, ctx.Err())
		case err != nil:
			return unitError(c, unit, err)
		}
		switch state := strings.TrimSpace(string(out)); state {
		case "ActiveState=inactive":
			return nil
		case "ActiveState=failed":
			return fmt.Errorf("run %s: unit %s is in the way, failed: see its journal, then run systemctl reset-failed %s", c, unit, unit)
		case "":
			return fmt.Errorf("run %s: systemctl does not say whether unit %s already runs", c, unit)
		}
		select {
		case <-look.C:
		case <-late.C:
			return fmt.Errorf("run %s: unit %s, which already ran, did not end within %s: %w", c, unit, limit, context.DeadlineExceeded)
		case <-ctx.Done():
		}
	}
}

// output is the end of what the command so marked wrote, as far as it can be
// had: it explains a failure that is certain.
func (t transient) output(ctx context.Context, mark string) string {
	out, err := t(context.WithoutCancel(ctx), Cmd{
		Argv: []string{"journalctl", "-q", "--no-pager", "-o", "cat", "-n", "20", "_TRANSPORT=stdout", "KEEL_RUN=" + mark}, Query: true,
	})
	if err != nil {
		return ""
	}
	return string(out[max(0, len(out)-maxStderr):])
}
