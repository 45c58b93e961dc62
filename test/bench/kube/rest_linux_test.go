package kube

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tlspu/keel/test/kubetest"
)

var restTime = flag.Duration("rest", 3*time.Minute, "how long requests at rest are counted")

// BenchmarkRest counts what two agents, one of each form of status, ask of the API
// server when there is nothing to do. They visit every NodeConfig all ten seconds.
func BenchmarkRest(b *testing.B) {
	s := serve(b, kubetest.Options{})
	fill(b, s)
	agents := []*agent{startAgent(b, s, "rest-map"), startAgent(b, s, "rest-node", "--status=node")}
	for _, a := range agents {
		// Twice: what the first visits have to tell was told when the second end.
		until(b, "the first visits", interval, 2*time.Minute, func() bool { return a.metric(b, "keel_runs_total") >= 2*keptConfigs })
	}
	visits := func() (n float64) {
		for _, a := range agents {
			n += a.metric(b, "keel_runs_total")
		}
		return n
	}
	from, ran := time.Now(), visits()
	progress("two agents at rest for %s", *restTime)
	pause(b, *restTime)
	ran = visits() - ran
	counts, writes, earlier := map[string]int{}, 0, 0
	for _, r := range s.Requests(b, time.Time{}) {
		if !strings.HasPrefix(r.UserAgent, "keel-node-agent") {
			continue
		}
		if r.At.Before(from) {
			earlier++
			continue
		}
		counts[strings.TrimSuffix(r.Verb+" "+r.Resource+"/"+r.Subresource, "/")]++
		if r.Writes() {
			writes++
		}
	}
	all := "none"
	if len(counts) > 0 {
		all = fmt.Sprint(counts)
	}
	row(fmt.Sprintf("requests at rest, two agents with %d NodeConfigs, %s, %.0f visits: writes", keptConfigs, *restTime, ran), fmt.Sprint(writes), "0")
	row("all requests that began in that time", fmt.Sprintf("%s; %d before it", all, earlier), "watches only")
	b.ReportMetric(float64(writes), "writes")
}

// pause lets time go by.
func pause(b *testing.B, d time.Duration) {
	b.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.Context().Done():
		b.Fatal(b.Context().Err())
	}
}
