package contract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tlspu/keel/core/drift"
)

// Crashes is a product's visit that is killed at every step.
type Crashes struct {
	// Setup makes a machine in dir, an empty folder, that a visit has to change.
	Setup func(t testing.TB, dir string)
	// Visit makes one visit to the machine in dir and hands hook to the engine, or
	// calls it itself around what has no steps. It runs in a process of its own:
	// all it leaves must lie in dir, and what it counts there is counted across
	// deaths.
	Visit func(ctx context.Context, dir string, hook drift.Hook) drift.Result
	// Check judges the machine after a visit that was killed, one that was not,
	// and one more.
	Check func(t testing.TB, dir string)
}

// crashTime is how long one visit may take.
const crashTime = time.Minute

// crashEnv holds the crashOrder of a child.
const crashEnv = "KEEL_TEST_CRASH"

// crashOrder tells a child what to do.
type crashOrder struct {
	Test   string // whose scenario
	Dir    string // the machine
	Report string // the file for its crashReport
	At     int    // the call of the hook, counted from 1, that kills; 0: none
}

// crashReport is what a child that lived saw.
type crashReport struct {
	Calls   []string // of the hook
	Changed bool
	Err     string
}

// Crash visits a machine in a process that kills itself with SIGKILL in the
// hook, once for each time it is called: before and after every step. After
// each death the next visit must succeed, the one after it must have nothing to
// do, and then Check judges. Only a process that dies drops its locks and runs
// no defers.
//
// The processes are this test binary, running the test that called Crash again:
// nothing before that call may do what only the first process may.
func Crash(t *testing.T, c Crashes) {
	t.Helper()
	if order := os.Getenv(crashEnv); order != "" {
		crashChild(t, c, order)
		return
	}
	dir := t.TempDir()
	c.Setup(t, dir)
	undisturbed := crashVisit(t, t.Name(), dir, 0)
	if undisturbed.Err != "" {
		t.Fatalf("undisturbed: %s", undisturbed.Err)
	}
	if len(undisturbed.Calls) == 0 {
		t.Fatal("the visit never called the hook: nothing is tested")
	}
	c.Check(t, dir)
	name := t.Name()
	for at, call := range undisturbed.Calls {
		t.Run(fmt.Sprintf("killed %d %s", at+1, call), func(t *testing.T) {
			dir := t.TempDir()
			c.Setup(t, dir)
			crashVisit(t, name, dir, at+1)
			if again := crashVisit(t, name, dir, 0); again.Err != "" {
				t.Errorf("the next visit: %s", again.Err)
			}
			third := crashVisit(t, name, dir, 0)
			if third.Err != "" || third.Changed || len(third.Calls) > 0 {
				t.Errorf("the visit after it: %+v, want that nothing is left to do", third)
			}
			c.Check(t, dir)
		})
	}
}

// crashVisit makes one visit in a child, which must die when at is set.
func crashVisit(t *testing.T, test, dir string, at int) crashReport {
	t.Helper()
	order := crashOrder{Test: test, Dir: dir, Report: filepath.Join(t.TempDir(), "report"), At: at}
	text, err := json.Marshal(order)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), crashTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run="+onlyTest(test), "-test.count=1")
	// The race detector lingers a second at each end by default.
	cmd.Env = append(os.Environ(), crashEnv+"="+string(text), "GORACE=atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("the visit hangs:\n%s", out)
	}
	if at > 0 {
		if status, ok := waitStatus(err); !ok || status.Signal() != syscall.SIGKILL {
			t.Fatalf("the visit did not die at call %d of the hook (%v): is it the same each time?\n%s", at, err, out)
		}
		return crashReport{}
	}
	if err != nil {
		t.Fatalf("the visit: %v\n%s", err, out)
	}
	text, err = os.ReadFile(order.Report)
	if err != nil {
		t.Fatalf("the visit did not report, the test %s does not come to Crash: %v\n%s", test, err, out)
	}
	var report crashReport
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	return report
}

// waitStatus tells whether a command was ended by a signal.
func waitStatus(err error) (syscall.WaitStatus, bool) {
	exit := new(exec.ExitError)
	if !errors.As(err, &exit) {
		return 0, false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return status, ok && status.Signaled()
}

// crashChild is the visit in the child.
func crashChild(t *testing.T, c Crashes, text string) {
	t.Helper()
	var order crashOrder
	if err := json.Unmarshal([]byte(text), &order); err != nil {
		t.Fatal(err)
	}
	if order.Test != t.Name() {
		return // another Crash of the same test
	}
	var report crashReport
	res := c.Visit(t.Context(), order.Dir, func(_ context.Context, _ int, s drift.Step, o *drift.Outcome) error {
		when := "before "
		if o != nil {
			when = "after "
		}
		report.Calls = append(report.Calls, when+s.Text)
		if len(report.Calls) == order.At {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way
		}
		return nil
	})
	report.Changed = res.Changed
	if res.Err != nil {
		report.Err = res.Err.Error()
	}
	out, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(order.Report, out, 0o600); err != nil {
		t.Fatal(err)
	}
}

// onlyTest is the pattern that matches one test, or subtest, only.
func onlyTest(name string) string {
	levels := strings.Split(name, "/")
	for i, l := range levels {
		levels[i] = "^" + regexp.QuoteMeta(l) + "$"
	}
	return strings.Join(levels, "/")
}
