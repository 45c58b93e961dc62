package jail_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	apijail "github.com/tlspu/keel/api/jail"
)

func policy(p apijail.RestartPolicy) func(*apijail.Spec) {
	return func(s *apijail.Spec) { s.RestartPolicy = p }
}

func TestRestart_order(t *testing.T) {
	b := newBench(t)
	b.up("web", nil)
	d := b.machine.Driver()
	b.do(b.machine.MarkExited("keel-web", 1))
	b.do(d.Mounts.Unmount(t.Context(), "/tank/keel/jails/web/var/db"))
	b.do(d.Network.Detach(t.Context(), "epair1"))
	b.do(d.Jails.RemoveLimits(t.Context(), "keel-web"))
	b.pass(5 * time.Second)
	b.ok("web")
	b.equal("steps", b.took("web"), []string{
		"mount tank/keel/volumes/web-data at /var/db of keel-web",
		"attach keel-web to keel0 by epair1 with 10.0.60.5/24",
		"limit keel-web to 1.5 cpu and 512M of memory",
		"start /usr/local/sbin/web in keel-web",
		"record that web was started",
	})
	b.running("web", true)
}

func TestRestart_onlyWhatIsMissing(t *testing.T) {
	b := newBench(t)
	b.up("web", nil)
	b.do(b.machine.MarkExited("keel-web", 0))
	b.pass(5 * time.Second)
	b.ok("web")
	b.equal("steps", b.took("web")[0], "start /usr/local/sbin/web in keel-web")
	b.equal("starts", b.machine.Starts("keel-web"), 2)
}

func TestRestart_failureKeepsTheJailAndCools(t *testing.T) {
	b := newBench(t)
	b.up("web", nil)
	b.do(b.machine.MarkExited("keel-web", 1))
	before := b.contents()
	b.machine.Fail("start", "keel-web", errors.New("broken"))
	b.pass(5 * time.Second)
	b.fails("web", "start keel-web: broken")
	b.equal("host", b.contents(), before)
	b.machine.Fail("start", "keel-web", nil)
	b.pass(1999 * time.Millisecond)
	b.fails("web", "waits until")
	b.pass(time.Millisecond)
	b.ok("web")
	b.running("web", true)
}

func TestRestart_policy(t *testing.T) {
	tests := []struct {
		policy    apijail.RestartPolicy
		status    int
		forgotten bool // the agent that waited is gone
		want      bool
	}{
		{apijail.Always, 0, false, true},
		{apijail.Always, 1, false, true},
		{apijail.OnFailure, 0, false, false},
		{apijail.OnFailure, 1, false, true},
		{apijail.OnFailure, -1, false, true},
		{apijail.OnFailure, 0, true, true},
		{apijail.Never, 0, false, false},
		{apijail.Never, 1, false, false},
		{apijail.Never, 1, true, false},
	}
	for _, tt := range tests {
		t.Run(string(tt.policy), func(t *testing.T) {
			b := newBench(t)
			b.up("web", policy(tt.policy))
			b.do(b.machine.MarkExited("keel-web", tt.status))
			if tt.forgotten {
				b.do(b.machine.ForgetExits())
			}
			b.pass(5 * time.Second)
			b.ok("web")
			b.running("web", tt.want)
		})
	}
}

func TestRestart_neverIsStillMadeAfterReboot(t *testing.T) {
	b := newBench(t)
	b.up("web", policy(apijail.Never))
	b.do(b.machine.Reboot())
	b.pass(5 * time.Second)
	b.ok("web")
	b.running("web", true)
}

// TestRestart_backoff ends the command right after every start, and passes every
// five seconds as an agent does.
func TestRestart_backoff(t *testing.T) {
	b := newBench(t)
	b.up("web", nil)
	start, last := b.now, b.now
	var gaps []time.Duration
	for b.now.Sub(start) < 30*time.Minute {
		b.do(b.machine.MarkExited("keel-web", 1))
		before := b.machine.Starts("keel-web")
		b.pass(5 * time.Second)
		if b.machine.Starts("keel-web") > before {
			gaps = append(gaps, b.now.Sub(last))
			last = b.now
		}
	}
	var want []time.Duration
	for _, s := range []int{5, 5, 5, 10, 20, 35, 65, 130, 260, 300, 300, 300, 300} {
		want = append(want, time.Duration(s)*time.Second)
	}
	if diff := cmp.Diff(want, gaps); diff != "" {
		t.Errorf("time between starts (-want +got):\n%s", diff)
	}
}

