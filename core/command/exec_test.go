package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// soon is far more than anything here takes, and less than what it would take
// if it hung.
const soon = 20 * time.Second

func sh(script string, args ...string) Cmd {
	return Cmd{Argv: append([]string{"sh", "-c", script, "sh"}, args...)}
}

func TestExec_environment(t *testing.T) {
	t.Setenv("KEEL_LEAK", "from the agent")
	out, err := Exec{}.Run(t.Context(), Cmd{Argv: []string{"env"}, Env: []string{"A=1", "HOME=/root"}})
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(string(out))
	want := []string{"PATH=" + systemPath, "HOME=/root", "LANG=C", "LC_ALL=C", "A=1"}
	for _, w := range want {
		if !strings.Contains(string(out), w+"\n") {
			t.Errorf("got %q, want %s among them", got, w)
		}
	}
	if strings.Contains(string(out), "KEEL_LEAK") || len(got) != len(want) {
		t.Errorf("got %q, want only %q", got, want)
	}
}

func TestExec_startsInTheRootFolderInItsOwnGroup(t *testing.T) {
	out, err := Exec{}.Run(t.Context(), sh(`pwd; kill -0 -$$ && echo leads`))
	if string(out) != "/\nleads\n" || err != nil {
		t.Errorf("got %q, %v, want / and a group that it leads", out, err)
	}
}

func TestExec_cannotRun(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	loop, empty := filepath.Join(t.TempDir(), "loop"), t.TempDir()
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		exec    Exec
		cmd     Cmd
		absent  bool // fs.ErrNotExist
		wantErr string
	}{
		{"nothing", Exec{}, Cmd{}, false, "there is no command to run"},
		{"an empty name", Exec{}, Cmd{Argv: []string{""}}, false, "there is no command to run"},
		{"no such command", Exec{}, Cmd{Argv: []string{"keel-none"}}, true, "run keel-none: there is no command keel-none in /usr/local/sbin:"},
		{"no such path", Exec{}, Cmd{Argv: []string{"/nowhere/keel-none"}}, true, "run /nowhere/keel-none: "},
		{"not executable", Exec{}, Cmd{Argv: []string{plain}}, false, "permission denied"},
		{"a directory", Exec{}, Cmd{Argv: []string{"/"}}, false, "permission denied"},
		{"only in a PATH of its own", Exec{}, Cmd{Argv: []string{"true"}, Env: []string{"PATH=/nowhere:."}}, true, "there is no command true in /nowhere:."},
		{"a zero byte", Exec{}, Cmd{Argv: []string{"echo", "a\x00b"}}, false, "invalid argument"},
		{"a PATH that cannot be looked into", Exec{}, Cmd{Argv: []string{"true"}, Env: []string{"PATH=" + loop}}, false, "find command true: stat " + loop},
		{"a root that is missing", Exec{root: "/nowhere"}, Cmd{Argv: []string{"true"}}, false, "run true: enter root /nowhere: stat /nowhere: no such file or directory: mount the machine's root there"},
		{"a root that is a file", Exec{root: plain}, Cmd{Argv: []string{"true"}}, false, "run true: enter root " + plain + ": it is not a directory"},
		{"no such command in a root", Exec{root: empty}, Cmd{Argv: []string{"true"}}, true, "run true: there is no command true in /usr/local/sbin:"},
		{"no such path in a root", Exec{root: empty}, Cmd{Argv: []string{"/bin/true"}}, true, "run /bin/true: lstat " + empty + "/bin: no such file"},
		{"a unit that is no transaction", Exec{}, Cmd{Argv: []string{"true"}, Unit: "u"}, false, "only a Finish command can be unit u"},
		{"a unit with input", Exec{}, Cmd{Argv: []string{"true"}, Unit: "u", Finish: true, Stdin: []byte("x")}, false, "has no standard input"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, err := tt.exec.Run(t.Context(), tt.cmd)
			exit := new(ExitError)
			if err == nil || errors.As(err, &exit) || out != nil {
				t.Fatalf("got %q, %v, want an error that is no exit code", out, err)
			}
			if errors.Is(err, fs.ErrNotExist) != tt.absent || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got %v (absent %t), want %q (absent %t)", err, errors.Is(err, fs.ErrNotExist), tt.wantErr, tt.absent)
			}
		})
	}
}

func TestExec_outputIsCapped(t *testing.T) {
	t.Parallel()
	long := sh(`head -c 1048577 /dev/zero`)
	out, err := Exec{}.Run(t.Context(), long)
	if len(out) != maxStdout || err != nil {
		t.Errorf("command: got %d bytes, %v, want the first %d", len(out), err, maxStdout)
	}
	endless := Cmd{Argv: []string{"cat", "/dev/zero"}, Query: true}
	started := time.Now()
	if out, err = (Exec{}).Run(t.Context(), endless); err == nil || !strings.Contains(err.Error(), "a cut answer is none") || out != nil {
		t.Errorf("query: got %d bytes, %v, want an error", len(out), err)
	}
	if took := time.Since(started); took > soon {
		t.Errorf("query: took %s", took)
	}
	whole := sh(`head -c 1048576 /dev/zero`)
	whole.Query = true
	if out, err = (Exec{}).Run(t.Context(), whole); len(out) != maxStdout || err != nil {
		t.Errorf("query at the limit: got %d bytes, %v", len(out), err)
	}
	_, err = Exec{}.Run(t.Context(), sh(`head -c 8000 /dev/zero | tr '\0' x >&2; echo END >&2; exit 1`))
	exit := new(ExitError)
	if !errors.As(err, &exit) || len(exit.Stderr) != maxStderr || !strings.HasSuffix(exit.Stderr, "xEND\n") {
		t.Errorf("standard error: got %d bytes of %v", len(exit.Stderr), err)
	}
}

