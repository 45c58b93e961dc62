// Package monitor shows how a node agent does: metrics for Prometheus, probes for
// a kubelet, and the HTTP server for both. It knows nothing of the agent, which
// tells it.
//
// No label ever holds a message or a parameter. What a cluster can make large is
// bounded: the label handler has the names of the handlers in the binary and
// "none", and the label nodeconfig the names of NodeConfigs that this node has
// now, with three series each.
package monitor

import (
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// NoHandler is the label of visits that no handler of the binary made.
const NoHandler = "none"

// Result is how a visit ended.
type Result uint8

// A Waiting visit is neither a success nor a failure: it is made again later.
const (
	Succeeded Result = iota
	Failed
	Waiting
)

// A Visit is what one visit of a NodeConfig came to.
type Visit struct {
	NodeConfig string // its name, or what else the agent calls what it visited
	Handler    string // spec.type; one that the binary lacks counts as NoHandler
	Result     Result
	Changed    bool // something was changed on the machine
	Restarts   int  // services whose restart was proven
	Pending    bool // services wait for a restart after it
	Excluded   bool // its selector does not match the node, which has no series of it then
	Took       time.Duration
	End        time.Time
}

// Kind is what is written to the API server.
type Kind string

// What an agent writes.
const (
	Status Kind = "status"
	Event  Kind = "event"
)

// Outcome is what became of a write.
type Outcome string

// Withheld is what was not even tried: it was too large, or one too many.
const (
	Done     Outcome = "done"
	Refused  Outcome = "failed"
	Withheld Outcome = "withheld"
)

// Metrics are those of one agent, in a registry of their own. All methods are
// safe for concurrent use; who calls Visited and Forget for one NodeConfig from
// two goroutines sees to their order.
type Metrics struct {
	registry *prometheus.Registry
	handlers []string

	runs, failures, waits, changes, restarts *prometheus.CounterVec
	duration                                 *prometheus.HistogramVec
	success, succeeded, pending              *prometheus.GaugeVec

	facts, queue prometheus.Gauge
	sourceErrors *prometheus.GaugeVec // without labels, as reachable
	writes       *prometheus.CounterVec
	reachable    *prometheus.GaugeVec // without labels, so that it is absent until it is known
}

// New makes the metrics of an agent of that version, whose binary holds handlers
// of these names. What can be counted is there from the beginning, as 0, so that
// the first failure is an increase.
func New(version string, handlers []string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), handlers: slices.Clone(handlers)}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	gauges := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(g)
		return g
	}
	gauge := func(name, help string) prometheus.Gauge { return gauges(name, help).WithLabelValues() }

	gauges("keel_build_info", "1; the labels name the running binary.", "version", "goversion").
		WithLabelValues(valid(version), runtime.Version()).Set(1)

	m.runs = counter("keel_runs_total", "Runs of NodeConfigs that ended.", "handler")
	m.failures = counter("keel_failures_total", "Runs that ended with an error.", "handler")
	m.waits = counter("keel_waits_total", "Runs that were put off, which is no failure.", "handler")
	m.changes = counter("keel_changes_total", "Runs that changed something on the machine, failed or not.", "handler")
	m.restarts = counter("keel_restarts_total", "Services restarted, and proven to have been.", "handler")
	m.duration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "keel_run_duration_seconds", Help: "How long runs took, including the wait for the machine's lock.", Buckets: buckets(),
	}, []string{"handler"})
	m.registry.MustRegister(m.duration)

	m.success = gauges("keel_nodeconfig_success", "1 if the last run succeeded, 0 if it failed.", "nodeconfig")
	m.succeeded = gauges("keel_nodeconfig_last_success_timestamp_seconds", "When a run last succeeded.", "nodeconfig")
	m.pending = gauges("keel_nodeconfig_restart_pending", "1 while services wait for a restart that a change needs.", "nodeconfig")

	m.facts = gauge("keel_facts_collected_timestamp_seconds", "When facts were last collected; 0 before the first time.")
	m.queue = gauge("keel_queue_depth", "NodeConfigs that are due and not reconciled yet; those that wait do not count.")
	m.writes = counter("keel_api_writes_total", "Writes to the API server.", "kind", "result")
	m.reachable = gauges("keel_api_server_reachable", "1 while the API server answers and takes results, 0 while it does not.")
	m.sourceErrors = gauges("keel_source_errors", "Files and documents of the directory that are not readable as NodeConfigs.")
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "go_goroutines", Help: "Number of goroutines that currently exist."},
			func() float64 { return float64(runtime.NumGoroutine()) }),
		prometheus.NewProcessCollector(prometheus.ProcessCollectorOpts{}), //nolint:staticcheck // package collectors, which is to replace it, links database/sql
	)

	for _, h := range append(m.handlers, NoHandler) {
		for _, c := range []*prometheus.CounterVec{m.runs, m.failures, m.waits, m.changes, m.restarts} {
			c.WithLabelValues(h)
		}
	}
	for _, kind := range []Kind{Status, Event} {
		for _, o := range []Outcome{Done, Refused, Withheld} {
			m.writes.WithLabelValues(string(kind), string(o))
		}
	}
	return m
}

