// Package nodetest is what tests of NodeConfigs share: a handler and a systemd
// that exist in files of the test, and a machine with both.
package nodetest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/plugin"
)

// A World is a machine with a handler and a systemd that only tests know.
type World struct {
	Env     plugin.Env
	Handler Setting
	Systemd *Systemd
}

// NewWorld has a.service and b.service run, and no files.
func NewWorld(t testing.TB) *World {
	w := &World{Handler: NewSetting(), Systemd: newSystemd(t, "a.service", "b.service")}
	w.Env = plugin.Env{
		Root:     t.TempDir(),
		Run:      func(string) command.Runner { return w.Systemd },
		Handlers: Handlers(w.Handler),
		Log:      Log(t),
	}
	return w
}

// Edit writes /etc/one by hand.
func (w *World) Edit(t testing.TB, value string) {
	t.Helper()
	file := filepath.Join(w.Env.Root, "etc/one")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(value), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Restarts compares what systemctl changed since it was asked last.
func (w *World) Restarts(t testing.TB, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, w.Systemd.Log(t)); diff != "" {
		t.Errorf("systemctl (-want +got):\n%s", diff)
	}
}
