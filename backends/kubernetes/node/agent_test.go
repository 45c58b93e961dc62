package node

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/test/nodetest"
)

func TestAgent_visitsWhatIsDue(t *testing.T) {
	w := newAgentWorld(t)
	w.write(t, "a.yaml", nodetest.Doc("a", "one"))
	w.write(t, "b.yaml", strings.Replace(nodetest.Doc("b", "one"), "spec: {", "spec: {interval: 30s, ", 1))
	w.pass(t)
	if w.content(t, "a") != "one" || w.content(t, "b") != "one" {
		t.Fatalf("a holds %q, b %q", w.content(t, "a"), w.content(t, "b"))
	}
	w.looks()
	for _, tt := range []struct {
		name string
		do   func()
		wait time.Duration
		want int64 // looks
	}{
		{"nothing is due", func() {}, 28 * time.Second, 0},
		{"an interval of its own", func() {}, 2 * time.Second, 1},
		{"the default interval", func() {}, 10*time.Minute - 30*time.Second, 20},
		{"another content: a look before the lock, under it and after", func() { w.write(t, "a.yaml", nodetest.Doc("a", "two")) }, 2 * time.Second, 3},
		{"the same content, written again", func() { w.write(t, "a.yaml", "# again\n"+nodetest.Doc("a", "two")) }, 2 * time.Second, 0},
		{"another name of the file", func() { w.remove(t, "a.yaml"); w.write(t, "c.yaml", nodetest.Doc("a", "two")) }, 2 * time.Second, 0},
		{"a clock that goes back makes nobody wait for longer", func() { w.clock = w.clock.Add(-time.Hour) }, 30 * time.Second, 1},
	} {
		tt.do()
		w.later(t, tt.wait)
		if got := w.looks(); got != tt.want {
			t.Errorf("%s: %d looks, want %d", tt.name, got, tt.want)
		}
	}
	w.Edit(t, "ignored")
	if err := os.WriteFile(filepath.Join(w.Env.Root, "etc/b"), []byte("by hand"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.later(t, 30*time.Second)
	if got := w.content(t, "b"); got != "one" {
		t.Errorf("after a hand edit and its interval b holds %q", got)
	}
}

func TestAgent_backsOff(t *testing.T) {
	w := newAgentWorld(t)
	*w.Handler.Fail = errors.New("disk on fire")
	w.write(t, "a.yaml", nodetest.Doc("a", "one"))
	w.pass(t)
	if err := os.Remove(filepath.Join(w.Env.Root, "etc/a")); err != nil {
		t.Fatal(err)
	}
	calls := func() int64 { return w.Handler.Calls.Swap(0) }
	calls()
	var tries []int // seconds after the first failure
	for s := 2; s <= 1300; s += 2 {
		w.later(t, poll)
		if calls() > 0 {
			tries = append(tries, s)
			_ = os.Remove(filepath.Join(w.Env.Root, "etc/a")) // or there would be nothing to do
		}
	}
	if diff := cmp.Diff([]int{2, 4, 8, 16, 32, 64, 128, 256, 512, 812, 1112}, tries); diff != "" {
		t.Errorf("tries (-want +got):\n%s", diff)
	}
	if n := strings.Count(w.log.String(), "run failed"); n != 1 {
		t.Errorf("the same error was logged %d times:\n%s", n, &w.log)
	}
	*w.Handler.Fail = nil
	w.later(t, 5*time.Minute)
	if s := w.status(t, "a"); s.LastResult != v1alpha1.Success || w.content(t, "a") != "one" {
		t.Errorf("status %+v, content %q", s, w.content(t, "a"))
	}
	if !strings.Contains(w.log.String(), "run changed the machine") {
		t.Errorf("log:\n%s", &w.log)
	}
}

func TestAgent_waitIsNoFailure(t *testing.T) {
	w := newAgentWorld(t)
	w.write(t, "a.yaml", nodetest.Doc("a", "one"))
	*w.Handler.Fail = &drift.Wait{Until: w.clock.Add(time.Minute), Reason: "dpkg is busy"}
	w.pass(t)
	if got := w.states(t); len(got) != 0 {
		t.Errorf("a Wait wrote %v", got)
	}
	_ = os.Remove(filepath.Join(w.Env.Root, "etc/a"))
	w.Handler.Calls.Store(0)
	w.later(t, time.Minute-poll)
	if n := w.Handler.Calls.Load(); n != 0 {
		t.Errorf("%d tries before the time", n)
	}
	*w.Handler.Fail = nil
	w.later(t, poll)
	if s := w.status(t, "a"); s.LastResult != v1alpha1.Success {
		t.Errorf("status %+v", s)
	}
}

// Who edits a NodeConfig that waits is not made to wait.
func TestAgent_editEndsAWait(t *testing.T) {
	w := newAgentWorld(t)
	w.write(t, "a.yaml", nodetest.Doc("a", "one"))
	*w.Handler.Fail = &drift.Wait{Until: w.clock.Add(time.Hour), Reason: "dpkg is busy"}
	w.pass(t)
	*w.Handler.Fail = nil
	w.write(t, "a.yaml", nodetest.Doc("a", "two"))
	w.later(t, 2*poll)
	if got := w.content(t, "a"); got != "two" {
		t.Errorf("content %q", got)
	}
	if s := w.status(t, "a"); s.LastResult != v1alpha1.Success || !s.Changed {
		t.Errorf("status %+v", s)
	}
}

func TestAgent_mistakesAreNotRetried(t *testing.T) {
	w := newAgentWorld(t)
	w.write(t, "a.yaml", nodetest.Doc("a", "one"))
	w.write(t, "b.yaml", strings.Replace(nodetest.Doc("b", "one"), "path: /", "path: ", 1))
	w.pass(t)
	w.later(t, 5*time.Minute)
	s := w.status(t, "b")
	if want := filepath.Join(w.settings.ConfigDir, "b.yaml") + ": params.path: must be absolute"; s.Message != want || s.LastResult != v1alpha1.Error {
		t.Errorf("status %+v, want %q", s, want)
	}
	if n := strings.Count(w.log.String(), "must be absolute"); n != 1 {
		t.Errorf("the mistake was logged %d times:\n%s", n, &w.log)
	}
	if w.content(t, "a") != "one" {
		t.Error("the other NodeConfig was not kept")
	}
}

// What a file said before it had a mistake goes on being kept, and the status
// says what is wrong.
func TestAgent_lastGoodContentIsKept(t *testing.T) {
	w := newAgentWorld(t)
	w.write(t, "a.yaml", nodetest.Doc("a", "one"))
	w.pass(t)
	digest := w.status(t, "a").TriggerDigest
	w.write(t, "a.yaml", "apiVersion: keel.tlspu.io/v1alpha1\nkind: NodeCon")
	w.later(t, poll)
	s := w.status(t, "a")
	if s.LastResult != v1alpha1.Error || !strings.HasSuffix(s.Message, "; what it said before is kept") || s.TriggerDigest != digest {
		t.Errorf("status %+v", s)
	}
	if err := os.Remove(filepath.Join(w.Env.Root, "etc/a")); err != nil {
		t.Fatal(err)
	}
	w.later(t, 10*time.Minute)
	if got := w.content(t, "a"); got != "one" {
		t.Errorf("content %q", got)
	}
	w.write(t, "a.yaml", nodetest.Doc("a", "one"))
	w.later(t, poll)
	if s := w.status(t, "a"); s.LastResult != v1alpha1.Success {
		t.Errorf("status %+v", s)
	}
}

func TestAgent_conflict(t *testing.T) {
	w := newAgentWorld(t)
	if err := os.MkdirAll(filepath.Join(w.Env.Root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(w.Env.Root, "link")); err != nil {
		t.Fatal(err)
	}
	w.write(t, "b.yaml", nodetest.Doc("b", "old"))
	w.write(t, "a.yaml", strings.NewReplacer("/etc/a", "/link/b", "name: c", "name: c").Replace(nodetest.Doc("a", "young")))
	w.pass(t)
	if got := w.content(t, "b"); got != "young" { // without times the name decides
		t.Errorf("content %q", got)
	}
	w.write(t, "b.yaml", strings.Replace(nodetest.Doc("b", "old"), "name: b", "name: b, creationTimestamp: 2026-01-01T00:00:00Z", 1))
	w.later(t, poll)
	if got := w.content(t, "b"); got != "old" {
		t.Errorf("content %q", got)
	}
	s := w.status(t, "a")
	if s.LastResult != v1alpha1.Error || !strings.Contains(s.Message, "path:/link/b belongs to the older NodeConfig b") {
		t.Errorf("status %+v", s)
	}
	w.later(t, time.Hour)
	if got := w.content(t, "b"); got != "old" {
		t.Errorf("content %q: they take turns", got)
	}
	w.remove(t, "b.yaml")
	w.later(t, poll)
	if got := w.content(t, "b"); got != "young" {
		t.Errorf("content %q after the older one is gone", got)
	}
}

func TestAgent_suspended(t *testing.T) {
	w := newAgentWorld(t)
	w.write(t, "a.yaml", strings.Replace(nodetest.Doc("a", "one"), "spec: {", "spec: {suspend: true, ", 1))
	w.write(t, "b.yaml", strings.Replace(nodetest.Doc("b", "one"), "/etc/b", "/etc/a", 1))
	w.pass(t)
	if s := w.status(t, "a"); s.Message != "suspended" || s.LastResult != v1alpha1.Success {
		t.Errorf("status %+v", s)
	}
	if w.content(t, "a") != "" {
		t.Error("a suspended NodeConfig, or one that claims what it owns, was applied")
	}
	w.write(t, "a.yaml", nodetest.Doc("a", "one"))
	w.later(t, poll)
	if s := w.status(t, "a"); s.Message != "configuration applied" || w.content(t, "a") != "one" {
		t.Errorf("status %+v, content %q", s, w.content(t, "a"))
	}
}

func TestAgent_pendingRestart(t *testing.T) {
	w := newAgentWorld(t)
	w.Systemd.Change(t, func(u *nodetest.Units) { u.Units["b.service"].Fails = 2 })
	w.write(t, "a.yaml", strings.Replace(nodetest.Doc("a", "one"), "spec: {", "spec: {services: [a.service, b.service], ", 1))
	w.pass(t)
	if s := w.status(t, "a"); !s.RestartPending || s.LastResult != v1alpha1.Error || !s.Changed {
		t.Errorf("status %+v", s)
	}
	w.later(t, 2*poll)
	w.Restarts(t, "daemon-reload", "restart a.service", "restart b.service", "restart b.service", "restart b.service")
	if s := w.status(t, "a"); s.RestartPending || s.LastResult != v1alpha1.Success || s.Message != "services restarted" {
		t.Errorf("status %+v", s)
	}
	w.later(t, time.Hour)
	w.Restarts(t)
}

// The restarts of a NodeConfig that is gone are still owed.
func TestAgent_orphanJournal(t *testing.T) {
	w := newAgentWorld(t)
	w.Systemd.Change(t, func(u *nodetest.Units) { u.Units["b.service"].Fails = 2 })
	w.write(t, "a.yaml", strings.Replace(nodetest.Doc("a", "one"), "spec: {", "spec: {services: [a.service, b.service], ", 1))
	w.pass(t)
	w.remove(t, "a.yaml")
	w.Systemd.Log(t)
	w.later(t, poll)
	metrics := w.metrics(t)
	for _, want := range []string{`keel_nodeconfig_restart_pending{nodeconfig="restart/a"} 1`, `keel_nodeconfig_success{nodeconfig="restart/a"} 0`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no metric %s", want)
		}
	}
	w.stop(t) // also when the agent is another
	w.later(t, 2*poll)
	w.Restarts(t, "restart b.service", "restart b.service")
	if entries, err := os.ReadDir(filepath.Join(w.Env.Root, nodeconfig.JournalDir)); err != nil || len(entries) != 0 {
		t.Errorf("journals %v, %v", entries, err)
	}
	if got := w.states(t); len(got) != 0 {
		t.Errorf("statuses %v", got)
	}
	if len(w.agent.entries) != 0 {
		t.Errorf("%d entries are remembered", len(w.agent.entries))
	}
	if metrics := w.metrics(t); strings.Contains(metrics, "restart/a") || !strings.Contains(metrics, `keel_runs_total{handler="none"} 1`) {
		t.Errorf("metrics of what is not owed any more, or none of its visit:\n%s", metrics)
	}
}

// An edit that has a mistake does not hide that a restart is pending.
func TestAgent_restartPendingBesideAMistake(t *testing.T) {
	w := newAgentWorld(t)
	w.Systemd.Change(t, func(u *nodetest.Units) { u.Units["b.service"].Fails = 99 })
	w.write(t, "a.yaml", strings.Replace(nodetest.Doc("a", "one"), "spec: {", "spec: {services: [b.service], ", 1))
	w.pass(t)
	w.stop(t) // the next agent does not know what the file said before
	w.write(t, "a.yaml", strings.Replace(nodetest.Doc("a", "one"), "setting", "seting", 1))
	w.pass(t)
	if s := w.status(t, "a"); !s.RestartPending || !strings.Contains(s.Message, "seting") {
		t.Errorf("status %+v", s)
	}
	w.Systemd.Log(t)
	w.Systemd.Change(t, func(u *nodetest.Units) { u.Units["b.service"].Fails = 0 })
	w.later(t, time.Minute)
	w.Restarts(t, "restart b.service") // once it was owed, the NodeConfig's mistake does not matter
}

func TestAgent_brokenOrphanJournalRefuses(t *testing.T) {
	w := newAgentWorld(t)
	file := filepath.Join(w.Env.Root, nodeconfig.JournalDir, "gone.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.pass(t)
	w.later(t, time.Minute)
	if !strings.Contains(w.log.String(), nodeconfig.JournalDir+"/gone.json") {
		t.Errorf("log:\n%s", &w.log)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	w.Restarts(t)
}

// A unit that was misspelt is owed no restart once the NodeConfig was mended.
func TestAgent_misspeltUnit(t *testing.T) {
	w := newAgentWorld(t)
	with := func(units string) string {
		return strings.Replace(nodetest.Doc("a", "one"), "spec: {", "spec: {services: ["+units+"], ", 1)
	}
	w.write(t, "a.yaml", with("a.service, aa.service"))
	w.pass(t)
	if s := w.status(t, "a"); !s.RestartPending || !strings.Contains(s.Message, "restart aa.service") {
		t.Errorf("status %+v", s)
	}
	w.write(t, "a.yaml", with("a.service"))
	w.later(t, poll)
	if s := w.status(t, "a"); s.RestartPending || s.LastResult != v1alpha1.Success {
		t.Errorf("status %+v", s)
	}
	if got, want := w.Systemd.Log(t), []string{"daemon-reload", "restart a.service", "restart aa.service"}; !slices.Equal(got, want) {
		t.Errorf("systemd was told %q, want %q", got, want)
	}
}

// A parameter that the handler does not know is told where people look, beside a
// mistake as well: it may be its reason.
func TestAgent_unknownParametersAreTold(t *testing.T) {
	w := newAgentWorld(t)
	w.write(t, "a.yaml", strings.Replace(nodetest.Doc("a", "one"), "value:", "valeu: x, value:", 1))
	w.write(t, "b.yaml", strings.Replace(nodetest.Doc("b", "one"), "path: /", "pth: /, path: ", 1))
	w.pass(t)
	if s := w.status(t, "a"); s.Message != "configuration applied; unknown and without effect: spec.params.valeu" {
		t.Errorf("status %+v", s)
	}
	if s := w.status(t, "b"); !strings.HasSuffix(s.Message, "params.path: must be absolute; unknown and without effect: spec.params.pth") {
		t.Errorf("status %+v", s)
	}
}
