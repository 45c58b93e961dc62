package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/test/kubetest"
	"github.com/tlspu/keel/test/nodetest"
)

// A counter is a handler that finds everything in order, and counts.
type counter struct {
	nodetest.Setting
	visits *atomic.Int64
	newest *atomic.Value // "value" of the last one visited
}

func (counter) Name() string { return "counter" }

func (counter) Validate(map[string]string) error { return nil }

func (counter) Claims(map[string]string) []string { return nil }

func (c counter) Observe(_ context.Context, l handler.Look) (declared, observed drift.State, err error) {
	c.visits.Add(1)
	c.newest.Store(l.Params["value"])
	return nil, nil, nil
}

// raced reports whether this was built with the race detector, which makes
// everything several times slower.
func raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "-race" && s.Value == "true" })
}

// used is the time that this process has computed for.
func used(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Ten thousand NodeConfigs: an agent knows them soon, does nothing at rest, needs
// little memory, and finds one edit.
func TestCluster_tenThousandNodeConfigs(t *testing.T) {
	w := newClusterWorld(t, kubetest.Start(t, kubetest.Options{}))
	number, mine := 10_000, 100
	if raced() {
		number = 2_000
	}
	c := counter{w.Handler, new(atomic.Int64), new(atomic.Value)}
	w.Env.Handlers.Register("counter", c)
	w.settings.DefaultInterval = 10 * time.Hour
	start := time.Now()
	w.fill(t, number, func(i int) body {
		spec := body{"type": "counter", "params": body{"value": "x"}}
		if i >= mine {
			spec["nodeSelector"] = body{"matchLabels": body{"role": "db"}}
		}
		return spec
	})
	t.Logf("%d NodeConfigs created in %s", number, time.Since(start).Round(time.Millisecond))
	memory, start := heap(), time.Now()
	w.start(t)
	took := func(what string, most time.Duration, ok func() bool) {
		t.Helper()
		w.until(t, what, ok)
		passed := time.Since(start)
		t.Logf("%s: after %s", what, passed.Round(time.Millisecond))
		if passed > most {
			t.Errorf("%s: after %s, want %s at most", what, passed, most)
		}
	}
	took(fmt.Sprintf("the first visits, of %d for this node", mine), 30*time.Second, func() bool { return c.visits.Load() == int64(mine) })

	const rest = 4 * time.Second
	cpu := used(t)
	timer := time.NewTimer(rest)
	<-timer.C
	share := float64(used(t)-cpu) / float64(rest)
	needs := heap() - memory
	t.Logf("at rest: %.2f of a CPU, %.1f MiB, %d bytes a NodeConfig", share, float64(needs)/(1<<20), needs/int64(number))
	if share > 0.3 || needs > 100<<20 {
		t.Errorf("at rest it needs %.2f of a CPU and %d MiB", share, needs>>20)
	}
	if n := c.visits.Load(); n != int64(mine) {
		t.Errorf("%d visits at rest", n-int64(mine))
	}

	start = time.Now()
	w.do(t, http.MethodPatch, nodeConfigs+"/many-7", body{"spec": body{"interval": "10s", "params": body{"value": "edited"}}})
	took("an edit, which is spread over a second", 15*time.Second, func() bool { return c.newest.Load() == "edited" })

	before := c.visits.Load()
	start = time.Now()
	w.do(t, http.MethodPatch, "/api/v1/nodes/"+w.node, body{"metadata": body{"labels": body{"role": "db"}}})
	took("the first visits of all, by a label", time.Minute, func() bool { return c.visits.Load()-before >= int64(number-mine) })
	t.Logf("with all of them: %.1f MiB", float64(heap()-memory)/(1<<20))
	// Ten thousand statuses of one node take minutes: the end does not wait for them.
	if err := w.end(); err != nil && !strings.Contains(err.Error(), "not sent") {
		t.Error(err)
	}
	w.end = func() error { return nil }
}

// fill makes many NodeConfigs at once, on a server of the test alone.
func (w *clusterWorld) fill(t *testing.T, number int, spec func(i int) body) {
	t.Helper()
	var making sync.WaitGroup
	numbers := make(chan int)
	errs := make(chan error, 16)
	for range 16 {
		making.Go(func() {
			var failed error
			for i := range numbers {
				failed = errors.Join(failed, w.server.Do(t.Context(), w.server.Admin(), http.MethodPost, nodeConfigs, body{
					"apiVersion": "keel.tlspu.io/v1alpha1", "kind": "NodeConfig", "metadata": body{"name": fmt.Sprintf("many-%d", i)}, "spec": spec(i),
				}, nil))
			}
			errs <- failed
		})
	}
	for i := range number {
		numbers <- i
	}
	close(numbers)
	making.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Of what is gone nothing is left: no watch, no series, no entry.
func TestCluster_whatIsGoneIsForgotten(t *testing.T) {
	w := newDebugWorld(t, kubetest.Shared(t))
	w.start(t)
	w.turn(t)
	before := runtime.NumGoroutine()
	const number = 20
	name := func(i int) string { return fmt.Sprintf("gone-%d", i) }
	for round := range 3 {
		for i := range number {
			w.object(t, "configmaps/"+name(i), body{"data": body{"text": fmt.Sprint(round)}})
			w.apply(t, name(i), body{
				"type": "setting", "params": body{"path": "/etc/" + name(i), "value": "{{ .ConfigMaps.it.text }}"},
				"configMaps": []body{{"namespace": "default", "name": name(i), "as": "it"}},
			})
		}
		w.turn(t)
		for i := range number {
			w.until(t, "what it reads", func() bool { v, _ := w.find("configmaps/" + name(i)); return v != "" })
		}
		w.turn(t)
		w.after(t, maxSpread)
		for i := range number {
			w.until(t, "the file", func() bool { return w.content(name(i)) == fmt.Sprint(round) })
			w.do(t, http.MethodDelete, nodeConfigs+"/"+name(i), nil)
		}
		w.turn(t)
	}
	w.until(t, "the end of all watches", func() bool { return runtime.NumGoroutine() <= before+number/2 })
	for i := range number {
		if got := w.metric(t, fmt.Sprintf("keel_nodeconfig_success{nodeconfig=%q}", name(i))); got != "" {
			t.Errorf("%s has a series", name(i))
		}
	}
	if err := w.end(); err != nil {
		t.Error(err)
	}
	if n, known := len(w.agent.entries), len(w.agent.byFile); n != 1 || known != 1 {
		t.Errorf("%d entries of %d NodeConfigs, want that of %s", n, known, lastly)
	}
}
