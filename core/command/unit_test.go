package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What systemd-run of systemd 252 prints.
const (
	ranWell = "Running as unit: keel-apt.service\nFinished with result: success\n" +
		"Main processes terminated with: code=exited/status=0\nService runtime: 1ms\n"
	ranBadly = "Running as unit: keel-apt.service\nFinished with result: exit-code\n" +
		"Main processes terminated with: code=exited/status=100\nService runtime: 14ms\n"
	ranOut = "Running as unit: keel-apt.service\nFinished with result: timeout\n" +
		"Main processes terminated with: code=killed/status=TERM\nService runtime: 1.829s\n"
	wasKilled = "Running as unit: keel-apt.service\nFinished with result: signal\n" +
		"Main processes terminated with: code=killed/status=KILL\nService runtime: 2ms\n"
	notFound = "Failed to find executable apt-get: No such file or directory\n"
	loaded   = "Failed to start transient service unit: Unit keel-apt.service was already loaded or has a fragment file.\n"
)

// systemd is a machine whose systemd-run, systemctl and journalctl answer from
// files in its directory, and write their arguments to another.
func systemd(t *testing.T, answers map[string]string) (run transient, ran func() []string) {
	t.Helper()
	dir := t.TempDir()
	script := `#!/bin/sh
cd "$(dirname "$0")" || exit 99
printf '%s\n' "$*" >>log
cat "$1.err" >&2 2>/dev/null
cat "$1.out" 2>/dev/null
[ -e "$1.next" ] && mv "$1.next" "$1.out"
exit "$(cat "$1.code" 2>/dev/null || echo 0)"
`
	answers["machine"] = script
	for name, text := range answers {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run = func(ctx context.Context, c Cmd) ([]byte, error) {
		asked := c
		c.Argv = append([]string{filepath.Join(dir, "machine")}, c.Argv...)
		out, err := Exec{}.run(ctx, c)
		if exit := new(ExitError); errors.As(err, &exit) {
			exit.Cmd = asked
		}
		return out, err
	}
	return run, func() []string {
		log, err := os.ReadFile(filepath.Join(dir, "log"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(log)), "\n")
	}
}

func TestExec_unit(t *testing.T) {
	const inactive = "ActiveState=inactive\n"
	tests := []struct {
		name     string
		answers  map[string]string
		is       error
		wantCode int // of an ExitError
		stderr   string
		wantErr  string
	}{
		{"success", map[string]string{"systemctl.out": inactive, "systemd-run.err": ranWell}, nil, 0, "", ""},
		{"failure, said by the journal", map[string]string{"systemctl.out": inactive, "systemd-run.err": ranBadly, "systemd-run.code": "100", "journalctl.out": "E: no\n"}, nil, 100, "E: no\n", "run apt-get install a$b: exit status 100: E: no"},
		{"failure without a journal", map[string]string{"systemctl.out": inactive, "systemd-run.err": ranBadly, "systemd-run.code": "100", "journalctl.code": "1"}, nil, 100, ranBadly, "status=100"},
		{"killed", map[string]string{"systemctl.out": inactive, "systemd-run.err": wasKilled, "systemd-run.code": "255"}, nil, 255, wasKilled, "status=KILL"},
		{"overdue", map[string]string{"systemctl.out": inactive, "systemd-run.err": ranOut, "systemd-run.code": "1"}, context.DeadlineExceeded, 0, "", "run apt-get install a$b: it did not end within 30m0s"},
		{"no such command", map[string]string{"systemctl.out": inactive, "systemd-run.err": notFound, "systemd-run.code": "1"}, fs.ErrNotExist, 0, "", "Failed to find executable apt-get"},
		{"not started", map[string]string{"systemctl.out": inactive, "systemd-run.err": loaded, "systemd-run.code": "1"}, nil, 0, "", "it was not started: Failed to start transient service unit"},
		{"a failed unit in the way", map[string]string{"systemctl.out": "ActiveState=failed\n"}, nil, 0, "", "systemctl reset-failed keel-apt.service"},
		{"not known whether one runs", map[string]string{"systemctl.code": "1"}, nil, 0, "", "as unit keel-apt.service: run systemctl show -p ActiveState -- keel-apt.service: exit status 1"},
		{"an answer that says nothing", map[string]string{}, nil, 0, "", "does not say whether unit keel-apt.service already runs"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run, _ := systemd(t, tt.answers)
			out, err := run.run(t.Context(), Cmd{Argv: []string{"apt-get", "install", "a$b"}, Finish: true, Unit: "keel-apt"})
			if out != nil {
				t.Errorf("got output %q, want none", out)
			}
			if tt.wantErr == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantError(t, err, tt.wantErr)
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("got %v, want %v", err, tt.is)
			}
			exit := new(ExitError)
			if ran := errors.As(err, &exit); ran != (tt.wantCode != 0) || ran && (exit.Code != tt.wantCode || exit.Stderr != tt.stderr) {
				t.Errorf("got %#v, want code %d and standard error %q", err, tt.wantCode, tt.stderr)
			}
		})
	}
}

func TestExec_unitCommandLine(t *testing.T) {
	t.Parallel()
	run, ran := systemd(t, map[string]string{"systemctl.out": "ActiveState=active\n", "systemctl.next": "ActiveState=inactive\n", "systemd-run.err": ranWell})
	c := Cmd{Argv: []string{"apt-get", "install", "a$b"}, Env: []string{"DEBIAN_FRONTEND=noninteractive"}, Finish: true, Unit: "keel-apt.service", Timeout: 1500 * time.Millisecond}
	if _, err := run.run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	look := "systemctl show -p ActiveState -- keel-apt.service"
	want := []string{look, look, // the first one found it running
		"systemd-run --wait --collect --unit=keel-apt.service --property=RuntimeMaxSec=2 --property=TimeoutStopSec=30 --property=LogExtraFields=KEEL_RUN=MARK " +
			"--setenv=PATH=" + systemPath + " --setenv=HOME=/ --setenv=LANG=C --setenv=LC_ALL=C --setenv=DEBIAN_FRONTEND=noninteractive " +
			"-- apt-get install a$$b",
	}
	got := ran()
	mark := regexp.MustCompile(`KEEL_RUN=\w+`)
	for i := range got {
		got[i] = mark.ReplaceAllString(got[i], "KEEL_RUN=MARK")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}

func TestExec_unitThatRunsIsNotAwaitedAfterCancel(t *testing.T) {
	t.Parallel()
	run, ran := systemd(t, map[string]string{"systemctl.out": "ActiveState=active\n"})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := run.run(ctx, Cmd{Argv: []string{"apt-get"}, Finish: true, Unit: "keel-apt"})
	wantError(t, err, "wait for unit keel-apt.service, which may already run")
	if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(fmt.Sprint(ran()), "systemd-run") {
		t.Errorf("got %v after %q, want nothing started", err, ran())
	}
}

func TestExec_unitWithoutSystemd(t *testing.T) {
	e := Exec{booted: filepath.Join(t.TempDir(), "none")}
	out, err := e.Run(t.Context(), Cmd{Argv: []string{"echo", "$x"}, Finish: true, Unit: "keel-apt"})
	if string(out) != "$x\n" || err != nil {
		t.Errorf("got %q, %v, want it run as a child", out, err)
	}
}
