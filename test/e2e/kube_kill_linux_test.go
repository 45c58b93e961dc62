package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tlspu/keel/test/kubetest"
)

const (
	kills = 50
	// lifeTime is the longest time an agent is given; most get much less. It is busy
	// from its start on: what was edited meanwhile waits for it.
	lifeTime = 3 * time.Second
	// killTime is when the kills end, however many there were: a machine that is busy
	// with something else makes fewer.
	killTime = 2 * time.Minute
)

// seed is that of a run, or the one that is to be repeated.
func seed(t *testing.T) uint64 {
	t.Helper()
	n := rand.Uint64()
	if text := os.Getenv("KEEL_TEST_SEED"); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("KEEL_TEST_SEED=%d repeats this", n)
	return n
}

// A load is NodeConfigs with a service each that are edited again and again.
type load struct {
	*cluster
	random  *rand.Rand
	names   []string
	version map[string]int
	edits   int
	// owed are those that an agent left in the middle. They are not edited, which
	// would bring a restart that was lost, until they are as they should be.
	owed map[string]bool
}

func (l *load) spec(name string) object {
	return object{
		"type": "file", "services": []string{name + ".service"}, "interval": "10s",
		"params": object{"path": "/etc/" + name + ".conf", "content": l.content(name) + "\n"},
	}
}

// content has another length each time, so that half a file would show.
func (l *load) content(name string) string {
	n := l.version[name]
	return fmt.Sprintf("%s %d %s", name, n, strings.Repeat("x", n*7919%3000))
}

// one edits one of them.
func (l *load) one() {
	l.Helper()
	name := l.names[l.random.IntN(len(l.names))]
	if l.owed[name] {
		return
	}
	l.version[name]++
	l.edits++
	l.edit(name, l.spec(name))
}

// until edits without a pause until a time.
func (l *load) until(end time.Time) {
	l.Helper()
	for time.Now().Before(end) {
		l.one()
		pause := time.NewTimer(time.Duration(l.random.IntN(120)) * time.Millisecond)
		select {
		case <-pause.C:
		case <-l.Context().Done():
			l.Fatal(l.Context().Err())
		}
	}
}

// look finds out what is owed after a kill.
func (l *load) look(h webHost) {
	l.Helper()
	journals := strings.Fields(h.Exec(l, "sh", "-c", "ls /var/lib/keel/restart 2>/dev/null || true"))
	for _, name := range l.names {
		open := slices.Contains(journals, name+".json")
		if open || l.owed[name] && h.read("/run/"+name+".running") != l.content(name) {
			l.owed[name] = true
		} else {
			delete(l.owed, name)
		}
	}
}

// Whenever an agent is killed, the next one brings everything to its end: no file
// is half written, no restart is lost, no status is left behind.
func TestKube_killedAtAnyMoment(t *testing.T) {
	l := &load{cluster: newCluster(t), random: rand.New(rand.NewPCG(seed(t), 0)), version: map[string]int{}, owed: map[string]bool{}}
	for i := range 5 {
		l.names = append(l.names, fmt.Sprintf("s%d", i))
	}
	h := bootWeb(t, "killed-1", l.names...)
	l.node("killed-1", nil)
	for _, name := range l.names {
		l.apply(name, "  type: file\n") // replaced before any agent runs
		l.edit(name, l.spec(name))
	}
	first := len(h.starts("s0"))

	a := l.agent("killed-1", h.Host, "")
	open, began := 0, time.Now()
	n := 0
	for ; n < kills && time.Since(began) < killTime; n++ {
		l.one()
		a.start()
		part := l.random.Float64()
		l.until(time.Now().Add(time.Duration(part * part * float64(lifeTime))))
		if a.ended() {
			t.Fatalf("the agent ended by itself: %v", a.process.Wait())
		}
		a.process.Kill()
		if l.look(h); len(l.owed) > 0 {
			open++
		}
	}
	l.tell("%d kills; after %d of them restarts were owed, at the end of %d; %d edits", n, open, len(l.owed), l.edits)
	if open == 0 {
		t.Error("no kill came in the middle of anything")
	}

	a.start()
	kubetest.Await(t, "everything is as it was declared", func() bool {
		return !slices.ContainsFunc(l.names, func(name string) bool { return !l.succeeded(name, "killed-1") })
	})
	for _, name := range l.names {
		want := l.content(name)
		if got := h.read("/etc/" + name + ".conf"); got != want {
			t.Errorf("%s: the file holds %d bytes, %.20q, want %d, %.20q", name, len(got), got, len(want), want)
		}
		if got := h.read("/run/" + name + ".running"); got != want {
			t.Errorf("%s: the service runs with %.20q, and was not restarted after the last change, %.20q", name, got, want)
		}
		starts := h.starts(name)
		if last := starts[len(starts)-1]; h.active(name) != last || slices.Contains(starts[:len(starts)-1], last) {
			t.Errorf("%s: %q runs, %q was started last", name, h.active(name), last)
		}
		// Each edit needs one restart at most, and a kill may repeat one that left no proof.
		if most := first + l.version[name] + 1 + n; len(starts) > most {
			t.Errorf("%s was started %d times, want %d at most", name, len(starts), most)
		}
		l.tell("%s: version %d, %d starts", name, l.version[name], len(starts)-first)
	}
	if left := h.Exec(t, "ls", "-A", "/var/lib/keel/restart"); left != "" {
		t.Errorf("journals are left: %s", left)
	}
	if left := h.Exec(t, "sh", "-c", "ls -A /etc | grep -i keel || true"); left != "" {
		t.Errorf("temporary files are left in /etc: %s", left)
	}
	at := l.nodeConfig("s0").ResourceVersion
	if err := a.end(); err != nil {
		t.Errorf("the agent ended with %v", err)
	}

	// Nothing is left to do for the next agent.
	starts := h.starts("s0")
	a.start("--once")
	if err := a.wait(); err != nil || strings.Count(a.said.String(), "unchanged s") != len(l.names) {
		t.Errorf("one more pass: %v\n%s", err, a.said)
	}
	if rv := l.nodeConfig("s0").ResourceVersion; rv != at || len(h.starts("s0")) != len(starts) {
		t.Errorf("one more pass wrote something: resourceVersion %s -> %s, %d -> %d starts", at, rv, len(starts), len(h.starts("s0")))
	}
}
