package restart_test

import (
	"strings"
	"testing"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/restart"
	"github.com/tlspu/keel/test/parts"
)

func TestProve_inARealChroot(t *testing.T) {
	parts.Need(t, "root", "debian-root")
	root := parts.Dir("debian-root")
	runners, err := command.Runners(root, command.Chroot)
	if err != nil {
		t.Fatal(err)
	}
	j := restart.NewFile(openTree(t, t.TempDir()), journal)
	if err := j.Save(t.Context(), record(restart.Ensuring, "dbus.service")); err != nil {
		t.Fatal(err)
	}
	err = restart.Prove(t.Context(), runners(root), j)
	if err == nil || !strings.Contains(err.Error(), "use exec mode nsenter") {
		t.Errorf("got %v, want an error that names the mode that works", err)
	}
	if rec, ok, err := j.Load(t.Context()); !ok || err != nil || rec.Phase != restart.Ensuring {
		t.Errorf("journal: got %v, %t, %v, want it open as it was", rec, ok, err)
	}
}
