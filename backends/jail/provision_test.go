package jail_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apijail "github.com/tlspu/keel/api/jail"
	"github.com/tlspu/keel/backends/jail"
)

func TestProvision_order(t *testing.T) {
	b := newBench(t)
	b.up("web", nil)
	b.equal("steps", b.took("web"), []string{
		"clone tank/keel/base/15.0-web to tank/keel/jails/web",
		"create jail keel-web",
		"create volume tank/keel/volumes/web-data",
		"mount tank/keel/volumes/web-data at /var/db of keel-web",
		"attach keel-web to keel0 by epair1 with 10.0.60.5/24",
		"limit keel-web to 1.5 cpu and 512M of memory",
		"start /usr/local/sbin/web in keel-web",
		"record that web was started",
	})
	b.equal("host", b.machine.Contents(), []string{
		"bridge keel0 [10.0.60.1/24]",
		"dataset tank/keel/base/15.0-web quota=0",
		"dataset tank/keel/jails/web quota=0",
		"dataset tank/keel/volumes/web-data quota=8589934592",
		"jail keel-web alive=true",
		"limits keel-web cpu=150 memory=536870912",
		"link epair1 of keel-web on keel0 address=10.0.60.5/24",
		"mount /tank/keel/volumes/web-data on /tank/keel/jails/web/var/db",
	})
	b.pass(5 * time.Second)
	b.ok("web")
	b.equal("steps of the next pass", b.took("web"), []string(nil))
}

func TestProvision_withoutImage(t *testing.T) {
	b := newBench(t)
	b.do(b.keeper.Record(t.Context(), spec("web", func(s *apijail.Spec) { s.Image = "base/none" })))
	b.pass(0)
	b.fails("web", "there is no image base/none: make the dataset tank/keel/base/none")
	b.equal("host", b.contents(), []string(nil))
	b.do(b.machine.AddImage("tank/keel/base/none"))
	b.pass(5 * time.Second)
	b.ok("web")
	b.running("web", true)
}

func TestProvision_failedStepLeavesNothingButVolumes(t *testing.T) {
	volume := []string{"dataset tank/keel/volumes/web-data quota=8589934592"}
	tests := []struct {
		op, object string
		left       []string
	}{
		{"clone", "tank/keel/jails/web", nil},
		{"create", "keel-web", nil},
		{"create dataset", "tank/keel/volumes/web-data", nil},
		{"mount", "/tank/keel/jails/web/var/db", volume},
		{"ensure bridge", "keel0", volume},
		{"attach", "epair1", volume},
		{"set limits", "keel-web", volume},
		{"start", "keel-web", volume},
	}
	for _, tt := range tests {
		t.Run(tt.op, func(t *testing.T) {
			b := newBench(t)
			b.machine.Fail(tt.op, tt.object, errors.New("broken"))
			b.do(b.keeper.Record(t.Context(), spec("web", nil)))
			b.pass(0)
			b.fails("web", tt.op+" "+tt.object+": broken")
			if text := b.result("web").Err.Error(); !strings.HasSuffix(text, ": broken") {
				t.Errorf("says more than what went wrong: %s", text)
			}
			b.equal("host", b.contents(), tt.left)

			b.machine.Fail(tt.op, tt.object, nil)
			b.pass(500 * time.Millisecond)
			b.fails("web", "web is made again after a pause, the last try failed: ")
			b.pass(500 * time.Millisecond)
			b.ok("web")
			b.running("web", true)
			if strings.Contains(b.read("web.yaml"), "provisioning") {
				t.Error("the record still says that the jail is being made")
			}
		})
	}
}

func TestProvision_doesNotTakeWhatIsOthers(t *testing.T) {
	t.Run("link", func(t *testing.T) {
		b := newBench(t)
		b.do(b.machine.AddForeignLink("epair1"))
		b.do(b.keeper.Record(t.Context(), spec("web", nil)))
		b.pass(0)
		b.fails("web", "attach epair1: exists already")
		b.equal("host", b.contents(), []string{"dataset tank/keel/volumes/web-data quota=8589934592"})
	})
	t.Run("jail", func(t *testing.T) {
		b := newBench(t)
		b.do(b.machine.AddImage("tank/other"))
		b.do(b.machine.Driver().Jails.Create(t.Context(), jail.Cell{Name: "keel-web", Root: "/tank/other"}))
		before := b.contents()
		b.do(b.keeper.Record(t.Context(), spec("web", nil)))
		b.pass(0)
		b.fails("web", "keel-web is a jail that Keel did not make, its root is /tank/other")
		b.do(b.keeper.RecordDelete(t.Context(), "web"))
		b.pass(time.Second)
		b.fails("web", "keel-web is a jail that Keel did not make")
		b.equal("host", b.contents(), before)
		b.equal("records", b.records(), []string{"web.yaml"})
	})
}

