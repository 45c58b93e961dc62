package node

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"
	"github.com/tlspu/keel/test/kubetest"
)

// While the API server is away everything that is known is kept, on its interval,
// and restarts that are owed are made. Then all of it is told, once.
func TestCluster_outage(t *testing.T) {
	t.Parallel()
	w := newDebugWorld(t, kubetest.Start(t, kubetest.Options{}))
	var inside, most atomic.Int64
	*w.Handler.Hold = func() {
		most.Store(max(most.Load(), inside.Add(1)))
		inside.Add(-1)
	}
	name := func(i int) string { return fmt.Sprintf("outage-%d", i) }
	const number = 8
	for i := range number {
		spec := body{"type": "setting", "interval": "20m", "params": body{"path": "/etc/" + name(i), "value": "x"}}
		if i == 7 {
			spec["services"] = []string{"a.service"}
		}
		w.apply(t, name(i), spec)
	}
	w.start(t)
	for i := range number {
		w.until(t, "the status of "+name(i), func() bool { _, ok := w.status(t, name(i)); return ok })
	}
	w.turn(t)

	stopped := time.Now()
	w.server.API.Stop()
	w.until(t, "that it is away shows", func() bool { return w.agent.health.Ready() != nil })
	for _, i := range []int{1, 4, 7} {
		w.hand(t, "etc/"+name(i), "by hand")
	}
	w.fails(t, "a.service", 1)
	for range 3 {
		before := w.visits(name(0))
		w.ahead.Add(int64(20 * time.Minute))
		w.until(t, "a visit", func() bool { return w.visits(name(0)) > before })
	}
	w.until(t, "the restart that failed first", func() bool {
		journals, err := os.ReadDir(filepath.Join(w.Env.Root, nodeconfig.JournalDir))
		return w.starts(t, "a.service") == 4 && err == nil && len(journals) == 0
	})
	for _, i := range []int{1, 4, 7} {
		if got := w.content(name(i)); got != "x" {
			t.Errorf("%s holds %q", name(i), got)
		}
	}

	w.until(t, "a minute without the API server", func() bool { return time.Since(stopped) >= time.Minute })
	visits := map[string]int{}
	for i := range number {
		visits[name(i)] = w.visits(name(i))
	}
	back := time.Now()
	if err := w.server.API.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.do(t, http.MethodPatch, nodeConfigs+"/"+name(0), body{"spec": body{"params": body{"value": "y"}}})
	w.until(t, "ready", func() bool { return w.agent.health.Ready() == nil })
	w.turn(t)
	w.after(t, maxSpread)
	for _, i := range []int{0, 1, 4, 7} {
		w.until(t, "the status of "+name(i), func() bool {
			s, _ := w.status(t, name(i))
			return s.Changed && s.LastResult == v1alpha1.Success && !s.RestartPending && (i != 0 || s.ObservedGeneration == 2)
		})
	}
	w.turn(t)
	writes := map[string]int{}
	others := 0
	for _, r := range w.server.Requests(t, back) {
		switch {
		case r.UserAgent != "keel-node-agent" || r.Resource == "events":
		case r.Writes() && r.Code == http.StatusOK: // while it starts it answers 503
			writes[r.Name]++
		default:
			others++
		}
	}
	for i := range number {
		want := 0
		if i == 0 || i == 1 || i == 4 || i == 7 {
			want = 1
		}
		if writes[name(i)] != want {
			t.Errorf("%s: its status was written %d times, want %d", name(i), writes[name(i)], want)
		}
		if i > 0 && w.visits(name(i)) != visits[name(i)] {
			t.Errorf("%s: visited because the API server was there again", name(i))
		}
	}
	if others > 20 {
		t.Errorf("%d requests beside these", others)
	}
	if most.Load() != 1 {
		t.Errorf("%d visits at once", most.Load())
	}
}

// A server that takes no writes gets the statuses when it does again.
func TestCluster_writesAreRefused(t *testing.T) {
	t.Parallel()
	w := newDebugWorld(t, kubetest.Start(t, kubetest.Options{}))
	w.apply(t, "refused", body{"type": "setting", "params": body{"path": "/etc/refused", "value": "x"}})
	w.start(t)
	w.until(t, "the first status", func() bool { s, _ := w.status(t, "refused"); return s.Changed })
	w.turn(t)

	w.server.RefuseWrites(t, true)
	w.hand(t, "etc/refused", "by hand")
	w.ahead.Add(int64(10 * time.Hour))
	w.until(t, "the file", func() bool { return w.content("refused") == "x" })
	w.until(t, "that statuses are refused shows", func() bool { return strings.Contains(w.log.String(), "cannot be sent") })
	w.until(t, "that metric and probe say it", func() bool { return w.agent.health.Ready() != nil && w.shows(t, "keel_api_server_reachable 0") })
	before, _ := w.status(t, "refused")
	w.server.RefuseWrites(t, false)
	w.ahead.Add(int64(time.Minute)) // the longest pause
	w.turn(t)
	w.until(t, "the status", func() bool {
		s, _ := w.status(t, "refused")
		return s.Changed && s.LastRunTime.After(before.LastRunTime.Time)
	})
	w.until(t, "that metric and probe say so", func() bool { return w.agent.health.Ready() == nil && w.shows(t, "keel_api_server_reachable 1") })
}