func TestExec_childThatKeepsStdoutOpen(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	e := Exec{Log: slog.New(slog.NewTextHandler(&log, nil))}
	started := time.Now()
	out, err := e.Run(t.Context(), sh(`sleep 60 & echo $!`))
	if err != nil {
		t.Fatal(err)
	}
	stopLater(t, string(out))
	if took := time.Since(started); took > soon {
		t.Errorf("took %s", took)
	}
	if !strings.Contains(log.String(), "holds its output") || !strings.Contains(log.String(), "sleep 60") {
		t.Errorf("log: got %q, want it said", log.String())
	}
	out, err = e.Run(t.Context(), sh(`sleep 60 & echo $!; exit 7`))
	stopLater(t, string(out))
	exit := new(ExitError)
	if !errors.As(err, &exit) || exit.Code != 7 {
		t.Errorf("got %v, want exit code 7", err)
	}
}

func TestExec_killsTheWholeGroup(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { awaitFile(t, file); cancel() }()
	started := time.Now()
	_, err := Exec{}.Run(ctx, sh(`trap "" TERM; sleep 60 & echo $! >"$1.new"; mv "$1.new" "$1"; wait`, file))
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "context canceled") {
		t.Errorf("got %v, want it cancelled", err)
	}
	if took := time.Since(started); took > soon {
		t.Errorf("took %s", took)
	}
	awaitGone(t, string(awaitFile(t, file)))
}

func TestExec_overdue(t *testing.T) {
	t.Parallel()
	c := Cmd{Argv: []string{"sleep", "60"}, Timeout: 300 * time.Millisecond}
	started := time.Now()
	_, err := Exec{}.Run(t.Context(), c)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "it did not end within 300ms") {
		t.Errorf("got %v, want it overdue", err)
	}
	if took := time.Since(started); took > soon {
		t.Errorf("took %s", took)
	}
}

func TestExec_cancelLetsATransactionFinish(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "started")
	ctx, cancel := context.WithCancel(t.Context())
	c := sh(`echo x >"$1"; while [ -e "$1" ]; do sleep 0.05; done; echo done`, file)
	c.Finish = true
	go func() {
		awaitFile(t, file)
		cancel()
		if err := os.Remove(file); err != nil {
			t.Error(err)
		}
	}()
	out, err := Exec{}.Run(ctx, c)
	if string(out) != "done\n" || err != nil {
		t.Errorf("got %q, %v, want it finished", out, err)
	}
	if _, err := (Exec{}).Run(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("after the cancel: got %v, want nothing started", err)
	}
}

func TestExec_overdueTransactionMayEnd(t *testing.T) {
	t.Parallel()
	rollsBack(t, `trap 'sleep 0.3; echo rolled back >"$1"; exit 0' TERM; echo >"$1.ready"; while :; do sleep 0.05; done`)
}

func TestExec_overdueTransactionWaitsForTheGroup(t *testing.T) {
	t.Parallel()
	// The leader ends at once; who does the work takes its time.
	rollsBack(t, `(trap 'sleep 0.3; echo rolled back >"$1"; exit 0' TERM; echo >"$1.ready"; while :; do sleep 0.05; done) >/dev/null 2>&1 & wait`)
}

// rollsBack runs a transaction that is overdue as soon as it says that it is
// ready, and wants what it does on TERM.
func rollsBack(t *testing.T, script string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ended")
	c := sh(script, file)
	c.Finish = true
	deadline, expire := context.WithCancel(t.Context())
	defer expire()
	go func() { awaitFile(t, file+".ready"); expire() }()
	if _, err := (Exec{}).runUntil(t.Context(), deadline, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want it overdue", err)
	}
	if got, err := os.ReadFile(file); string(got) != "rolled back\n" {
		t.Errorf("got %q, %v, want what it does on TERM", got, err)
	}
}

func TestKillWhenDone_killsWhatDoesNotHeedTERM(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "deaf")
	child := prepare(sh(`trap "" TERM; echo x >"$1"; while :; do sleep 0.05; done`, file))
	if err := (Exec{}).start(child); err != nil {
		t.Fatal(err)
	}
	awaitFile(t, file)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	started := time.Now()
	if killed := <-killWhenDone(ctx, child.Process.Pid, 200*time.Millisecond, nil); !killed {
		t.Error("it says that it did not kill")
	}
	if took := time.Since(started); took < 200*time.Millisecond || took > soon {
		t.Errorf("killed after %s, want a grace of 200ms", took)
	}
	err := child.Wait()
	if status, ok := child.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Errorf("got %v, want it killed", err)
	}
}

// awaitFile returns the content of a file that is about to appear.
func awaitFile(t *testing.T, path string) []byte {
	t.Helper()
	var content []byte
	await(t, path+" to appear", func() bool {
		var err error
		content, err = os.ReadFile(path)
		return err == nil
	})
	return content
}

// awaitGone waits until no process, but for a zombie, has this number.
func awaitGone(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(pid))
	if err != nil {
		t.Fatalf("no process number in %q", pid)
	}
	await(t, fmt.Sprintf("process %d to end", n), func() bool {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n))
		return syscall.Kill(n, 0) != nil || strings.Contains(string(stat), ") Z ")
	})
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for late := time.Now().Add(soon); !ok(); <-look.C {
		if time.Now().After(late) {
			t.Errorf("waited %s for %s", soon, what)
			return
		}
	}
}

// stopLater ends the process that a command left, when the test ends.
func stopLater(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(pid))
	if err != nil {
		t.Fatalf("no process number in %q", pid)
	}
	t.Cleanup(func() { _ = syscall.Kill(n, syscall.SIGKILL) })
}