func TestRestart_backoffEndsOnlyByUnbrokenRunning(t *testing.T) {
	b := newBench(t)
	b.up("web", nil)
	crash := func() {
		t.Helper()
		b.do(b.machine.MarkExited("keel-web", 1))
	}
	crash()
	for range 4 { // 2, 4, 8 and 16 s are armed
		b.pass(time.Minute)
		b.ok("web")
		crash()
	}
	b.pass(time.Minute) // 32 s
	for range 11 {      // seen running for 50 s
		b.pass(5 * time.Second)
	}
	crash()
	b.pass(time.Second) // 64 s
	b.ok("web")
	crash()
	b.pass(63 * time.Second)
	b.fails("web", "web is started again after a pause")
	b.pass(time.Second) // 128 s
	b.ok("web")
	for range 14 { // seen running for 65 s
		b.pass(5 * time.Second)
		b.ok("web")
	}
	crash()
	b.pass(time.Second)
	b.ok("web")
	crash()
	b.pass(999 * time.Millisecond)
	b.fails("web", "waits until")
	b.pass(time.Millisecond)
	b.ok("web")
}

func TestRepair_limitsOnlyWhenTheyDiffer(t *testing.T) {
	b := newBench(t)
	b.up("web", nil)
	b.do(b.machine.Driver().Jails.SetLimits(t.Context(), "keel-web", limits(150, 1)))
	b.pass(0) // even while it cools down
	b.ok("web")
	b.equal("steps", b.took("web"), []string{"limit keel-web to 1.5 cpu and 512M of memory"})
	b.do(b.keeper.Record(t.Context(), spec("web", func(s *apijail.Spec) { s.Resources = apijail.Resources{CPU: "2", Memory: "1G"} })))
	b.pass(0)
	b.ok("web")
	b.equal("steps", b.took("web"), []string{"limit keel-web to 2 cpu and 1G of memory"})
	if !b.has("limits keel-web cpu=200 memory=1073741824") {
		t.Error(b.contents())
	}
}

func TestRepair_quotaAndNetwork(t *testing.T) {
	b := newBench(t)
	b.up("web", nil)
	want := b.machine.Contents()
	d := b.machine.Driver()
	b.do(d.Datasets.SetQuota(t.Context(), "tank/keel/volumes/web-data", 5))
	b.do(d.Network.Detach(t.Context(), "epair1"))
	b.pass(5 * time.Second)
	b.ok("web")
	b.equal("host", b.machine.Contents(), want)
	b.equal("starts", b.machine.Starts("keel-web"), 1)
}

func TestRepair_doesNotMountUnderARunningCommand(t *testing.T) {
	b := newBench(t)
	b.up("web", nil)
	b.do(b.machine.Driver().Mounts.Unmount(t.Context(), "/tank/keel/jails/web/var/db"))
	b.pass(5 * time.Second)
	b.fails("web", "keel-web runs without it")
	b.equal("mounted", b.has("mount /tank/keel/volumes/web-data on /tank/keel/jails/web/var/db"), false)
	b.do(b.machine.MarkExited("keel-web", 0))
	b.pass(5 * time.Second)
	b.ok("web")
	b.equal("mounted", b.has("mount /tank/keel/volumes/web-data on /tank/keel/jails/web/var/db"), true)
}

func TestRepair_anotherBridgeWaitsForTheNextStart(t *testing.T) {
	b := newBench(t)
	b.up("web", nil)
	b.do(b.keeper.Record(t.Context(), spec("web", func(s *apijail.Spec) { s.Network.Bridge = "keel7" })))
	b.pass(5 * time.Second)
	b.ok("web")
	b.equal("note", b.result("web").Steps[0].Step.Note, "keel-web stays on keel0 until it is started again")
	if !b.has("link epair1 of keel-web on keel0 address=10.0.60.5/24") {
		t.Error(b.contents())
	}
	b.do(b.machine.MarkExited("keel-web", 1))
	b.pass(5 * time.Second)
	b.ok("web")
	if !b.has("link epair1 of keel-web on keel7 address=10.0.60.5/24") {
		t.Error(b.contents())
	}
}