// buckets go from a look at one file to a package transaction of half an hour.
func buckets() []float64 {
	return []float64{0.005, 0.025, 0.1, 0.5, 2, 10, 30, 120, 600, 1800}
}

// Visited counts a visit. One that waits leaves the NodeConfig's last result as
// it was.
func (m *Metrics) Visited(v Visit) {
	h := v.Handler
	if !slices.Contains(m.handlers, h) {
		h = NoHandler
	}
	m.runs.WithLabelValues(h).Inc()
	m.duration.WithLabelValues(h).Observe(v.Took.Seconds())
	if v.Changed {
		m.changes.WithLabelValues(h).Inc()
	}
	m.restarts.WithLabelValues(h).Add(float64(max(v.Restarts, 0)))
	switch v.Result {
	case Failed:
		m.failures.WithLabelValues(h).Inc()
	case Waiting:
		m.waits.WithLabelValues(h).Inc()
	}

	if v.Excluded {
		m.Forget(v.NodeConfig)
		return
	}
	name := valid(v.NodeConfig)
	m.pending.WithLabelValues(name).Set(truth(v.Pending))
	switch v.Result {
	case Succeeded:
		m.success.WithLabelValues(name).Set(1)
		m.succeeded.WithLabelValues(name).Set(seconds(v.End))
	case Failed:
		m.success.WithLabelValues(name).Set(0)
	}
}

// Forget drops the series of a NodeConfig that is gone.
func (m *Metrics) Forget(nodeConfig string) {
	name := valid(nodeConfig)
	for _, g := range []*prometheus.GaugeVec{m.success, m.succeeded, m.pending} {
		g.DeleteLabelValues(name)
	}
}

// Missing says that a NodeConfig that was managed cannot be read now.
func (m *Metrics) Missing(nodeConfig string) { m.success.WithLabelValues(valid(nodeConfig)).Set(0) }

// FactsCollected says when facts were collected.
func (m *Metrics) FactsCollected(at time.Time) { m.facts.Set(seconds(at)) }

// Queue says how many NodeConfigs are due and not visited yet.
func (m *Metrics) Queue(due int) { m.queue.Set(float64(due)) }

// Wrote counts a write to the API server.
func (m *Metrics) Wrote(k Kind, o Outcome) { m.writes.WithLabelValues(string(k), string(o)).Inc() }

// Withheld shows the number of statuses that are withheld, which held counts when it
// is asked. It is called once.
func (m *Metrics) Withheld(held func() int) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: "keel_statuses_withheld", Help: "Statuses that are not written because there is no room for them."},
		func() float64 { return float64(held()) }))
}

// SourceErrors says how many files and documents of the directory cannot be read as
// NodeConfigs. An agent of an API server never says it, and has no such metric.
func (m *Metrics) SourceErrors(n int) { m.sourceErrors.WithLabelValues().Set(float64(n)) }

// Reachable says whether the API server answers and takes results. An agent of a directory never says
// it, and has no such metric.
func (m *Metrics) Reachable(answers bool) { m.reachable.WithLabelValues().Set(truth(answers)) }

// valid is s as a label may hold it.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
