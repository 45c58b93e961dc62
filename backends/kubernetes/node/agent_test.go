package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/plugin"
	"github.com/tlspu/keel/core/restart"
	"github.com/tlspu/keel/test/contract"
)

// An agentWorld is a machine with an agent, whose clock moves by hand.
type agentWorld struct {
	*world
	settings settings
	agent    *agent
	loop     *drift.Loop
	clock    time.Time
	out, log bytes.Buffer
}

func newAgentWorld(t *testing.T) *agentWorld {
	w := &agentWorld{world: newWorld(t), clock: now}
	dir := t.TempDir()
	w.settings = *Role().Settings().(*settings)
	w.settings.HostRoot = w.env.Root
	w.settings.ConfigDir, w.settings.StateDir = filepath.Join(dir, "configs"), filepath.Join(dir, "var/state")
	if err := os.Mkdir(w.settings.ConfigDir, 0o755); err != nil {
		t.Fatal(err)
	}
	w.env.Now = func() time.Time { return w.clock }
	w.env.Out = &w.out
	w.env.UID = os.Geteuid()
	w.env.Log = slog.New(slog.NewTextHandler(&w.log, nil))
	return w
}

// pass makes one pass; the first one starts the agent.
func (w *agentWorld) pass(t *testing.T) {
	t.Helper()
	if w.agent == nil {
		a, err := newAgent(w.env, w.settings)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(a.close)
		w.agent = a
		w.loop = a.loop(t.Context())
	}
	w.loop.Pass(t.Context())
}

// later lets time go by, with a pass every two seconds.
func (w *agentWorld) later(t *testing.T, d time.Duration) {
	t.Helper()
	for end := w.clock.Add(d); w.clock.Before(end); {
		w.clock = w.clock.Add(min(poll, end.Sub(w.clock)))
		w.pass(t)
	}
}

// stop ends the agent, so that the next pass starts another.
func (w *agentWorld) stop() {
	w.agent.close()
	w.agent = nil
}

// write writes a file of NodeConfigs that is not of this moment.
func (w *agentWorld) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(w.settings.ConfigDir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	old := w.clock.Add(-time.Minute)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
}

func (w *agentWorld) remove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(w.settings.ConfigDir, name)); err != nil {
		t.Fatal(err)
	}
}

