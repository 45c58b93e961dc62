package jail_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	apijail "github.com/tlspu/keel/api/jail"
	"github.com/tlspu/keel/backends/jail"
)

func TestDelete_order(t *testing.T) {
	b := newBench(t)
	b.up("web", func(s *apijail.Spec) {
		s.Volumes = append(s.Volumes, apijail.Volume{Name: "inner", MountPath: "/var/db/inner", Size: "1G"})
	})
	b.do(b.keeper.RecordDelete(t.Context(), "web"))
	if !strings.Contains(b.read("web.yaml"), "deleting: true") {
		t.Error("the record does not say that the jail is being deleted")
	}
	b.pass(0)
	b.ok("web")
	b.equal("steps", b.took("web"), []string{
		"detach keel-web",
		"destroy jail keel-web",
		"unmount /var/db/inner from keel-web",
		"unmount /var/db from keel-web",
		"destroy dataset tank/keel/jails/web",
		"remove limits of keel-web",
		"remove the record of web",
	})
	b.equal("host", b.contents(), []string{
		"dataset tank/keel/volumes/inner quota=1073741824", "dataset tank/keel/volumes/web-data quota=8589934592",
	})
	b.equal("records", b.records(), []string(nil))
	b.pass(5 * time.Second)
	b.equal("visits", len(b.results), 0)
	if err := b.keeper.RecordDelete(t.Context(), "web"); !errors.Is(err, jail.ErrNotFound) {
		t.Errorf("a second delete: %v", err)
	}
}

func TestDelete_neverProvisioned(t *testing.T) {
	b := newBench(t)
	b.do(b.keeper.Record(t.Context(), spec("web", nil)))
	b.do(b.keeper.RecordDelete(t.Context(), "web"))
	b.pass(0)
	b.ok("web")
	b.equal("steps", b.took("web"), []string{"remove the record of web"})
	b.equal("host", b.contents(), []string(nil))
}

func TestDelete_goesOnByItself(t *testing.T) {
	tests := []struct{ op, object string }{
		{"detach", "epair1"},
		{"destroy jail", "keel-web"},
		{"unmount", "/tank/keel/jails/web/var/db"},
		{"destroy dataset", "tank/keel/jails/web"},
		{"remove limits", "keel-web"},
	}
	for _, tt := range tests {
		for _, restarted := range []bool{false, true} {
			t.Run(tt.op, func(t *testing.T) {
				b := newBench(t)
				b.up("web", nil)
				volume := b.machine.Serial("tank/keel/volumes/web-data")
				b.do(b.keeper.RecordDelete(t.Context(), "web"))
				b.machine.Fail(tt.op, tt.object, errors.New("broken"))
				b.pass(0)
				b.fails("web", tt.op+" "+tt.object+": broken")
				b.equal("records", b.records(), []string{"web.yaml"})
				b.machine.Fail(tt.op, tt.object, nil)
				if restarted {
					b.start()
				} else {
					b.pass(time.Second)
					b.fails("web", "web deletion continues after a pause")
				}
				b.pass(time.Second)
				b.ok("web")
				b.equal("host", b.contents(), []string{"dataset tank/keel/volumes/web-data quota=8589934592"})
				b.equal("records", b.records(), []string(nil))
				b.equal("volume", b.machine.Serial("tank/keel/volumes/web-data"), volume)
			})
		}
	}
}

func TestDelete_busy(t *testing.T) {
	b := newBench(t)
	b.up("web", nil)
	b.do(b.machine.MarkBusy("tank/keel/jails/web", true))
	b.do(b.keeper.RecordDelete(t.Context(), "web"))
	b.pass(0)
	b.fails("web", "busy")
	if err := b.result("web").Err; !errors.Is(err, jail.ErrBusy) {
		t.Errorf("got %v", err)
	}
	b.equal("limits are still there", b.has("limits keel-web cpu=150 memory=536870912"), true)
	b.do(b.machine.MarkBusy("tank/keel/jails/web", false))
	b.pass(5 * time.Second)
	b.ok("web")
	b.equal("records", b.records(), []string(nil))
}

// TestDelete_recordGoesLast: a driver that says it destroyed what is still there
// does not cost the record, by which the next try knows what to take away.
func TestDelete_recordGoesLast(t *testing.T) {
	b := newBench(t)
	b.up("web", nil)
	b.do(b.keeper.RecordDelete(t.Context(), "web"))
	b.wrap = func(d *jail.Driver) { d.Datasets = liar{d.Datasets} }
	b.start()
	b.pass(0)
	b.fails("web", "dataset is still there: tank/keel/jails/web")
	b.equal("records", b.records(), []string{"web.yaml"})
}

func TestDelete_ofAnUnknownHostWaits(t *testing.T) {
	b := newBench(t)
	b.up("web", nil)
	b.do(b.keeper.RecordDelete(t.Context(), "web"))
	before := b.contents()
	b.machine.Fail("list datasets", "", errors.New("no answer"))
	b.pass(0)
	b.fails("web", "dataset is unknown: no answer")
	b.equal("host", b.contents(), before)
	b.machine.Fail("list datasets", "", nil)
	b.pass(0)
	b.ok("web")
	b.equal("records", b.records(), []string(nil))
}
