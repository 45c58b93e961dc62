package restart_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/restart"
	"github.com/tlspu/keel/test/recorded"
)

// memory is a Journal that says what was done to it.
type memory struct {
	rec   restart.Record
	open  bool
	saved []string
	err   error // of Save and Clear
}

func (m *memory) Load(context.Context) (restart.Record, bool, error) { return m.rec, m.open, nil }

func (m *memory) Save(_ context.Context, r restart.Record) error {
	if m.err != nil {
		return m.err
	}
	m.rec = r
	m.saved = append(m.saved, fmt.Sprintf("%s %v reload=%t", r.Phase, r.Units, r.Reload))
	return nil
}

func (m *memory) Clear(context.Context) error {
	if m.err != nil {
		return m.err
	}
	m.open = false
	return nil
}

// What systemctl of systemd 252 prints.
const (
	outsideIsNotSystemd = "System has not been booted with systemd as init system (PID 1). Can't operate.\nFailed to connect to bus: Host is down\n"
	outsidePidNamespace = "Failed to get properties: Transport endpoint is not connected\n"
	jobFailed           = "Job for a.service failed because the control process exited with error code.\nSee \"systemctl status a.service\" and \"journalctl -xeu a.service\" for details.\n"
	isMasked            = "Failed to restart a.service: Unit a.service is masked.\n"
	noSuchUnit          = "Failed to restart a.service: Unit a.service not found.\n"
	refusesStop         = "Failed to restart a.service: Operation refused, unit a.service may be requested by dependency only (it is configured to refuse manual start/stop).\n"
	limitHit            = "Job for a.service failed.\nSee \"systemctl status a.service\" and \"journalctl -xeu a.service\" for details.\n"
)

// unit is the answer of systemctl show.
func unit(kind, active, result, id string) string {
	condition, judged := "yes", "992398498"
	if id == "" {
		condition, judged = "no", "0" // as of a unit that was never started, or is forgotten
	}
	text := "Result=" + result + "\nActiveState=" + active +
		"\nConditionResult=" + condition + "\nConditionTimestampMonotonic=" + judged + "\nInvocationID=" + id + "\n"
	if kind != "" {
		text = "Type=" + kind + "\n" + text
	}
	return text
}

func running(id string) string { return unit("simple", "active", "success", id) }

// notLoaded is the answer for a unit that is absent, masked or broken.
var notLoaded = unit("", "inactive", "success", "")

// stopped is the answer for a unit that is there and does not run.
var stopped = "LoadState=loaded\n" + unit("simple", "inactive", "success", "old")

const skipped = "Type=simple\nResult=success\nActiveState=inactive\nConditionResult=no\nConditionTimestampMonotonic=992441586\nInvocationID=old\n"

func show(name, answer string) recorded.Exchange {
	return recorded.Exchange{Cmd: command.Cmd{Argv: []string{"systemctl", "show", "-p",
		"LoadState,ActiveState,Type,Result,ConditionResult,ConditionTimestampMonotonic,InvocationID", "--", name}}, Stdout: answer}
}

func fails(x recorded.Exchange, err error) recorded.Exchange {
	x.Err = err
	return x
}

func do(argv ...string) recorded.Exchange {
	return recorded.Exchange{Cmd: command.Cmd{Argv: append([]string{"systemctl"}, argv...)}}
}

func restarts(name string) recorded.Exchange { return do("restart", "--", name) }

func exit(code int, stderr string) error { return &command.ExitError{Code: code, Stderr: stderr} }

func record(phase string, units ...string) restart.Record {
	rec := restart.Record{Phase: phase, Units: map[string]string{}}
	for _, u := range units {
		name, id, _ := strings.Cut(u, "=")
		rec.Units[name] = id
	}
	return rec
}

func TestProve_withoutRecord(t *testing.T) {
	if err := restart.Prove(t.Context(), &recorded.Runner{}, &memory{}); err != nil {
		t.Error(err)
	}
}

func TestProve_givesUpAfter90Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		machine := answering(func(command.Cmd) (string, error) { return unit("notify", "activating", "success", "new"), nil })
		j := &memory{rec: record(restart.Restarting, "a.service=old", "b.service=old"), open: true}
		started := time.Now()
		err := restart.Prove(t.Context(), machine, j)
		if took := time.Since(started); took != 180*time.Second {
			t.Errorf("took %s, want 90 s a unit", took)
		}
		for _, text := range []string{"restart a.service: it was restarted, is activating, and did not become active", "restart b.service"} {
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), text) {
				t.Errorf("got %v, want %q", err, text)
			}
		}
	})
}