// However the clock jumps, nobody waits for longer than an interval, and nothing is
// visited again and again.
func TestCluster_clockJumps(t *testing.T) {
	w := newDebugWorld(t, kubetest.Shared(t))
	w.apply(t, "jumps", body{"type": "setting", "interval": "1h", "params": body{"path": "/etc/jumps", "value": "x"}})
	w.apply(t, "jumps-fails", body{"type": "blind", "interval": "1h", "params": body{"path": "/dev/null/jumps", "value": "x"}})
	w.start(t)
	w.until(t, "the file", func() bool { return w.content("jumps") == "x" })
	w.turn(t)
	for _, jump := range []time.Duration{5 * time.Hour, -10 * time.Hour, -time.Hour, 100 * time.Hour, time.Hour, -3 * time.Hour} {
		before, failed := w.visits("jumps"), w.visits("jumps-fails")
		w.after(t, jump)
		if jump < 0 { // as long to wait as before, and no longer
			w.after(t, time.Hour)
		}
		if n := w.visits("jumps") - before; n != 1 {
			t.Errorf("a jump of %s: %d visits, want 1", jump, n)
		}
		w.turn(t)
		w.turn(t)
		if n := w.visits("jumps") - before; n != 1 {
			t.Errorf("a jump of %s: %d visits, want 1", jump, n)
		}
		if n := w.visits("jumps-fails") - failed; n < 1 || n > 3 {
			t.Errorf("a jump of %s: %d tries of what fails, want 1 at least, and a pause", jump, n)
		}
	}
	// It is set back while a pass runs, and nothing wakes the agent.
	*w.Handler.Hold = func() { w.ahead.Add(-int64(3 * time.Hour)) }
	w.hand(t, "etc/jumps", "by hand")
	w.after(t, time.Hour)
	if got := w.content("jumps"); got != "x" {
		t.Fatalf("content %q", got)
	}
	before := w.visits("jumps")
	w.ahead.Add(int64(time.Hour))
	w.until(t, "a visit after its interval", func() bool { return w.visits("jumps") > before })
}

// A server that is started again does not know at once who may do what. Nothing that
// is known is given up for that, and nothing is told.
func TestCluster_serverIsStartedAgain(t *testing.T) {
	t.Parallel()
	w := newDebugWorld(t, kubetest.Start(t, kubetest.Options{}))
	w.account(t)
	w.may(t, "namespaces/default/roles", body{"apiGroups": []string{""}, "resources": []string{"configmaps", "secrets"}, "verbs": readers()})
	w.object(t, "configmaps/again", body{"data": body{"text": "x"}})
	w.object(t, "secrets/again", body{"stringData": body{"text": "y"}})
	w.apply(t, "again", body{
		"type": "setting", "params": body{"path": "/etc/again", "value": "{{ .ConfigMaps.it.text }}{{ .Secrets.it.text }}"},
		"configMaps": []body{{"namespace": "default", "name": "again", "as": "it"}}, "secrets": []body{{"namespace": "default", "name": "again", "as": "it"}},
	})
	w.start(t)
	w.until(t, "the status", func() bool { s, _ := w.status(t, "again"); return s.Changed })
	w.turn(t)
	visits, stopped := w.visits("again"), time.Now()
	w.server.API.Stop()
	w.until(t, "that it is away shows", func() bool { return w.agent.health.Ready() != nil })
	if err := w.server.API.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.until(t, "ready", func() bool { return w.agent.health.Ready() == nil })
	w.object(t, "configmaps/again", body{"metadata": body{"name": "again", "labels": body{"seen": "x"}}}) // it is followed again
	w.turn(t)
	w.after(t, maxSpread)
	if n := w.visits("again") - visits; n != 0 {
		t.Errorf("%d visits", n)
	}
	for _, r := range w.server.Requests(t, stopped) {
		if r.UserAgent == "keel-node-agent" && r.Writes() && r.Name == "again" {
			t.Errorf("%s %s", r.Verb, r.Path)
		}
	}
}

// An agent that is started again visits everything, and tells nothing that is known.
func TestCluster_agentIsStartedAgain(t *testing.T) {
	for _, form := range []string{"map", "node"} {
		t.Run(form, func(t *testing.T) {
			w := newDebugWorld(t, kubetest.Shared(t))
			w.settings.Status = form
			for i := range 5 {
				w.apply(t, fmt.Sprintf("restarted-%d", i), body{"type": "setting", "params": body{"path": fmt.Sprintf("/etc/restarted-%d", i), "value": "x"}})
			}
			begun := time.Now()
			told := func(name string) bool {
				for _, r := range w.server.Requests(t, begun) {
					if r.UserAgent == "keel-node-agent" && r.Verb == "patch" && r.Subresource == "status" && r.Name == name {
						return true
					}
				}
				return false
			}
			object := map[string]string{"map": "restarted-4", "node": w.node}[form]
			w.start(t)
			w.turn(t)
			w.until(t, "the first statuses", func() bool { return told(object) })
			if err := w.end(); err != nil {
				t.Fatal(err)
			}
			begun = time.Now()
			visits := w.visits("restarted-4")
			w.start(t)
			w.until(t, "the visits", func() bool { return w.visits("restarted-4") > visits })
			w.turn(t)
			if err := w.end(); err != nil { // all that is to be told is
				t.Fatal(err)
			}
			if told("restarted-4") || form == "node" && w.rewritten(t) {
				t.Error("a status was written that says nothing new")
			}
		})
	}
}

// rewritten reports whether the NodeState's statuses are not those of the first
// visits, which changed something.
func (w *clusterWorld) rewritten(t *testing.T) bool {
	t.Helper()
	var state v1alpha1.NodeState
	w.ask(t, "/apis/keel.tlspu.io/v1alpha1/nodestates/"+w.node, &state)
	for name, s := range state.Status.Configs {
		if name != lastly && !s.Changed {
			return true
		}
	}
	return len(state.Status.Configs) != 6
}
