package contract

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSystemd_contract(t *testing.T) {
	s := Systemd{Dir: t.TempDir()}
	s.Add(t, "ok.service", SystemdUnit{Type: "simple"})
	s.Add(t, "one.service", SystemdUnit{Type: "oneshot"})
	s.Add(t, "forgotten.service", SystemdUnit{Type: "oneshot", Forgotten: true})
	s.Add(t, "bad.service", SystemdUnit{Type: "oneshot", Fails: 1})
	Systemctl(t, s, SystemctlUnits{
		Running: "ok.service", Oneshot: "one.service", Forgotten: "forgotten.service", Failing: "bad.service", Absent: "missing.service",
	})
	want := []string{"restart ok.service", "daemon-reload", "restart one.service", "restart forgotten.service", "restart bad.service"}
	if diff := cmp.Diff(want, s.Actions(t)); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}
