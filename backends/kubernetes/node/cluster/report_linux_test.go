package cluster

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tlspu/keel/test/kubetest"
)

func TestReporter_map(t *testing.T) {
	s := server(t)
	deploy(t, s)
	config(t, s, "motd")
	first, second := deployedAgent(t, s, "map-1.example", FormMap), deployedAgent(t, s, "map-2", FormMap)
	began := time.Now()
	first.tell(t, "motd", statusOf("first", 1))
	second.tell(t, "motd", statusOf("second", 1))
	first.tell(t, "motd", statusOf("", 1))
	got := configOf(t, s, "motd").Status
	if got.ObservedGeneration != 1 || len(got.Nodes) != 2 || got.Nodes["map-1.example"].Message != "" || got.Nodes["map-2"].Message != "second" ||
		!got.Nodes["map-2"].LastRunTime.Time.Equal(statusOf("", 1).LastRunTime.Time) {
		t.Errorf("status %+v", got)
	}
	first.wrote(t, s, began, "patch nodeconfigs/status motd 200", "patch nodeconfigs/status motd 200")
	kubetest.Await(t, "the watch shows it", func() bool {
		k, _ := first.watch.Known("motd")
		st, ok := first.Before("motd")
		return k.Own != nil && *k.Own == got.Nodes["map-1.example"] && ok && st == *k.Own
	})

	// The first agent's cache is old when the second has seen the next generation.
	kubetest.Await(t, "what the first agent knows", func() bool { k, _ := first.watch.Known("motd"); return k.Observed == 1 })
	do(t, s, http.MethodPatch, nodeConfigs+"/motd", body{"spec": body{"suspend": true}})
	do(t, s, http.MethodPatch, nodeConfigs+"/motd", body{"spec": body{"suspend": false}})
	kubetest.Await(t, "generation 3", func() bool { k, _ := second.watch.Known("motd"); return k.Generation == 3 })
	kubetest.Await(t, "generation 3", func() bool { k, _ := first.watch.Known("motd"); return k.Generation == 3 })
	first.freeze(t, "motd")
	second.tell(t, "motd", statusOf("third generation", 3))
	began = time.Now()
	first.tell(t, "motd", statusOf("second generation", 2))
	first.wrote(t, s, began, "patch nodeconfigs/status motd 422", "patch nodeconfigs/status motd 200")
	if got := configOf(t, s, "motd").Status; got.ObservedGeneration != 3 || got.Nodes["map-1.example"].ObservedGeneration != 2 {
		t.Errorf("status %+v", got)
	}
	if log := first.log.said() + second.log.said(); log != "" {
		t.Errorf("log:\n%s", log)
	}
}