// status reads the status of a NodeConfig.
func (w *agentWorld) status(t *testing.T, name string) (s v1alpha1.NodeStatus) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(w.settings.StateDir, name+".json"))
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// states lists the files of the folder of statuses.
func (w *agentWorld) states(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(w.settings.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// looks gives how often the handler looked since it was asked last.
func (w *agentWorld) looks() int64 { return w.handler.looks.Swap(0) }

func (w *agentWorld) content(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(w.env.Root, "etc", name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}

func TestAgent_visitsWhatIsDue(t *testing.T) {
	w := newAgentWorld(t)
	w.write(t, "a.yaml", doc("a", "one"))
	w.write(t, "b.yaml", strings.Replace(doc("b", "one"), "spec: {", "spec: {interval: 30s, ", 1))
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
		{"another content: a look before the lock, under it and after", func() { w.write(t, "a.yaml", doc("a", "two")) }, 2 * time.Second, 3},
		{"the same content, written again", func() { w.write(t, "a.yaml", "# again\n"+doc("a", "two")) }, 2 * time.Second, 0},
		{"another name of the file", func() { w.remove(t, "a.yaml"); w.write(t, "c.yaml", doc("a", "two")) }, 2 * time.Second, 0},
		{"a clock that goes back", func() { w.clock = w.clock.Add(-time.Hour) }, 2 * time.Second, 2},
	} {
		tt.do()
		w.later(t, tt.wait)
		if got := w.looks(); got != tt.want {
			t.Errorf("%s: %d looks, want %d", tt.name, got, tt.want)
		}
	}
	w.edit(t, "ignored")
	if err := os.WriteFile(filepath.Join(w.env.Root, "etc/b"), []byte("by hand"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.later(t, 30*time.Second)
	if got := w.content(t, "b"); got != "one" {
		t.Errorf("after a hand edit and its interval b holds %q", got)
	}
}

func TestAgent_backsOff(t *testing.T) {
	w := newAgentWorld(t)
	*w.handler.fail = errors.New("disk on fire")
	w.write(t, "a.yaml", doc("a", "one"))
	w.pass(t)
	if err := os.Remove(filepath.Join(w.env.Root, "etc/a")); err != nil {
		t.Fatal(err)
	}
	calls := func() int64 { return w.handler.calls.Swap(0) }
	calls()
	var tries []int // seconds after the first failure
	for s := 2; s <= 1300; s += 2 {
		w.later(t, poll)
		if calls() > 0 {
			tries = append(tries, s)
			_ = os.Remove(filepath.Join(w.env.Root, "etc/a")) // or there would be nothing to do
		}
	}
	if diff := cmp.Diff([]int{2, 4, 8, 16, 32, 64, 128, 256, 512, 812, 1112}, tries); diff != "" {
		t.Errorf("tries (-want +got):\n%s", diff)
	}
	if n := strings.Count(w.log.String(), "visit failed"); n != 1 {
		t.Errorf("the same error was logged %d times:\n%s", n, &w.log)
	}
	*w.handler.fail = nil
	w.later(t, 5*time.Minute)
	if s := w.status(t, "a"); s.LastResult != v1alpha1.Success || w.content(t, "a") != "one" {
		t.Errorf("status %+v, content %q", s, w.content(t, "a"))
	}
	if !strings.Contains(w.log.String(), "visit changed the machine") {
		t.Errorf("log:\n%s", &w.log)
	}
}

func TestAgent_waitIsNoFailure(t *testing.T) {
	w := newAgentWorld(t)
	w.write(t, "a.yaml", doc("a", "one"))
	*w.handler.fail = &drift.Wait{Until: w.clock.Add(time.Minute), Reason: "dpkg is busy"}
	w.pass(t)
	if got := w.states(t); len(got) != 0 {
		t.Errorf("a Wait wrote %v", got)
	}
	_ = os.Remove(filepath.Join(w.env.Root, "etc/a"))
	w.handler.calls.Store(0)
	w.later(t, time.Minute-poll)
	if n := w.handler.calls.Load(); n != 0 {
		t.Errorf("%d tries before the time", n)
	}
	*w.handler.fail = nil
	w.later(t, poll)
	if s := w.status(t, "a"); s.LastResult != v1alpha1.Success {
		t.Errorf("status %+v", s)
	}
}

func TestAgent_statusIsWrittenOnlyWhenItIsNews(t *testing.T) {
	w := newAgentWorld(t)
	w.write(t, "a.yaml", strings.Replace(doc("a", "one"), "name: a", "name: a, generation: 7", 1))
	w.pass(t)
	digest := w.status(t, "a").TriggerDigest
	if !strings.HasPrefix(digest, "sha256:") || len(digest) != 71 {
		t.Errorf("digest %q", digest)
	}
	want := fmt.Sprintf(`{
  "lastRunTime": "2026-10-15T12:00:00Z",
  "lastResult": "success",
  "changed": true,
  "restartPending": false,
  "message": "configuration applied",
  "observedGeneration": 7,
  "triggerDigest": %q
}
`, digest)
	got, err := os.ReadFile(filepath.Join(w.settings.StateDir, "a.json"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	before := contract.Snapshot(t, w.settings.StateDir)
	w.later(t, time.Hour)
	w.stop()
	w.pass(t)
	before.Unchanged(t, w.settings.StateDir, "an hour of nothing to do, and a new agent")

	w.write(t, "a.yaml", strings.Replace(doc("a", "one"), "name: a", "name: a, generation: 8", 1))
	w.later(t, poll)
	if s := w.status(t, "a"); s.ObservedGeneration != 8 || s.Changed || s.Message != "configuration in place" {
		t.Errorf("status of a new generation: %+v", s)
	}
}

func TestAgent_statusOfWhatIsGone(t *testing.T) {
	w := newAgentWorld(t)
	w.write(t, "a.yaml", doc("a", "one"))
	w.write(t, "b.yaml", doc("b", "one"))
	w.pass(t)
	foreign := filepath.Join(w.settings.StateDir, "foreign.json")
	if err := os.WriteFile(foreign, []byte(`{"name":"no status"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	w.remove(t, "b.yaml")
	w.later(t, poll)
	if diff := cmp.Diff([]string{"a.json", "foreign.json"}, w.states(t)); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
	if w.content(t, "b") != "one" {
		t.Error("what the NodeConfig did was undone")
	}
	w.stop()
	w.remove(t, "a.yaml")
	w.write(t, "broken.yaml", "a: [")
	w.pass(t)
	w.later(t, poll)
	if diff := cmp.Diff([]string{"a.json", "foreign.json"}, w.states(t)); diff != "" {
		t.Errorf("statuses while a file is broken, which may hold a (-want +got):\n%s", diff)
	}
	w.remove(t, "broken.yaml")
	w.later(t, poll)
	if diff := cmp.Diff([]string{"foreign.json"}, w.states(t)); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
}

func TestAgent_brokenStatusIsSetAside(t *testing.T) {
	for _, content := range []string{"", "{", `{"lastResult":"success"}`, "null", `{"lastRunTime":"2026-10-15T12:00:00Z","lastResult":"fine"}`} {
		w := newAgentWorld(t)
		w.write(t, "a.yaml", doc("a", "one"))
		if err := os.MkdirAll(w.settings.StateDir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(w.settings.StateDir, "a.json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		w.pass(t)
		if s := w.status(t, "a"); s.LastResult != v1alpha1.Success {
			t.Errorf("status %+v", s)
		}
		aside, err := os.ReadFile(filepath.Join(w.settings.StateDir, "a.json.broken"))
		if err != nil || string(aside) != content {
			t.Errorf("set aside: %q, %v; want %q", aside, err, content)
		}
		if !strings.Contains(w.log.String(), "a.json.broken") {
			t.Errorf("it was not said:\n%s", &w.log)
		}
	}
}

func TestAgent_mistakesAreNotRetried(t *testing.T) {
	w := newAgentWorld(t)
	w.write(t, "a.yaml", doc("a", "one"))
	w.write(t, "b.yaml", strings.Replace(doc("b", "one"), "path: /", "path: ", 1))
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
	w.write(t, "a.yaml", doc("a", "one"))
	w.pass(t)
	digest := w.status(t, "a").TriggerDigest
	w.write(t, "a.yaml", "apiVersion: keel.tlspu.io/v1alpha1\nkind: NodeCon")
	w.later(t, poll)
	s := w.status(t, "a")
	if s.LastResult != v1alpha1.Error || !strings.HasSuffix(s.Message, "; what it said before is kept") || s.TriggerDigest != digest {
		t.Errorf("status %+v", s)
	}
	if err := os.Remove(filepath.Join(w.env.Root, "etc/a")); err != nil {
		t.Fatal(err)
	}
	w.later(t, 10*time.Minute)
	if got := w.content(t, "a"); got != "one" {
		t.Errorf("content %q", got)
	}
	w.write(t, "a.yaml", doc("a", "one"))
	w.later(t, poll)
	if s := w.status(t, "a"); s.LastResult != v1alpha1.Success {
		t.Errorf("status %+v", s)
	}
}

func TestAgent_conflict(t *testing.T) {
	w := newAgentWorld(t)
	if err := os.MkdirAll(filepath.Join(w.env.Root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(w.env.Root, "link")); err != nil {
		t.Fatal(err)
	}
	w.write(t, "b.yaml", doc("b", "old"))
	w.write(t, "a.yaml", strings.NewReplacer("/etc/a", "/link/b", "name: c", "name: c").Replace(doc("a", "young")))
	w.pass(t)
	if got := w.content(t, "b"); got != "young" { // without times the name decides
		t.Errorf("content %q", got)
	}
	w.write(t, "b.yaml", strings.Replace(doc("b", "old"), "name: b", "name: b, creationTimestamp: 2026-01-01T00:00:00Z", 1))
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
	w.write(t, "a.yaml", strings.Replace(doc("a", "one"), "spec: {", "spec: {suspend: true, ", 1))
	w.write(t, "b.yaml", strings.Replace(doc("b", "one"), "/etc/b", "/etc/a", 1))
	w.pass(t)
	if s := w.status(t, "a"); s.Message != "suspended" || s.LastResult != v1alpha1.Success {
		t.Errorf("status %+v", s)
	}
	if w.content(t, "a") != "" {
		t.Error("a suspended NodeConfig, or one that claims what it owns, was applied")
	}
	w.write(t, "a.yaml", doc("a", "one"))
	w.later(t, poll)
	if s := w.status(t, "a"); s.Message != "configuration applied" || w.content(t, "a") != "one" {
		t.Errorf("status %+v, content %q", s, w.content(t, "a"))
	}
}

func TestAgent_pendingRestart(t *testing.T) {
	w := newAgentWorld(t)
	w.systemd.change(t, func(u *units) { u.Units["b.service"].Fails = 2 })
	w.write(t, "a.yaml", strings.Replace(doc("a", "one"), "spec: {", "spec: {services: [a.service, b.service], ", 1))
	w.pass(t)
	if s := w.status(t, "a"); !s.RestartPending || s.LastResult != v1alpha1.Error || !s.Changed {
		t.Errorf("status %+v", s)
	}
	w.later(t, 2*poll)
	w.restarts(t, "daemon-reload", "restart a.service", "restart b.service", "restart b.service", "restart b.service")
	if s := w.status(t, "a"); s.RestartPending || s.LastResult != v1alpha1.Success || s.Message != "services restarted" {
		t.Errorf("status %+v", s)
	}
	w.later(t, time.Hour)
	w.restarts(t)
}

// The restarts of a NodeConfig that is gone are still owed.
func TestAgent_orphanJournal(t *testing.T) {
	w := newAgentWorld(t)
	w.systemd.change(t, func(u *units) { u.Units["b.service"].Fails = 2 })
	w.write(t, "a.yaml", strings.Replace(doc("a", "one"), "spec: {", "spec: {services: [a.service, b.service], ", 1))
	w.pass(t)
	w.remove(t, "a.yaml")
	w.systemd.log(t)
	w.later(t, poll)
	w.stop() // also when the agent is another
	w.later(t, 2*poll)
	w.restarts(t, "restart b.service", "restart b.service")
	if entries, err := os.ReadDir(filepath.Join(w.env.Root, journalDir)); err != nil || len(entries) != 0 {
		t.Errorf("journals %v, %v", entries, err)
	}
	if got := w.states(t); len(got) != 0 {
		t.Errorf("statuses %v", got)
	}
	if len(w.agent.entries) != 0 {
		t.Errorf("%d entries are remembered", len(w.agent.entries))
	}
}

// An edit that has a mistake does not hide that a restart is pending.
func TestAgent_restartPendingBesideAMistake(t *testing.T) {
	w := newAgentWorld(t)
	w.systemd.change(t, func(u *units) { u.Units["b.service"].Fails = 99 })
	w.write(t, "a.yaml", strings.Replace(doc("a", "one"), "spec: {", "spec: {services: [b.service], ", 1))
	w.pass(t)
	w.stop() // the next agent does not know what the file said before
	w.write(t, "a.yaml", strings.Replace(doc("a", "one"), "setting", "seting", 1))
	w.pass(t)
	if s := w.status(t, "a"); !s.RestartPending || !strings.Contains(s.Message, "seting") {
		t.Errorf("status %+v", s)
	}
	w.systemd.log(t)
	w.systemd.change(t, func(u *units) { u.Units["b.service"].Fails = 0 })
	w.later(t, time.Minute)
	w.restarts(t, "restart b.service") // once it was owed, the NodeConfig's mistake does not matter
}

func TestAgent_brokenOrphanJournalRefuses(t *testing.T) {
	w := newAgentWorld(t)
	file := filepath.Join(w.env.Root, journalDir, "gone.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.pass(t)
	w.later(t, time.Minute)
	if !strings.Contains(w.log.String(), journalDir+"/gone.json") {
		t.Errorf("log:\n%s", &w.log)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	w.restarts(t)
}

func TestAgent_dryRunWritesNothing(t *testing.T) {
	w := newAgentWorld(t)
	w.settings.DryRun, w.settings.Once = true, true
	w.write(t, "a.yaml", strings.Replace(doc("a", "one"), "spec: {", "spec: {services: [a.service], ", 1))
	orphan := filepath.Join(w.env.Root, journalDir, "gone.json")
	if err := os.MkdirAll(filepath.Dir(orphan), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(orphan, []byte(`{"phase":"ensuring","units":{"b.service":""}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	root, state := contract.Snapshot(t, w.env.Root), contract.Snapshot(t, filepath.Dir(w.settings.ConfigDir))
	if err := w.run(t); err != nil {
		t.Error(err)
	}
	root.Unchanged(t, w.env.Root, "a dry run")
	state.Unchanged(t, filepath.Dir(w.settings.ConfigDir), "a dry run")
	w.restarts(t)
	want := "would change restart/gone\n  would restart b.service\n" +
		"would change a\n  would note that a.service may need a restart\n  would ensure path:/etc/a (value)\n" +
		"  would note what must be restarted\n  would restart a.service\n"
	if diff := cmp.Diff(want, w.out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

// run runs the role as the command line does.
func (w *agentWorld) run(t *testing.T) error {
	t.Helper()
	return Role().Run(t.Context(), w.env, &w.settings)
}

func TestRole_once(t *testing.T) {
	for _, tt := range []struct {
		name    string
		arrange func(w *agentWorld)
		out     string
		code    int
	}{
		{"in order", func(w *agentWorld) { w.write(t, "b.yaml", doc("b", "one")); w.write(t, "a.yaml", doc("a", "one")) },
			"changed   a\nchanged   b\n", 0},
		{"nothing to do", func(w *agentWorld) { w.write(t, "a.yaml", doc("a", "one")); w.keep("a", "one") },
			"unchanged a\n", 0},
		{"invalid", func(w *agentWorld) {
			w.write(t, "a.yaml", doc("a", "one"))
			w.write(t, "b.yaml", strings.Replace(doc("b", "one"), "path: /", "path: ", 1))
		}, "changed   a\nerror     b: DIR/b.yaml: params.path: must be absolute\n", 3},
		{"invalid and without a name", func(w *agentWorld) { w.write(t, "b.yaml", "kind: ConfigMap\n") },
			"error     DIR/b.yaml: line 1: kind: must be NodeConfig, not \"ConfigMap\"\n", 3},
		{"a name twice", func(w *agentWorld) { w.write(t, "a.yaml", doc("a", "one")); w.write(t, "b.yaml", doc("a", "two")) },
			"error     a: DIR/a.yaml: metadata.name: a is the name in DIR/b.yaml too, so none of them is kept: rename or remove one\n", 3},
		{"unreadable", func(w *agentWorld) { w.write(t, "a.yaml", doc("a", "one")); w.write(t, "b.yaml", "a: [") },
			"changed   a\nerror     DIR/b.yaml: not YAML: line 1: did not find expected node content\n", 2},
		{"failed", func(w *agentWorld) {
			w.write(t, "a.yaml", doc("a", "one"))
			*w.handler.fail = errors.New("disk\non fire")
		},
			"error     a: ensure path:/etc/a (value): disk; on fire\n", 16},
		{"all of it", func(w *agentWorld) {
			w.write(t, "a.yaml", doc("a", "one"))
			w.write(t, "b.yaml", "a: [")
			w.write(t, "c.yaml", strings.Replace(doc("c", "one"), "path: /", "path: ", 1))
			*w.handler.fail = errors.New("disk on fire")
		}, "error     a: ensure path:/etc/a (value): disk on fire\nerror     c: DIR/c.yaml: params.path: must be absolute\n" +
			"error     DIR/b.yaml: not YAML: line 1: did not find expected node content\n", 2},
		{"no folder", func(w *agentWorld) { w.settings.ConfigDir = "/nowhere" }, "", 2},
		{"no machine", func(w *agentWorld) { w.env.Root = "/nowhere" }, "", 2},
		{"a short interval", func(w *agentWorld) { w.settings.DefaultInterval = time.Second }, "", 3},
		{"one folder for both", func(w *agentWorld) { w.settings.StateDir = w.settings.ConfigDir }, "", 3},
		{"no folder for statuses", func(w *agentWorld) { w.settings.StateDir = "" }, "", 3},
		{"this machine, and not root", func(w *agentWorld) { w.env.Root, w.env.UID = "/", 1000 }, "", 15},
		{"this machine through a link, and not root", func(w *agentWorld) {
			link := filepath.Join(t.TempDir(), "link")
			if err := os.Symlink("/", link); err != nil {
				t.Fatal(err)
			}
			w.env.Root, w.env.UID = link, 1000
		}, "", 15},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newAgentWorld(t)
			w.settings.Once = true
			dir := w.settings.ConfigDir
			tt.arrange(w)
			err := w.run(t)
			code := 0
			if exit := (*plugin.Exit)(nil); errors.As(err, &exit) {
				code = exit.Code
			} else if err != nil {
				t.Error(err)
			}
			if code != tt.code {
				t.Errorf("exit %d (%v), want %d", code, err, tt.code)
			}
			if diff := cmp.Diff(tt.out, strings.ReplaceAll(w.out.String(), dir, "DIR")); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

// keep puts a value where the NodeConfig of a name wants it.
func (w *agentWorld) keep(name, value string) {
	_ = os.MkdirAll(filepath.Join(w.env.Root, "etc"), 0o755)
	_ = os.WriteFile(filepath.Join(w.env.Root, "etc", name), []byte(value), 0o644)
}

// A signal lets the step that runs come to its end; the next agent does the rest.
func TestAgent_signalLetsAStepFinish(t *testing.T) {
	w := newAgentWorld(t)
	w.env.Now = time.Now
	w.write(t, "a.yaml", strings.Replace(doc("a", "one"), "spec: {", "spec: {services: [a.service], ", 1))
	ctx, cancel := context.WithCancel(t.Context())
	*w.handler.hold = cancel
	if err := Role().Run(ctx, w.env, &w.settings); err != nil {
		t.Fatal(err)
	}
	if got := w.content(t, "a"); got != "one" {
		t.Errorf("content %q", got)
	}
	w.restarts(t)
	if got := w.states(t); len(got) != 0 {
		t.Errorf("a visit that was called off wrote %v", got)
	}
	if log := w.log.String(); strings.Contains(log, "failed") || !strings.Contains(log, "agent ended") {
		t.Errorf("log:\n%s", log)
	}
	m, err := openMachine(w.env)
	if err != nil {
		t.Fatal(err)
	}
	rec, open, err := restart.NewFile(m.tree, journalDir+"/a.json").Load(t.Context())
	if err != nil || !open || rec.Phase != restart.Ensuring {
		t.Errorf("journal %+v, open %v, %v", rec, open, err)
	}
	*w.handler.hold = nil
	w.settings.Once = true
	if err := w.run(t); err != nil {
		t.Fatal(err)
	}
	w.restarts(t, "daemon-reload", "restart a.service")
}
