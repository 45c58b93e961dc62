package node

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/node/cluster"
	"github.com/tlspu/keel/backends/kubernetes/node/facts"
	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/test/nodetest"
)

func TestShare_isSpreadEvenly(t *testing.T) {
	const nodes, parts = 1000, 10
	var counts [parts]int
	for i := range nodes {
		words := []string{fmt.Sprintf("node-%03d", i), "motd", "7", "sha256:1"}
		at := share(maxSpread, words...)
		if at < 0 || at >= maxSpread {
			t.Fatalf("%s is outside of %s", at, maxSpread)
		}
		if again := share(maxSpread, words...); again != at {
			t.Fatalf("%v: %s, and then %s", words, at, again)
		}
		counts[at*parts/maxSpread]++
	}
	for i, n := range counts {
		if n < 60 || n > 140 { // four standard deviations of a hundred
			t.Errorf("%d of %d nodes come in part %d of %d: %v", n, nodes, i, parts, counts)
		}
	}
	if share(0, "a") != 0 {
		t.Error("an empty window has parts")
	}
}

// Every word counts, and words cannot be mistaken for one another.
func TestShare_dependsOnEveryWord(t *testing.T) {
	seen := map[time.Duration][]string{}
	for _, words := range [][]string{
		{"n", "motd", "1", "d"}, {"m", "motd", "1", "d"}, {"n", "issue", "1", "d"}, {"n", "motd", "2", "d"}, {"n", "motd", "1", "e"}, {"nm", "otd", "1", "d"},
	} {
		at := share(time.Hour, words...)
		if seen[at] != nil {
			t.Errorf("%v and %v come at once, at %s", seen[at], words, at)
		}
		seen[at] = words
	}
}

// scheduled is an agent of an API server, with one NodeConfig that ran at now.
func scheduled(t *testing.T) (a *agent, e *entry) {
	t.Helper()
	a = &agent{woken: make(chan struct{}), looked: true, settled: true, began: true, entries: map[string]*entry{}}
	a.machine = &nodeconfig.Machine{Claims: nodeconfig.NewClaims(nil)}
	a.settings.NodeName, a.settings.DefaultInterval = "n", 10*time.Minute
	a.facts.Set(facts.Facts{})
	a.env.Log = slog.New(slog.DiscardHandler)
	e = &entry{config: &nodeconfig.Config{Name: "motd", UID: "1", Generation: 1, Digest: "d1"}}
	e.of, e.content = e.config, e.config
	a.entries["motd"] = e
	a.schedule("motd", now)
	ran(t, a, e, now)
	return a, e
}

// ran has the NodeConfig run at at, and succeed.
func ran(t *testing.T, a *agent, e *entry, at time.Time) {
	t.Helper()
	a.loop.Schedule.Ask("motd", at)
	l := drift.Loop{Schedule: a.loop.Schedule, Now: func() time.Time { return at }, Done: func(drift.Result) {}}
	item := drift.Item{ID: "motd", Interval: a.interval(e), Target: func() drift.Target { return nodeconfig.Skip("motd", "a test") }}
	l.Schedule.Put(item, at, 0)
	l.Pass(t.Context())
	a.loop.Schedule = l.Schedule
	e.visited, e.visitOf = true, e.scheduled
}

// says gives an entry another content.
func says(e *entry, change func(*nodeconfig.Config)) {
	c := *e.config
	change(&c)
	e.config, e.of, e.content = &c, &c, &c
}

// due is how long after at the NodeConfig runs, and why; "" for never.
func due(t *testing.T, a *agent, at time.Time) (in time.Duration, why string) {
	t.Helper()
	fields := strings.Fields(a.loop.Schedule.String())
	next, ok := a.loop.Schedule.Next()
	if !ok {
		return 0, ""
	}
	return next.Sub(at), fields[1]
}

