package monitor

import (
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden")

var noon = time.Date(2026, 10, 15, 12, 0, 0, 0, time.UTC)

func metrics() *Metrics { return New("v1.2.3", []string{"file", "package"}) }

// scrape gives the lines of Keel's own metrics.
func scrape(t *testing.T, m *Metrics) (lines []string) {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler(quiet(t)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("GET /metrics: %d\n%s", w.Code, w.Body)
	}
	for line := range strings.Lines(w.Body.String()) {
		if strings.Contains(line, "keel_") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

// populated is an agent that has done everything once.
func populated() *Metrics {
	m := metrics()
	m.Visited(Visit{NodeConfig: "motd", Handler: "file", Changed: true, Restarts: 2, Took: 7 * time.Millisecond, End: noon})
	m.Visited(Visit{NodeConfig: "nginx", Handler: "package", Result: Failed, Pending: true, Took: time.Minute, End: noon})
	m.Visited(Visit{NodeConfig: "typo", Handler: "fiel", Result: Failed, End: noon})
	m.FactsCollected(noon)
	m.Queue(3)
	m.Wrote(Status, Done)
	m.Wrote(Event, Withheld)
	m.Reachable(true)
	m.SourceErrors(2)
	m.Withheld(func() int { return 5 })
	return m
}

// The names, types, labels and texts are what dashboards and alerts are built on.
func TestMetrics_golden(t *testing.T) {
	const file = "testdata/metrics.txt"
	got := strings.Join(scrape(t, populated()), "\n") + "\n"
	got = strings.Replace(got, runtime.Version(), "go1.x", 1)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func TestMetrics(t *testing.T) {
	visit := Visit{NodeConfig: "motd", Handler: "file", Took: 20 * time.Millisecond, End: noon}
	with := func(change func(*Visit)) Visit {
		v := visit
		change(&v)
		return v
	}
	// What every visit of visit's length counts.
	counted := []string{
		`keel_run_duration_seconds_bucket{handler="file",le="0.005"} 0`,
		`keel_run_duration_seconds_bucket{handler="file",le="0.025"} 1`,
		`keel_run_duration_seconds_bucket{handler="file",le="0.1"} 1`,
		`keel_run_duration_seconds_bucket{handler="file",le="0.5"} 1`,
		`keel_run_duration_seconds_bucket{handler="file",le="2"} 1`,
		`keel_run_duration_seconds_bucket{handler="file",le="10"} 1`,
		`keel_run_duration_seconds_bucket{handler="file",le="30"} 1`,
		`keel_run_duration_seconds_bucket{handler="file",le="120"} 1`,
		`keel_run_duration_seconds_bucket{handler="file",le="600"} 1`,
		`keel_run_duration_seconds_bucket{handler="file",le="1800"} 1`,
		`keel_run_duration_seconds_bucket{handler="file",le="+Inf"} 1`,
		`keel_run_duration_seconds_sum{handler="file"} 0.02`,
		`keel_run_duration_seconds_count{handler="file"} 1`,
		`keel_runs_total{handler="file"} 1`,
	}
	const (
		success   = `keel_nodeconfig_success{nodeconfig="motd"} 1`
		failure   = `keel_nodeconfig_success{nodeconfig="motd"} 0`
		succeeded = `keel_nodeconfig_last_success_timestamp_seconds{nodeconfig="motd"} 1.7920656e+09`
		settled   = `keel_nodeconfig_restart_pending{nodeconfig="motd"} 0`
		pending   = `keel_nodeconfig_restart_pending{nodeconfig="motd"} 1`
	)
	tests := []struct {
		name string
		do   func(*Metrics)
		want []string // lines that were not there, or were others
	}{
		{"nothing", func(*Metrics) {}, nil},
		{"a visit with nothing to do", func(m *Metrics) { m.Visited(visit) }, append([]string{success, succeeded, settled}, counted...)},
		{"a change and restarts", func(m *Metrics) { m.Visited(with(func(v *Visit) { v.Changed, v.Restarts = true, 3 })) },
			append([]string{success, succeeded, settled, `keel_changes_total{handler="file"} 1`, `keel_restarts_total{handler="file"} 3`}, counted...)},
		{"a failure", func(m *Metrics) { m.Visited(with(func(v *Visit) { v.Result = Failed })) },
			append([]string{failure, settled, `keel_failures_total{handler="file"} 1`}, counted...)},
		{"a failed restart", func(m *Metrics) {
			m.Visited(with(func(v *Visit) { v.Result, v.Changed, v.Pending = Failed, true, true }))
		}, append([]string{failure, pending, `keel_changes_total{handler="file"} 1`, `keel_failures_total{handler="file"} 1`}, counted...)},
		{"a wait says nothing of the result", func(m *Metrics) { m.Visited(with(func(v *Visit) { v.Result = Waiting })) },
			append([]string{settled, `keel_waits_total{handler="file"} 1`}, counted...)},
		{"a failure leaves the time of the last success", func(m *Metrics) {
			m.Visited(Visit{NodeConfig: "motd", Handler: "file", End: noon})
			m.Visited(Visit{NodeConfig: "motd", Handler: "file", End: noon.Add(time.Hour), Result: Failed})
			m.duration.Reset()
			m.runs.Reset()
		}, []string{failure, succeeded, settled, `keel_failures_total{handler="file"} 1`}},
		{"a handler that the binary lacks", func(m *Metrics) {
			m.Visited(Visit{NodeConfig: "a", Handler: "made-up-1", Result: Failed})
			m.Visited(Visit{NodeConfig: "a", Handler: "made-up-2", Result: Failed})
			m.duration.Reset()
		}, []string{
			`keel_failures_total{handler="none"} 2`, `keel_runs_total{handler="none"} 2`,
			`keel_nodeconfig_success{nodeconfig="a"} 0`, `keel_nodeconfig_restart_pending{nodeconfig="a"} 0`,
		}},
		{"a name of any bytes", func(m *Metrics) {
			m.Visited(Visit{NodeConfig: "restart/\xff\"\n", Handler: "file", Result: Waiting})
			m.duration.Reset()
			m.runs.Reset()
			m.waits.Reset()
		}, []string{`keel_nodeconfig_restart_pending{nodeconfig="restart/` + "\uFFFD" + `\"\n"} 0`}},
		{"a NodeConfig that is gone", func(m *Metrics) {
			m.Visited(visit)
			m.Visited(Visit{NodeConfig: "\xff", Handler: "file", Took: visit.Took})
			m.duration.Reset()
			m.runs.Reset()
			m.Forget("motd")
			m.Forget("\xff")
			m.Forget("never there")
		}, nil},
		{"a NodeConfig that its selector excludes", func(m *Metrics) {
			m.Visited(with(func(v *Visit) { v.Result = Failed }))
			m.Visited(with(func(v *Visit) { v.Excluded = true }))
			m.duration.Reset()
		}, []string{`keel_runs_total{handler="file"} 2`, `keel_failures_total{handler="file"} 1`}},
		{"a queue", func(m *Metrics) { m.Queue(7) }, []string{"keel_queue_depth 7"}},
		{"a queue that is empty again", func(m *Metrics) { m.Queue(7); m.Queue(0) }, nil},
		{"facts", func(m *Metrics) { m.FactsCollected(noon.Add(250 * time.Millisecond)) },
			[]string{"keel_facts_collected_timestamp_seconds 1.79206560025e+09"}},
		{"writes", func(m *Metrics) {
			m.Wrote(Status, Done)
			m.Wrote(Status, Done)
			m.Wrote(Status, Withheld)
			m.Wrote(Event, Refused)
		}, []string{
			`keel_api_writes_total{kind="status",result="done"} 2`, `keel_api_writes_total{kind="status",result="withheld"} 1`,
			`keel_api_writes_total{kind="event",result="failed"} 1`,
		}},
		{"files that cannot be read", func(m *Metrics) { m.SourceErrors(2) }, []string{"keel_source_errors 2"}},
		{"files that can be read again", func(m *Metrics) { m.SourceErrors(2); m.SourceErrors(0) }, []string{"keel_source_errors 0"}},
		{"a NodeConfig that cannot be read", func(m *Metrics) { m.Missing("motd") }, []string{failure}},
		{"statuses that are withheld", func(m *Metrics) { m.Withheld(func() int { return 7 }) }, []string{"keel_statuses_withheld 7"}},
		{"an API server", func(m *Metrics) { m.Reachable(true) }, []string{"keel_api_server_reachable 1"}},
		{"an API server that is away", func(m *Metrics) { m.Reachable(true); m.Reachable(false) }, []string{"keel_api_server_reachable 0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := metrics()
			before := map[string]bool{}
			for _, line := range scrape(t, m) {
				before[line] = true
			}
			tt.do(m)
			got := map[string]bool{}
			for _, line := range scrape(t, m) {
				if !before[line] && !strings.HasPrefix(line, "#") {
					got[line] = true
				}
			}
			want := map[string]bool{}
			for _, line := range tt.want {
				want[line] = true
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("new lines (-want +got):\n%s", diff)
			}
		})
	}
}

// Visits come from one goroutine, the rest from others, and scrapes at any time.
func TestMetrics_concurrentUse(t *testing.T) {
	m := metrics()
	var all sync.WaitGroup
	for _, do := range []func(){
		func() { m.Visited(Visit{NodeConfig: "a", Handler: "file", End: noon}) },
		func() { m.Visited(Visit{NodeConfig: "b", Handler: "other", Result: Failed}) },
		func() { m.Forget("a"); m.Forget("b") },
		func() { m.Wrote(Status, Refused); m.Reachable(false) },
		func() { m.Queue(1); m.FactsCollected(noon) },
		func() { scrape(t, m) },
	} {
		all.Go(func() {
			for range 50 {
				do()
			}
		})
	}
	all.Wait()
	m.Forget("a")
	m.Forget("b")
	want := map[string]bool{`keel_runs_total{handler="file"} 50`: true, `keel_runs_total{handler="none"} 50`: true, `keel_api_writes_total{kind="status",result="failed"} 50`: true}
	for _, line := range scrape(t, m) {
		delete(want, line)
		if strings.HasPrefix(line, "keel_nodeconfig_") {
			t.Errorf("still there: %s", line)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

// Two agents in one process, as tests have them, do not share anything.
func TestNew_hasARegistryOfItsOwn(t *testing.T) {
	a, b := metrics(), metrics()
	a.Queue(5)
	for _, line := range scrape(t, b) {
		if line == "keel_queue_depth 5" {
			t.Error("shared")
		}
	}
}

func BenchmarkScrape(b *testing.B) {
	m := metrics()
	for i := range 200 {
		m.Visited(Visit{NodeConfig: "nodeconfig-" + string(rune('a'+i%26)) + strings.Repeat("x", i/26), Handler: "file", End: noon})
	}
	h := m.Handler(quiet(b))
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil))
	}
}
