package node

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"

	"github.com/tlspu/keel/backends/kubernetes/node/cluster"
	"github.com/tlspu/keel/backends/kubernetes/node/facts"
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

// holds is an agent of an API server, with one NodeConfig that was visited.
func holds(t *testing.T) (a *agent, e *entry) {
	t.Helper()
	a = &agent{woken: make(chan struct{}), looked: true, settled: true, entries: map[string]*entry{}}
	a.settings.NodeName, a.settings.DefaultInterval = "n", 10*time.Minute
	a.facts.Set(facts.Facts{})
	a.env.Log = slog.New(slog.DiscardHandler)
	e = &entry{config: &nodeconfig.Config{Name: "motd", Uid: "1", Generation: 1, Digest: "d1"}}
	e.of, e.content = e.config, e.config
	a.entries["motd"] = e
	a.hold(now)
	visit(e, now)
	return a, e
}

// visit takes down that an entry was visited.
func visit(e *entry, at time.Time) {
	e.holding, e.visited, e.last, e.visitOf = false, true, at, e.trigger()
}

// says gives an entry another content.
func says(e *entry, change func(*nodeconfig.Config)) {
	c := *e.config
	change(&c)
	e.config, e.of, e.content = &c, &c, &c
}

func TestHold_whatIsNewForAllNodesIsSpread(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before func(a *agent, e *entry)
		change func(c *nodeconfig.Config)
		spread bool
	}{
		{name: "nothing", change: func(*nodeconfig.Config) {}},
		{name: "another generation", change: func(c *nodeconfig.Config) { c.Generation++ }, spread: true},
		{name: "made anew", change: func(c *nodeconfig.Config) { c.Uid = "2" }, spread: true},
		{name: "other data", change: func(c *nodeconfig.Config) { c.Digest = "d2" }, spread: true},
		{name: "a label: excluded", change: func(c *nodeconfig.Config) { c.Excluded = true }},
		{name: "a label: excluded, and what it reads is not read then", change: func(c *nodeconfig.Config) { c.Excluded, c.Digest = true, "d2" }},
		{name: "a label: not excluded any more", change: func(c *nodeconfig.Config) { c.Excluded, c.Digest = false, "d1" }, before: func(_ *agent, e *entry) {
			says(e, func(c *nodeconfig.Config) { c.Excluded, c.Digest = true, "d2" })
			visit(e, now)
		}},
		{name: "another generation that excludes", change: func(c *nodeconfig.Config) { c.Generation++; c.Excluded = true }, spread: true},
		{name: "a fact a template cannot do without", change: func(c *nodeconfig.Config) { c.Err = errors.New("no Node.InternalIP") }},
		{name: "it failed before", change: func(c *nodeconfig.Config) { c.Generation++ }, before: func(_ *agent, e *entry) { e.said = "disk on fire" }},
		{name: "the agent has just started", change: func(c *nodeconfig.Config) { c.Generation++ }, before: func(a *agent, e *entry) { a.settled = false }},
		{name: "a folder is this node's alone", change: func(c *nodeconfig.Config) { c.Generation++ }, before: func(a *agent, _ *entry) { a.woken = nil }},
		{name: "created", change: func(c *nodeconfig.Config) { c.Generation++ }, before: func(_ *agent, e *entry) { *e = entry{config: e.config} }, spread: true},
		{name: "there at the start, and its data is read later", change: func(*nodeconfig.Config) {}, before: func(_ *agent, e *entry) { *e = entry{config: e.config, early: true} }},
	} {
		a, e := holds(t)
		if tt.before != nil {
			tt.before(a, e)
		}
		says(e, tt.change)
		at := now.Add(time.Hour)
		e.last = at
		a.hold(at)
		late := max(e.from.Sub(at), 0)
		if tt.spread != (late > 0) && e.held != e.visitOf || late > time.Minute {
			t.Errorf("%s: visited %s later, want spread %v", tt.name, late, tt.spread)
		}
		if due := e.due(at.Add(late), time.Hour); due != (e.trigger() != e.visitOf || !e.visited) {
			t.Errorf("%s: due %v", tt.name, due)
		}
		if late > 0 && e.due(at, time.Hour) {
			t.Errorf("%s: it does not wait for its part", tt.name)
		}
	}
}

func TestHold_withinATenthOfTheInterval(t *testing.T) {
	for _, tt := range []struct{ interval, most time.Duration }{
		{10 * time.Second, time.Second}, {5 * time.Minute, 30 * time.Second}, {10 * time.Minute, time.Minute}, {24 * time.Hour, time.Minute}, {0, time.Minute},
	} {
		var latest time.Duration
		for g := range int64(200) {
			a, e := holds(t)
			says(e, func(c *nodeconfig.Config) { c.Interval, c.Generation = tt.interval, g+2 })
			a.hold(now)
			latest = max(latest, e.from.Sub(now))
		}
		if latest >= tt.most || latest < tt.most/2 {
			t.Errorf("interval %s: the latest of 200 comes after %s, want nearly %s", tt.interval, latest, tt.most)
		}
	}
}

// A NodeConfig that is edited every second is visited nevertheless, and no later
// than one that is edited once.
func TestHold_editsThatKeepComing(t *testing.T) {
	a, e := holds(t)
	clock, visits := now, 0
	for s := range 600 {
		clock = clock.Add(time.Second)
		says(e, func(c *nodeconfig.Config) { c.Generation++ })
		a.hold(clock)
		if e.due(clock, time.Hour) {
			visit(e, clock)
			visits++
		}
		if s == 60 && visits == 0 {
			t.Fatal("edits postponed the visit beyond a minute")
		}
	}
	if visits < 10 || visits > 200 {
		t.Errorf("%d visits in 10 minutes of edits, which are spread over a minute each", visits)
	}
}

func TestHold_clockThatWasSet(t *testing.T) {
	a, e := holds(t)
	says(e, func(c *nodeconfig.Config) { c.Generation++ })
	a.hold(now)
	for _, tt := range []struct {
		name string
		at   time.Time
		want bool
	}{
		{"at once", now, false},
		{"a minute later", now.Add(time.Minute), true},
		{"hours later", now.Add(9 * time.Hour), true},
		{"hours before", now.Add(-9 * time.Hour), true},
	} {
		if got := e.due(tt.at, time.Hour); got != tt.want {
			t.Errorf("%s: due %v, want %v", tt.name, got, tt.want)
		}
	}
}

// What is not read yet is not visited, whatever else is new; once it is read it
// waits no longer than from then on.
func TestHold_unread(t *testing.T) {
	a, e := holds(t)
	says(e, func(c *nodeconfig.Config) {
		c.Generation++
		c.Err = fmt.Errorf("ConfigMap default/app %w", cluster.ErrPending)
	})
	a.hold(now)
	for _, at := range []time.Duration{0, time.Minute, 24 * time.Hour} {
		if e.due(now.Add(at), time.Minute) {
			t.Errorf("visited after %s, before what it reads is known", at)
		}
	}
	says(e, func(c *nodeconfig.Config) { c.Err = nil })
	at := now.Add(time.Hour)
	a.hold(at)
	if late := e.from.Sub(at); late <= 0 || late > time.Minute || !e.due(e.from, time.Hour) {
		t.Errorf("visited %s after it was read", late)
	}
}
