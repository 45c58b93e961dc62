package node

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/node/cluster"
	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/restart"
	"github.com/tlspu/keel/test/kubetest"
	"github.com/tlspu/keel/test/nodetest"
)

// starts is how often a unit was started.
func (w *clusterWorld) starts(t *testing.T, unit string) (n int) {
	t.Helper()
	w.Systemd.Change(t, func(u *nodetest.Units) { n = u.Units[unit].Starts })
	return n
}

// fails makes the next starts of a unit fail.
func (w *clusterWorld) fails(t *testing.T, unit string, n int) {
	t.Helper()
	w.Systemd.Change(t, func(u *nodetest.Units) { u.Units[unit].Fails = n })
}

// journaled reports whether restarts of a NodeConfig are noted on the machine.
func (w *clusterWorld) journaled(name string) bool {
	_, err := os.Stat(w.Env.Root + nodeconfig.JournalDir + "/" + name + nodeconfig.Suffix)
	return err == nil
}

// note writes a journal as an agent that was killed would have left it.
func (w *clusterWorld) note(t *testing.T, name string, phase string, unit string) {
	t.Helper()
	m, err := nodeconfig.OpenMachine(w.Env)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Tree.Close() }()
	rec := restart.Record{Phase: phase, Units: map[string]string{unit: ""}}
	if phase == restart.Restarting {
		rec.Units[unit] = fmt.Sprintf("%032x", w.starts(t, unit))
	}
	if err := m.Journal(nodeconfig.FileName(name)).Save(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
}

// metric is the value of a series, with its labels.
func (w *clusterWorld) metric(t *testing.T, series string) string {
	t.Helper()
	answer := httptest.NewRecorder()
	w.agent.metrics.Handler(w.Env.Log).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(answer.Body.String())
	if m == nil {
		return ""
	}
	return m[1]
}

// events are what an operator is told of a NodeConfig, "Warning Failed".
func (w *clusterWorld) events(t *testing.T, name string) map[string]string {
	t.Helper()
	var list corev1.EventList
	w.ask(t, "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name="+name, &list)
	said := map[string]string{}
	for _, e := range list.Items {
		said[e.Type+" "+e.Reason] = e.Message
	}
	return said
}

func (w *clusterWorld) ask(t *testing.T, path string, into any) {
	t.Helper()
	if err := w.server.Do(t.Context(), w.server.Admin(), http.MethodGet, path, nil, into); err != nil {
		t.Fatal(err)
	}
}

func serviced(name, value string) body {
	return body{"type": "setting", "services": []string{"a.service"}, "params": body{"path": "/etc/" + name, "value": value}}
}

// restartPending says what the journal on the machine says.
func TestCluster_restartPending(t *testing.T) {
	w := newDebugWorld(t, kubetest.Shared(t))
	w.fails(t, "a.service", 2)
	w.apply(t, "pending", serviced("pending", "x"))
	w.start(t)
	w.until(t, "a pending restart", func() bool { s, _ := w.status(t, "pending"); return s.RestartPending })
	s, _ := w.status(t, "pending")
	if s.LastResult != v1alpha1.Error || !s.Changed || !w.journaled("pending") || w.metric(t, `keel_nodeconfig_restart_pending{nodeconfig="pending"}`) != "1" {
		t.Errorf("status %+v, journal %v", s, w.journaled("pending"))
	}
	w.until(t, "its Event", func() bool { return w.events(t, "pending")["Warning RestartPending"] != "" })
	w.until(t, "the restart", func() bool { return w.starts(t, "a.service") == 4 })
	w.until(t, "the end of it", func() bool {
		s, _ := w.status(t, "pending")
		return !s.RestartPending && s.LastResult == v1alpha1.Success
	})
	if w.journaled("pending") || w.metric(t, `keel_nodeconfig_restart_pending{nodeconfig="pending"}`) != "0" {
		t.Error("the journal is still open")
	}
	w.until(t, "the Event of the recovery", func() bool { return w.events(t, "pending")["Normal Recovered"] != "" })
}