// The status of a NodeConfig that was deleted is not told as that of one that was
// made anew; where the watch is too late for that, it does not last.
func TestReporter_madeAnew(t *testing.T) {
	s := server(t)
	deploy(t, s)
	old := config(t, s, "anew")
	a := deployedAgent(t, s, "anew-1", FormMap)
	a.tell(t, "anew", statusOf("of the old", 1))
	a.freeze(t, "anew")
	do(t, s, http.MethodDelete, nodeConfigs+"/anew", nil)
	began := time.Now()
	a.Report("anew", old, statusOf("of the deleted", 1))
	if err := a.Flush(deadline(t, time.Minute)); err != nil {
		t.Error(err)
	}
	a.wrote(t, s, began, "patch nodeconfigs/status anew 404")

	anew := config(t, s, "anew")
	// The API server ignores metadata.uid in a patch of a status, so it is no
	// precondition: if this fails, it can be one.
	if err := s.Do(t.Context(), s.Admin(), http.MethodPatch, nodeConfigs+"/anew/status?dryRun=All",
		body{"metadata": body{"uid": old}, "status": body{"observedGeneration": 1}}, nil); err != nil {
		t.Errorf("a patch with another UID: %v", err)
	}
	a.Report("anew", old, statusOf("of the old", 1))
	if err := a.Flush(deadline(t, time.Minute)); err != nil {
		t.Error(err)
	}
	a.thaw("anew")
	kubetest.Await(t, "the watch shows the new one", func() bool { k, _ := a.watch.Known("anew"); return k.UID == anew && k.Own != nil })
	if st, ok := a.Before("anew"); ok {
		t.Errorf("the new one has a status before its first visit: %+v", st)
	}
	began = time.Now()
	a.Report("anew", old, statusOf("of the old", 1))
	if err := a.Flush(deadline(t, time.Minute)); err != nil {
		t.Error(err)
	}
	a.tell(t, "anew", statusOf("of the new", 1))
	a.wrote(t, s, began, "patch nodeconfigs/status anew 200")
	if st, ok := a.Before("anew"); !ok || st.Message != "of the new" || configOf(t, s, "anew").Status.Nodes["anew-1"].Message != "of the new" {
		t.Errorf("before %+v", st)
	}

	// A generation that it has not reached tells it.
	a.freeze(t, "anew")
	a.mu.Lock()
	k := a.stale["anew"]
	k.Generation = 5
	a.stale["anew"] = k
	a.mu.Unlock()
	do(t, s, http.MethodDelete, nodeConfigs+"/anew", nil)
	last := config(t, s, "anew")
	a.Report("anew", anew, statusOf("of generation 5", 5))
	kubetest.Await(t, "it is refused", func() bool { return strings.Contains(a.log.said(), "is newer than the NodeConfig") })
	kubetest.Await(t, "the watch shows the last one", func() bool { k, _ := a.watch.Known("anew"); return k.UID == last })
	a.thaw("anew")
	if err := a.Flush(deadline(t, time.Minute)); err != nil {
		t.Error(err)
	}
	if got := configOf(t, s, "anew").Status; len(got.Nodes) != 0 || got.ObservedGeneration != 0 {
		t.Errorf("status %+v", got)
	}
}

// While the server is away, or takes no writes, only the latest statuses are kept,
// and each is sent once afterwards.
func TestReporter_outage(t *testing.T) {
	s := server(t)
	deploy(t, s)
	names := []string{"outage-1", "outage-2", "outage-3", "outage-4", "outage-5"}
	for _, name := range names {
		config(t, s, name)
	}
	outages := map[string]struct {
		begin, end func(t *testing.T)
		log        string
	}{
		"no server": {func(*testing.T) { s.API.Stop() }, func(t *testing.T) {
			if err := s.API.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}, ""},
		"no space": {func(t *testing.T) { s.RefuseWrites(t, true) }, func(t *testing.T) { s.RefuseWrites(t, false) }, "database space exceeded"},
	}
	for _, form := range []Form{FormMap, FormNode} {
		for what, outage := range outages {
			t.Run(string(form)+", "+what, func(t *testing.T) {
				a := deployedAgent(t, s, fmt.Sprintf("outage-%s-%d", form, len(what)), form)
				for _, name := range names {
					a.tell(t, name, statusOf("before", 1))
				}
				began := time.Now()
				outage.begin(t)
				for i := range 100 {
					for _, name := range names {
						a.hand(t, name, statusOf(fmt.Sprint("during ", i), 1))
					}
				}
				if err := a.Flush(deadline(t, 2500*time.Millisecond)); err == nil || !strings.HasPrefix(err.Error(), "status not sent of outage-1, outage-2, outage-3, outage-4, outage-5: ") || !strings.Contains(err.Error(), outage.log) {
					t.Error(err)
				}
				if st, ok := a.Before("outage-3"); !ok || st.Message != "during 99" {
					t.Errorf("before %v", st)
				}
				// Pauses are at least 0.5 s, 1 s, 2 s …; the Flush ends one early.
				took := time.Since(began)
				if tries := len(a.writes(t, s, began)); tries > 2+int(math.Log2(took.Seconds()/0.5+1)) {
					t.Errorf("%d writes in %s", tries, took)
				}
				ended := time.Now()
				outage.end(t)
				if err := a.Flush(deadline(t, time.Minute)); err != nil {
					t.Error(err)
				}
				for _, name := range names {
					st, ok := a.Before(name)
					stored := configOf(t, s, name).Status.Nodes[a.o.Node]
					if form == FormNode {
						stored = stateOf(t, s, a.o.Node).Status.Configs[name]
					}
					if !ok || st.Message != "during 99" || stored.Message != "during 99" {
						t.Errorf("%s: before %v, stored %v", name, st, stored)
					}
				}
				want := 5
				if form == FormNode {
					want = 1
				}
				good := func() (n int) {
					for _, w := range a.writes(t, s, ended) {
						if strings.HasSuffix(w, " 200") {
							n++
						}
					}
					return n
				}
				kubetest.Await(t, "the audit log has it", func() bool { return good() >= want })
				if got := a.writes(t, s, ended); good() != want || len(got) > want+3 {
					t.Errorf("wrote:\n%s", strings.Join(got, "\n"))
				}
				if log := a.log.said(); strings.Count(log, "msg=\"statuses cannot be sent\"") > 3 || strings.Count(log, "msg=\"statuses are sent again\"") != 1 {
					t.Errorf("log:\n%s", log)
				}
			})
		}
	}
}

