package contract

import (
	"errors"
	"strings"
	"testing"

	"github.com/tlspu/keel/core/command"
)

// SystemctlUnits names units of a machine with systemd that may be restarted.
type SystemctlUnits struct {
	Running   string // a simple service that runs
	Oneshot   string // ends well, and something refers to it
	Forgotten string // a oneshot that ends well, and nothing refers to it
	Failing   string // a oneshot that fails
	Absent    string // no such unit
}

// Systemctl holds systemctl, and what stands in for it, to what core/restart
// builds on.
func Systemctl(t *testing.T, run command.Runner, u SystemctlUnits) {
	m := &systemctl{T: t, run: run}
	t.Run("a restart gives a running unit another id", func(t *testing.T) {
		before := m.show(u.Running)
		if again := m.show(u.Running); again["InvocationID"] != before["InvocationID"] || before["InvocationID"] == "" {
			t.Errorf("two looks: ids %q and %q, want one id", before["InvocationID"], again["InvocationID"])
		}
		m.restart(u.Running, 0, "")
		want(t, m.show(u.Running), "LoadState=loaded", "ActiveState=active", "Type=simple", "InvocationID!="+before["InvocationID"], "InvocationID!=")
	})
	t.Run("a reload keeps the id", func(t *testing.T) {
		before := m.show(u.Running)
		if _, err := run.Run(t.Context(), command.Cmd{Argv: []string{"systemctl", "daemon-reload"}}); err != nil {
			t.Error(err)
		}
		want(t, m.show(u.Running), "ActiveState=active", "InvocationID="+before["InvocationID"])
	})
	t.Run("a oneshot", func(t *testing.T) {
		before := m.show(u.Oneshot)
		m.restart(u.Oneshot, 0, "")
		want(t, m.show(u.Oneshot), "LoadState=loaded", "ActiveState=inactive", "Type=oneshot", "Result=success", "InvocationID!="+before["InvocationID"], "InvocationID!=")
	})
	t.Run("a oneshot that is forgotten has no id", func(t *testing.T) {
		m.restart(u.Forgotten, 0, "")
		want(t, m.show(u.Forgotten), "LoadState=loaded", "ActiveState=inactive", "Type=oneshot", "Result=success", "InvocationID=", "ConditionTimestampMonotonic=0")
	})
	t.Run("a unit that fails has a new id", func(t *testing.T) {
		before := m.show(u.Failing)
		m.restart(u.Failing, 1, "Job for "+u.Failing+" failed because the control process exited with error code.")
		want(t, m.show(u.Failing), "LoadState=loaded", "ActiveState=failed", "Result=exit-code", "InvocationID!="+before["InvocationID"], "InvocationID!=")
	})
	t.Run("no such unit", func(t *testing.T) {
		want(t, m.show(u.Absent), "LoadState=not-found", "ActiveState=inactive", "InvocationID=")
		m.restart(u.Absent, 5, "Failed to restart "+u.Absent+": Unit "+u.Absent+" not found.")
	})
}

type systemctl struct {
	*testing.T
	run command.Runner
}

// show returns the properties as systemctl prints them.
func (m *systemctl) show(unit string) map[string]string {
	m.Helper()
	out, err := m.run.Run(m.Context(), command.Cmd{Query: true, Argv: []string{"systemctl", "show", "-p",
		"LoadState,ActiveState,Type,Result,ConditionResult,ConditionTimestampMonotonic,InvocationID", "--", unit}})
	if err != nil {
		m.Error(err)
	}
	said := map[string]string{}
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		said[key] = value
	}
	return said
}

func (m *systemctl) restart(unit string, code int, stderr string) {
	m.Helper()
	_, err := m.run.Run(m.Context(), command.Cmd{Argv: []string{"systemctl", "restart", "--", unit}})
	exit := new(command.ExitError)
	switch {
	case code == 0 && err != nil:
		m.Errorf("restart: %v", err)
	case code == 0:
	case !errors.As(err, &exit) || exit.Code != code || !strings.HasPrefix(exit.Stderr, stderr):
		m.Errorf("restart: got %v, want exit code %d and %q", err, code, stderr)
	}
}

// want checks properties, given as KEY=VALUE and KEY!=VALUE.
func want(t *testing.T, said map[string]string, properties ...string) {
	t.Helper()
	for _, p := range properties {
		key, value, _ := strings.Cut(p, "=")
		key, not := strings.CutSuffix(key, "!")
		if got, ok := said[key]; !ok || (got == value) == not {
			t.Errorf("got %s=%q (there: %t), want %s", key, got, ok, p)
		}
	}
}