// The restarts of a NodeConfig that is deleted, or edited so that it is not managed any
// more, stay required.
func TestCluster_orphanJournals(t *testing.T) {
	for name, change := range map[string]func(w *clusterWorld, t *testing.T, path string){
		"deleted": func(w *clusterWorld, t *testing.T, path string) { w.do(t, http.MethodDelete, path, nil) },
		"with a mistake": func(w *clusterWorld, t *testing.T, path string) {
			w.do(t, http.MethodPatch, path, body{"spec": body{"params": body{"path": "etc"}}})
		},
		"for other nodes": func(w *clusterWorld, t *testing.T, path string) {
			w.do(t, http.MethodPatch, path, body{"spec": body{"nodeSelector": body{"matchLabels": body{"role": "db"}}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDebugWorld(t, kubetest.Shared(t))
			w.fails(t, "a.service", 1000)
			w.apply(t, "orphan", serviced("orphan", "x"))
			w.start(t)
			w.until(t, "a pending restart", func() bool { s, _ := w.status(t, "orphan"); return s.RestartPending })
			change(w, t, nodeConfigs+"/orphan")
			w.turn(t)
			if !w.journaled("orphan") {
				t.Fatal("the journal is closed, and nothing was restarted")
			}
			w.fails(t, "a.service", 0)
			before := w.starts(t, "a.service")
			w.ahead.Add(int64(5 * time.Minute)) // the longest pause after a failure
			w.until(t, "the end of the journal", func() bool { return !w.journaled("orphan") })
			if n := w.starts(t, "a.service") - before; n != 1 {
				t.Errorf("%d restarts, want 1", n)
			}
		})
	}
}

// What went while others were visited is not forgotten until something else is due.
func TestCluster_deletedDuringAPass(t *testing.T) {
	w := newDebugWorld(t, kubetest.Shared(t))
	w.settings.Status = "node"
	w.fails(t, "a.service", 1000)
	w.apply(t, "during-b", serviced("during-b", "x"))
	w.apply(t, "during-a", body{"type": "setting", "params": body{"path": "/etc/during-a", "value": "x"}})
	w.start(t)
	state := func() (a, b bool) {
		var state v1alpha1.NodeState
		if err := w.server.Do(t.Context(), w.server.Admin(), http.MethodGet, "/apis/keel.tlspu.io/v1alpha1/nodestates/"+w.node, nil, &state); err != nil {
			return false, false
		}
		_, a = state.Status.Configs["during-a"]
		_, b = state.Status.Configs["during-b"]
		return a, b
	}
	w.until(t, "both statuses", func() bool { a, b := state(); return a && b && w.journaled("during-b") })
	var once sync.Once
	entered, leave := make(chan struct{}), make(chan struct{})
	*w.Handler.Hold = func() { once.Do(func() { close(entered); <-leave }) }
	w.hand(t, "etc/during-a", "by hand")
	w.ahead.Add(int64(10 * time.Hour))
	<-entered
	w.fails(t, "a.service", 0)
	w.do(t, http.MethodDelete, nodeConfigs+"/during-b", nil)
	w.until(t, "that it is gone is known", func() bool { _, there := w.cluster().Known("during-b"); return !there })
	close(leave)
	w.until(t, "the restart that it owes", func() bool { return !w.journaled("during-b") })
	w.until(t, "its status is removed", func() bool { a, b := state(); return a && !b })
}

// An agent that is started while the API server is away restarts what is certainly
// owed, and nothing of which nobody knows yet whether a change was made.
func TestCluster_startedWithoutAServer(t *testing.T) {
	t.Parallel()
	w := newDebugWorld(t, kubetest.Start(t, kubetest.Options{}))
	w.apply(t, "made", serviced("made", "x"))
	spec := serviced("making", "x")
	spec["services"] = []string{"b.service"}
	w.apply(t, "making", spec)
	w.server.API.Stop()
	w.note(t, "made", restart.Restarting, "a.service")
	w.note(t, "making", restart.Ensuring, "b.service")
	w.start(t)
	w.until(t, "the restart of what was changed", func() bool { return !w.journaled("made") })
	if err := w.agent.health.Ready(); err == nil {
		t.Error("ready without an API server")
	}
	before := w.ahead.Load()
	for range 2 { // passes go by
		w.until(t, "a pass", func() bool { return w.starts(t, "a.service") == 2 })
		w.ahead.Add(int64(time.Hour))
	}
	if n := w.starts(t, "b.service"); n != 1 || !w.journaled("making") || w.content("made") != "" {
		t.Errorf("%d starts of b.service, at %d", n, before)
	}
	if err := w.server.API.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.until(t, "the change and its restart", func() bool { return w.content("making") == "x" && !w.journaled("making") })
	if n := w.starts(t, "b.service"); n != 2 {
		t.Errorf("%d starts of b.service, want one more than before", n)
	}
}

// What a Wait puts off is neither a failure nor a result.
func TestCluster_waitIsNoResult(t *testing.T) {
	w := newDebugWorld(t, kubetest.Shared(t))
	w.apply(t, "waits", body{"type": "blind", "params": body{"path": "/etc/waits", "value": "x"}})
	w.start(t)
	w.until(t, "the status", func() bool { s, _ := w.status(t, "waits"); return s.Changed })
	w.turn(t)
	before, _ := w.status(t, "waits")
	*w.Handler.Fail = &drift.Wait{Until: w.Env.Now().Add(11 * time.Hour), Reason: "dpkg is busy"}
	w.hand(t, "etc/waits", "by hand")
	visits := w.visits("waits")
	w.ahead.Add(int64(10 * time.Hour))
	w.until(t, "the Wait", func() bool { return w.visits("waits") > visits })
	w.until(t, "that it is counted", func() bool { return w.metric(t, `keel_waits_total{handler="blind"}`) == "1" })
	if got := w.metric(t, `keel_nodeconfig_success{nodeconfig="waits"}`); got != "1" {
		t.Errorf("the metric of success is %q", got)
	}
	if got := w.metric(t, `keel_failures_total{handler="blind"}`); got != "0" {
		t.Errorf("%s failures", got)
	}
	*w.Handler.Fail = nil
	w.hand(t, "etc/waits", "by hand")
	w.ahead.Add(int64(2 * time.Hour))
	w.until(t, "the file", func() bool { return w.content("waits") == "x" })
	w.until(t, "the next status", func() bool { s, _ := w.status(t, "waits"); return s.LastRunTime.After(before.LastRunTime.Time) })
	if s, _ := w.status(t, "waits"); s.LastResult != v1alpha1.Success || !s.Changed {
		t.Errorf("status %+v", s)
	}
	for line := range strings.Lines(w.log.String()) {
		if strings.Contains(line, "target=waits ") && strings.Contains(line, "level=ERROR") {
			t.Errorf("a failure was logged: %s", line)
		}
	}
	if n := w.events(t, "waits")["Warning Failed"]; n != "" {
		t.Errorf("an Event says that it failed: %s", n)
	}
}

// Restarts that are owed whatever a NodeConfig says by now do not wait for what it
// reads.
func TestAgent_journalOfWhatIsNotRead(t *testing.T) {
	w := &clusterWorld{World: nodetest.NewWorld(t)}
	w.Env.Log = nodetest.Log(t)
	w.note(t, "made", restart.Restarting, "a.service")
	w.note(t, "making", restart.Ensuring, "b.service")
	w.note(t, "broken", restart.Restarting, "b.service")
	if err := os.WriteFile(w.Env.Root+nodeconfig.JournalDir+"/broken.json", []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := nodeconfig.OpenMachine(w.Env)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Tree.Close() }()
	pending := fmt.Errorf("ConfigMap default/x %w", cluster.ErrPending)
	for _, tt := range []struct {
		name  string
		ready bool
		err   error
		want  string // leftovers
	}{
		{"what it reads is not read", true, pending, "made"},
		{"the agent is not ready", false, pending, "made"},
		{"it is kept", true, nil, ""},
		{"it cannot be kept", true, errors.New("a mistake"), "broken made making"},
	} {
		w.Env.Now = func() time.Time { return now }
		a := &agent{env: w.Env, machine: m, began: tt.ready, entries: map[string]*entry{}, byFile: map[string]string{}}
		for _, name := range []string{"broken", "made", "making"} {
			c := &nodeconfig.Config{Name: name, Err: tt.err}
			a.entries[name] = &entry{config: c, of: c, content: c}
			a.byFile[nodeconfig.FileName(name)] = name
		}
		a.adopt(t.Context())
		var got []string
		for _, id := range slices.Sorted(maps.Keys(a.entries)) {
			if name, is := strings.CutPrefix(id, nodeconfig.LeftoverID); is {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: adopted %v, want %s", tt.name, got, tt.want)
		}
	}
}