func TestSchedule_whatIsNewForAllNodesIsSpread(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before func(a *agent, e *entry)
		change func(c *nodeconfig.Config)
		spread bool
		why    string // "changed" if none is given
	}{
		{name: "nothing", change: func(*nodeconfig.Config) {}, why: "interval"},
		{name: "another generation", change: func(c *nodeconfig.Config) { c.Generation++ }, spread: true},
		{name: "deleted and created", change: func(c *nodeconfig.Config) { c.UID = "2" }, spread: true},
		{name: "other data", change: func(c *nodeconfig.Config) { c.Digest = "d2" }, spread: true},
		{name: "a label: excluded", change: func(c *nodeconfig.Config) { c.Excluded = true }},
		{name: "a label: excluded, and what it references is not read then", change: func(c *nodeconfig.Config) { c.Excluded, c.Digest = true, "d2" }},
		{name: "a label: not excluded any more", change: func(c *nodeconfig.Config) { c.Excluded, c.Digest = false, "d1" }, before: func(a *agent, e *entry) {
			says(e, func(c *nodeconfig.Config) { c.Excluded, c.Digest = true, "d2" })
			a.schedule("motd", now)
			ran(t, a, e, now)
		}},
		{name: "another generation that excludes", change: func(c *nodeconfig.Config) { c.Generation++; c.Excluded = true }, spread: true},
		{name: "a fact a template cannot do without", change: func(c *nodeconfig.Config) { c.Err = errors.New("no Node.InternalIP") }},
		{name: "it failed before", change: func(c *nodeconfig.Config) { c.Generation++ }, before: func(_ *agent, e *entry) { e.said = "disk on fire" }},
		{name: "the agent has just started", change: func(c *nodeconfig.Config) { c.Generation++ }, before: func(a *agent, _ *entry) { a.settled = false }},
		{name: "a directory is this node's alone", change: func(c *nodeconfig.Config) { c.Generation++ }, before: func(a *agent, _ *entry) { a.woken = nil }},
		{name: "created", change: func(c *nodeconfig.Config) { c.Generation++ }, before: func(a *agent, e *entry) {
			a.loop.Schedule.Remove("motd")
			*e = entry{config: e.config}
		}, spread: true, why: "new"},
		{name: "there at the start, and its data is read later", change: func(*nodeconfig.Config) {}, before: func(a *agent, e *entry) {
			a.loop.Schedule.Remove("motd")
			*e = entry{config: e.config, early: true}
		}, why: "new"},
		{name: "in conflict with an older one", change: func(*nodeconfig.Config) {}, before: func(a *agent, _ *entry) {
			claims := func(name string) *nodeconfig.Config {
				doc := v1alpha1.ParseOne([]byte(nodetest.Doc("a", "x")))
				c := nodeconfig.New(name, doc, nodetest.Handlers(nodetest.NewSetting()))
				c.Name = name
				return c
			}
			a.machine.Claims.Set("a", claims("a"))
			a.machine.Claims.Set("motd", claims("motd"))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, e := scheduled(t)
			if tt.before != nil {
				tt.before(a, e)
			}
			says(e, tt.change)
			at := now.Add(time.Minute)
			a.schedule("motd", at)
			in, why := due(t, a, at)
			if want := cmp.Or(tt.why, "changed"); why != want {
				t.Fatalf("due in %s because %q, want %q", in, why, want)
			}
			if why != "interval" && tt.spread != (in > 0) || in > 9*time.Minute || tt.spread && in > time.Minute {
				t.Errorf("due in %s, want spread %v", in, tt.spread)
			}
		})
	}
}

func TestSchedule_withinATenthOfTheInterval(t *testing.T) {
	for _, tt := range []struct{ interval, most time.Duration }{
		{10 * time.Second, time.Second}, {5 * time.Minute, 30 * time.Second}, {10 * time.Minute, time.Minute}, {24 * time.Hour, time.Minute}, {0, time.Minute},
	} {
		var latest time.Duration
		for g := range int64(200) {
			a, e := scheduled(t)
			says(e, func(c *nodeconfig.Config) { c.Interval, c.Generation = tt.interval, g+2 })
			a.schedule("motd", now)
			in, _ := due(t, a, now)
			latest = max(latest, in)
		}
		if latest >= tt.most || latest < tt.most/2 {
			t.Errorf("interval %s: the latest of 200 comes after %s, want nearly %s", tt.interval, latest, tt.most)
		}
	}
}

// A NodeConfig that is edited every second runs nevertheless, and no later than one
// that is edited once.
func TestSchedule_editsThatKeepComing(t *testing.T) {
	a, e := scheduled(t)
	clock, runs := now, 0
	for s := range 600 {
		clock = clock.Add(time.Second)
		says(e, func(c *nodeconfig.Config) { c.Generation++ })
		a.schedule("motd", clock)
		if in, _ := due(t, a, clock); in <= 0 {
			ran(t, a, e, clock)
			runs++
		}
		if s == 60 && runs == 0 {
			t.Fatal("edits postponed the run beyond a minute")
		}
	}
	if runs < 10 || runs > 200 {
		t.Errorf("%d runs in 10 minutes of edits, which are spread over a minute each", runs)
	}
}

// What is not read yet does not run, whatever else is new; once it is read it waits no
// longer than from then on.
func TestSchedule_unread(t *testing.T) {
	a, e := scheduled(t)
	says(e, func(c *nodeconfig.Config) {
		c.Generation++
		c.Err = fmt.Errorf("ConfigMap default/app %w", cluster.ErrPending)
	})
	a.schedule("motd", now)
	if in, why := due(t, a, now); why != "" {
		t.Errorf("due in %s (%s), before what it references is known", in, why)
	}
	says(e, func(c *nodeconfig.Config) { c.Err = nil })
	at := now.Add(time.Hour)
	a.schedule("motd", at)
	if in, why := due(t, a, at); in <= 0 || in > time.Minute || why != "new" {
		t.Errorf("due %s after it was read (%s)", in, why)
	}
}

// Before enough is known nothing runs.
func TestSchedule_beforeTheAgentIsReady(t *testing.T) {
	a, e := scheduled(t)
	a.began = false
	says(e, func(c *nodeconfig.Config) { c.Generation++ })
	a.schedule("motd", now)
	if in, why := due(t, a, now); why != "" {
		t.Errorf("due in %s (%s)", in, why)
	}
}

// A handler is told of all that others claim only while the source is whole.
func TestAgent_claimsOfOthersAreComplete(t *testing.T) {
	w := newAgentWorld(t)
	w.write(t, "a.yaml", nodetest.Doc("a", "one"))
	w.write(t, "b.yaml", nodetest.Doc("b", "one"))
	w.pass(t)
	others := func() string { return fmt.Sprint(w.agent.machine.Claims.Others("a")) }
	if got, want := others(), "[path:/etc/b] true"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	w.write(t, "c.yaml", "{")
	w.later(t, 5*time.Second)
	if got, want := others(), "[path:/etc/b] false"; got != want {
		t.Errorf("beside a file that cannot be read: got %s, want %s", got, want)
	}
}