func TestProvision_takesBackWhatAFailedStepLeft(t *testing.T) {
	b := newBench(t)
	b.wrap = func(d *jail.Driver) { d.Network = halfway{d.Network} }
	b.start()
	b.do(b.keeper.Record(t.Context(), spec("web", nil)))
	b.pass(0)
	b.fails("web", "broken at the end")
	b.equal("host", b.contents(), []string{"dataset tank/keel/volumes/web-data quota=8589934592"})
}

func TestProvision_doesNotTakeBackWhatARivalMade(t *testing.T) {
	b := newBench(t)
	b.do(b.machine.AddImage("tank/other"))
	b.wrap = func(d *jail.Driver) { d.Jails = rival{d.Jails, "/tank/other"} }
	b.start()
	b.do(b.keeper.Record(t.Context(), spec("web", nil)))
	b.pass(0)
	b.fails("web", "create keel-web: exists already")
	b.equal("host", b.contents(), []string{"dataset tank/other quota=0", "jail keel-web alive=false"})
}

func TestProvision_doesNotTakeAnothersLink(t *testing.T) {
	b := newBench(t)
	b.up("first", at("10.0.60.7/24"))
	b.do(b.keeper.RecordDelete(t.Context(), "first"))
	b.machine.Fail("detach", "epair1", errors.New("broken"))
	b.pass(0) // its link stays, and its record is lost
	b.do(b.store().Remove("first"))
	b.start()
	b.do(b.keeper.Record(t.Context(), spec("web", nil)))
	b.pass(0)
	b.fails("web", "attach epair1: exists already")
	b.do(b.keeper.RecordDelete(t.Context(), "web"))
	b.pass(0)
	b.ok("web")
	if !b.has("link epair1 of keel-first on keel0 address=10.0.60.7/24") {
		t.Error(b.contents())
	}
}

func TestRestart_doesNotMountOverAnother(t *testing.T) {
	b := newBench(t)
	b.up("web", nil)
	d := b.machine.Driver()
	b.do(b.machine.MarkExited("keel-web", 1))
	b.do(d.Mounts.Unmount(t.Context(), "/tank/keel/jails/web/var/db"))
	b.do(d.Datasets.Create(t.Context(), "tank/other", 1))
	b.do(d.Mounts.Mount(t.Context(), "/tank/other", "/tank/keel/jails/web", "/var/db"))
	b.pass(5 * time.Second)
	b.fails("web", "mount /tank/keel/jails/web/var/db: exists already")
	b.running("web", false)
}

func TestProvision_afterRebootKeepsTheRoot(t *testing.T) {
	b := newBench(t)
	b.up("web", nil)
	root, volume := b.machine.Serial("tank/keel/jails/web"), b.machine.Serial("tank/keel/volumes/web-data")
	want := b.machine.Contents()
	b.do(b.machine.Reboot())
	b.start()

	b.machine.Fail("start", "keel-web", errors.New("broken"))
	b.pass(0)
	b.fails("web", "broken")
	b.equal("after the failure", b.contents(), []string{
		"dataset tank/keel/jails/web quota=0", "dataset tank/keel/volumes/web-data quota=8589934592",
	})
	b.machine.Fail("start", "keel-web", nil)
	b.pass(5 * time.Second)
	b.ok("web")
	b.equal("host", b.machine.Contents(), want)
	if b.machine.Serial("tank/keel/jails/web") != root || b.machine.Serial("tank/keel/volumes/web-data") != volume {
		t.Error("a dataset was made anew")
	}
}