func TestReporter_withoutRights(t *testing.T) {
	s := server(t)
	config(t, s, "rights")
	space := s.Namespace(t, "rights")
	s.ServiceAccount(t, space, "agent")
	s.Kubectl(t, "", "create", "clusterrolebinding", space, "--clusterrole=keel-test-read-"+space, "--serviceaccount="+space+":agent")
	s.Kubectl(t, "", "create", "clusterrole", "keel-test-read-"+space, "--verb=get,list,watch", "--resource=nodes,nodeconfigs.keel.tlspu.io,nodestates.keel.tlspu.io")
	s.Node(t, node("rights-1"))
	for form, want := range map[Form]string{
		FormMap:  "give the agent's ServiceAccount patch on nodeconfigs/status, as deploy/kubernetes does",
		FormNode: "give the agent's ServiceAccount create on nodestates, as deploy/kubernetes does",
	} {
		a, _ := agentOn(t, s, s.WithToken(s.NodeToken(t, space, "agent", "rights-1")), "rights-1", form)
		a.hand(t, "rights", statusOf("m", 1))
		var log string
		kubetest.Await(t, want, func() bool { log += a.log.said(); return strings.Contains(log, want) })
		if err := a.Flush(deadline(t, time.Millisecond)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", form, err)
		}
	}
}

// What the server would not take is withheld until the NodeConfig shrinks.
func TestReporter_tooLargeForTheServer(t *testing.T) {
	s := server(t)
	deploy(t, s)
	config(t, s, "large")
	a := deployedAgent(t, s, "large-1", FormMap)
	a.tell(t, "large", statusOf("fits", 1))
	do(t, s, http.MethodPatch, nodeConfigs+"/large", body{"spec": body{"params": body{"content": strings.Repeat("x", 1_399_900)}}})
	kubetest.Await(t, "the size is known", func() bool { k, _ := a.watch.Known("large"); return k.Size > 1_399_900 })
	began := time.Now()
	a.hand(t, "large", statusOf("does not fit", 2))
	if err := a.Flush(deadline(t, time.Minute)); err == nil || !strings.Contains(err.Error(), "--status=node") {
		t.Error(err)
	}
	a.mu.Lock()
	if len(a.events) != 1 || !strings.HasPrefix(a.events[0], "large Warning StatusTooLarge ") {
		t.Errorf("Events %q", a.events)
	}
	a.mu.Unlock()
	do(t, s, http.MethodPatch, nodeConfigs+"/large", body{"spec": body{"params": nil}})
	kubetest.Await(t, "the size is known", func() bool { k, _ := a.watch.Known("large"); return k.Size < 1000 })
	a.tell(t, "large", statusOf("fits again", 3))
	a.wrote(t, s, began, "patch nodeconfigs/status large 200")
}
