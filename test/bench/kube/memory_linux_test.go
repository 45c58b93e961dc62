package kube

import (
	"flag"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tlspu/keel/test/kubetest"
)

var passes = flag.Int("passes", 30, "visits of each NodeConfig before memory is measured, ten seconds each")

// keptConfigs is how many NodeConfigs the agent keeps, of some 500 bytes each.
const keptConfigs = 200

// fill makes the NodeConfigs.
func fill(b *testing.B, s *kubetest.Server) {
	b.Helper()
	for i := range keptConfigs {
		content := strings.Repeat(fmt.Sprintf("setting_%05d = 0123456789\n", i), 15)
		if err := s.Do(b.Context(), s.Admin(), http.MethodPost, nodeConfigs, nodeConfig(fmt.Sprintf("bench-%05d", i), content), nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMemory measures the memory that is the agent's own, once the NodeConfigs
// were visited once, ten times, and so on.
func BenchmarkMemory(b *testing.B) {
	s := serve(b, kubetest.Options{})
	fill(b, s)
	a := startAgent(b, s, "memory")
	marks := []int{1, 10, 30, 60, 120, 180, 240, 300}
	for i, mark := range marks {
		if mark >= *passes {
			marks = marks[:i]
			break
		}
	}
	began := time.Now()
	for _, n := range append(marks, *passes) {
		progress("%d NodeConfigs, %d visits of each", keptConfigs, n)
		// Metrics are read as rarely as a Prometheus does: that takes memory, too.
		until(b, "the visits", interval, time.Minute+2*interval*time.Duration(n), func() bool {
			return a.metric(b, "keel_runs_total") >= float64(n*keptConfigs)
		})
		all, clean := a.private(b)
		row(fmt.Sprintf("%d NodeConfigs of an API server, the agent's private memory after %d visits of each", keptConfigs, n),
			fmt.Sprintf("%.1f MiB, of which %.1f MiB are of the binary's file", mib(all), mib(clean)), "≤ 25 MiB")
		b.ReportMetric(mib(all), "MiB")
	}
	if failed := a.metric(b, "keel_failures_total"); failed > 0 {
		b.Errorf("%v visits failed", failed)
	}
	row("its processor time", fmt.Sprintf("%.1f ms a second", 1000*a.metric(b, "process_cpu_seconds_total")/time.Since(began).Seconds()), "")
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