func TestProve_cancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		machine := answering(func(command.Cmd) (string, error) { return unit("notify", "activating", "success", "new"), nil })
		j := &memory{rec: record(restart.Restarting, "a.service=old", "b.service=old"), open: true}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		started := time.Now()
		err := restart.Prove(ctx, machine, j)
		if took := time.Since(started); took != 10*time.Second || err == nil || strings.Contains(err.Error(), "b.service") || !j.open {
			t.Errorf("got %v after %s, want it to end at once with the first unit", err, took)
		}
	})
}

func TestProve_looksThroughAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		machine := answering(func(command.Cmd) (string, error) {
			if looks++; looks < 3 {
				return unit("notify", "activating", "success", "new"), nil
			}
			return running("new"), nil
		})
		j := &memory{rec: record(restart.Restarting, "a.service=old"), open: true}
		if err := restart.Prove(t.Context(), command.NewPass(machine), j); err != nil || looks != 3 {
			t.Errorf("got %v after %d looks, want it to see the unit become active", err, looks)
		}
	})
}

func TestProve_journalThatCannotBeWritten(t *testing.T) {
	disk := errors.New("no space left on device")
	for name, rec := range map[string]restart.Record{
		"as restarting": record(restart.Ensuring, "a.service"),
		"as proven":     record(restart.Restarting, "a.service=old"),
	} {
		t.Run(name, func(t *testing.T) {
			machine := &recorded.Runner{Script: []recorded.Exchange{show("a.service", running("new"))}}
			j := &memory{rec: rec, open: true, err: disk}
			if err := restart.Prove(t.Context(), machine, j); !errors.Is(err, disk) || !j.open {
				t.Errorf("got %v, want the journal's error and nothing restarted", err)
			}
			if err := machine.Left(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestChanged(t *testing.T) {
	tests := []struct {
		name   string
		j      *memory
		script []recorded.Exchange
		saved  []string
	}{
		{"ids are read and saved", &memory{rec: record(restart.Ensuring, "a.service"), open: true}, []recorded.Exchange{show("a.service", running("a1"))}, []string{"restarting map[a.service:a1] reload=false"}},
		{"what is stopped is not to be restarted", &memory{rec: record(restart.Ensuring, "a.service", "b.service"), open: true}, []recorded.Exchange{show("a.service", stopped), show("b.service", "LoadState=loaded\n"+unit("simple", "failed", "exit-code", "b1"))}, []string{"restarting map[b.service:b1] reload=false"}},
		{"a second call reads nothing", &memory{rec: record(restart.Restarting, "a.service=a1"), open: true}, nil, nil},
		{"no record", &memory{}, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			machine := &recorded.Runner{Script: tt.script}
			if err := restart.Changed(t.Context(), machine, tt.j); err != nil {
				t.Error(err)
			}
			if err := machine.Left(); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(tt.saved, tt.j.saved); diff != "" {
				t.Errorf("saved (-want +got):\n%s", diff)
			}
		})
	}
}

// answering is a Runner that makes up its answers.
type answering func(c command.Cmd) (string, error)

func (f answering) Run(ctx context.Context, c command.Cmd) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out, err := f(c)
	return []byte(out), err
}

func TestValidUnit(t *testing.T) {
	tests := []struct {
		name    string
		wantErr string
	}{
		{"a.service", ""},
		{"A_b-1:2.socket", ""},
		{"getty@tty1.service", ""},
		{`dev-disk-by\x2dlabel-x.device`, ""},
		{`\x2da.mount`, ""},
		{"nginx", ""},
		{strings.Repeat("a", 255), ""},
		{"", "unit name is empty"},
		{strings.Repeat("a", 256), "has 256 bytes, want at most 255"},
		{"-a.service", `unit name "-a.service": must not begin with -`},
		{"--root=/", "must not begin with -"},
		{"a b", "want letters, digits and"},
		{"a/b.service", "want letters, digits and"},
		{"a*.service", "want letters, digits and"},
		{"a[1].service", "want letters, digits and"},
		{"a?", "want letters, digits and"},
		{"a\n", "want letters, digits and"},
		{"a\x00", "want letters, digits and"},
		{"ä.service", "want letters, digits and"},
		{"{{ .unit }}", "want letters, digits and"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := restart.ValidUnit(tt.name)
			if (err != nil) != (tt.wantErr != "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got %v, want %q", err, tt.wantErr)
			}
		})
	}
}