func TestProvision_recordThatCannotBeWrittenDoesNotStopTheJail(t *testing.T) {
	b := newBench(t)
	b.do(b.keeper.Record(t.Context(), spec("web", nil)))
	b.breakStore()
	b.pass(0)
	b.fails("web", "record that web was started: write record of web")
	b.running("web", true)
	b.mendStore()
	b.pass(5 * time.Second)
	b.ok("web")
	b.equal("starts", b.machine.Starts("keel-web"), 1)
	if strings.Contains(b.read("web.yaml"), "provisioning") {
		t.Error("the record still says that the jail is being made")
	}
}

func TestVisit_oneFailingJailDoesNotStopOthers(t *testing.T) {
	b := newBench(t)
	for name, address := range map[string]string{"a": "10.0.60.5/24", "b": "10.0.60.6/24", "c": "10.0.61.7/24"} {
		b.do(b.keeper.Record(t.Context(), spec(name, func(s *apijail.Spec) { s.Network.Address = address })))
	}
	b.machine.Fail("create", "keel-b", errors.New("broken"))
	b.pass(0)
	b.ok("a")
	b.fails("b", "broken")
	b.ok("c")
	b.running("a", true)
	b.running("c", true)
	b.equal("a and c", []bool{b.has("bridge keel0 [10.0.60.1/24 10.0.61.1/24]")}, []bool{true})
}

// TestVisit_unknownIsNotActedOn: a host that cannot be asked is left as it is,
// and its jails do not cool down for it.
func TestVisit_unknownIsNotActedOn(t *testing.T) {
	for _, op := range []string{"list jails", "list limits", "list datasets", "list mounts", "list network"} {
		t.Run(op, func(t *testing.T) {
			b := newBench(t)
			b.up("web", nil)
			b.do(b.machine.MarkExited("keel-web", 1))
			before := b.contents()
			b.machine.Fail(op, "", errors.New("no answer"))
			b.pass(time.Minute)
			b.fails("web", "is unknown: no answer")
			b.equal("host", b.contents(), before)
			b.machine.Fail(op, "", nil)
			b.pass(0)
			b.ok("web")
			b.running("web", true)
		})
	}
}

func TestVisit_asksOnceAPass(t *testing.T) {
	b := newBench(t)
	for name, address := range map[string]string{"a": "10.0.60.5/24", "b": "10.0.60.6/24", "c": "10.0.61.7/24"} {
		b.do(b.keeper.Record(t.Context(), spec(name, func(s *apijail.Spec) { s.Network.Address = address })))
	}
	b.pass(0)
	counted := &counter{Jails: b.machine.Driver().Jails}
	b.wrap = func(d *jail.Driver) { d.Jails = counted }
	b.start()
	b.pass(5 * time.Second)
	b.ok("c")
	b.equal("listings of jails", counted.lists, 1)
}

// TestProvision_afterHalfARollback: an agent that dies while it takes a failed
// provision back leaves the jail with less and less.
func TestProvision_afterHalfARollback(t *testing.T) {
	d := func(b *bench) jail.Driver { return b.machine.Driver() }
	undo := []func(b *bench) error{
		func(b *bench) error { return d(b).Jails.RemoveLimits(b.Context(), "keel-web") },
		func(b *bench) error { return d(b).Network.Detach(b.Context(), "epair1") },
		func(b *bench) error { return d(b).Jails.Destroy(b.Context(), "keel-web") },
		func(b *bench) error { return d(b).Mounts.Unmount(b.Context(), "/tank/keel/jails/web/var/db") },
		func(b *bench) error { return d(b).Datasets.Destroy(b.Context(), "tank/keel/jails/web") },
	}
	for n := range len(undo) + 1 {
		b := newBench(t)
		b.up("web", policy(apijail.Never))
		want := b.machine.Contents()
		record := strings.Replace(b.read("web.yaml"), "epair_ordinal: 1", "epair_ordinal: 1\nprovisioning: true", 1)
		b.do(os.WriteFile(filepath.Join(b.dir, "web.yaml"), []byte(record), 0o600))
		b.do(b.machine.MarkExited("keel-web", 0)) // it was never started
		for _, f := range undo[:n] {
			b.do(f(b))
		}
		b.start()
		b.pass(0)
		b.ok("web")
		b.equal("host", b.machine.Contents(), want)
	}
}
