package node

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"strings"
	"time"
)

// maxSpread is the longest time over which nodes spread what is new for all of them.
const maxSpread = time.Minute

// hold notes, for every NodeConfig that says something new, when it is visited. What
// changes on an API server changes for all nodes at once, so each waits for its own
// part of a tenth of the interval, of a minute at most. Nothing waits at the start,
// when it failed before, and when only this node is concerned.
func (a *agent) hold(now time.Time) {
	_, known := a.facts.Get()
	for id, e := range a.entries {
		t := e.trigger()
		if e.config == nil || e.held == t || e.unread() {
			continue
		}
		from := now
		if a.woken != nil && a.settled && e.said == "" && e.mass(t) {
			window := min(e.interval(a.settings.DefaultInterval)/10, maxSpread)
			from = now.Add(share(window, a.settings.NodeName, id, strconv.FormatInt(t.generation, 10), t.digest))
		}
		if e.holding && e.from.Before(from) {
			from = e.from // edits that follow one another postpone nothing
		}
		e.held, e.from, e.holding = t, from, true
		if wait := from.Sub(now); wait >= time.Second {
			a.env.Log.Info("visit waits for this node's turn: changes are spread over the nodes", "target", id, "in", wait.Round(time.Second))
		}
	}
	a.settled = a.settled || a.looked && known
}

// mass reports whether what t is of is new for all nodes, and not for this one alone:
// its labels decide whether it is excluded, and then it has no data.
func (e *entry) mass(t trigger) bool {
	if !e.visited {
		return !e.early
	}
	before := e.visitOf
	return t.uid != before.uid || t.generation != before.generation || t.digest != before.digest && t.excluded == before.excluded
}

// share is the part of a window that falls to what the words name: the same for the
// same, so that an agent that was restarted does not draw again.
func share(window time.Duration, words ...string) time.Duration {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	const parts = 1 << 16
	return window * time.Duration(binary.BigEndian.Uint16(sum[:])) / parts
}
