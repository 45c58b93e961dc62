package kube

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/node/cluster"
	"github.com/tlspu/keel/test/kubetest"
)

var (
	agents  = flag.Int("agents", 2500, "agents that write what came of one NodeConfig")
	watches = flag.Int("watches", 20, "watches of the NodeConfigs that are held meanwhile; agents hold one each")
	window  = flag.Duration("window", time.Minute, "time over which the agents spread their visits")
	most    = flag.Duration("most", 5*time.Minute, "how long results may take after the last visit")
)

// etcdQuota is more than the usual 2 GiB, which a large map fills between two
// compactions.
const etcdQuota = "--quota-backend-bytes=8589934592"

// BenchmarkFleet has many agents write their status after one NodeConfig was edited,
// first in the one form and then in the other, and tells what that costs the API
// server. An agent is the Reporter of a real one: the visit is left out.
func BenchmarkFleet(b *testing.B) {
	var found []cost
	for _, form := range []cluster.Form{cluster.FormMap, cluster.FormNode} {
		b.Run(string(form), func(b *testing.B) { found = append(found, measure(b, form)) })
	}
	table := [][]string{{fmt.Sprintf("%d agents, one edit spread over %s, %d watches of the NodeConfigs", *agents, *window, *watches)}, {"---"},
		{"results stored"}, {"after"}, {"a PATCH at the API server"}, {"answers that were no success, of all"}, {"the NodeConfig in the end"},
		{"bytes sent to etcd"}, {"its database grows by"}, {"bytes sent to one watch of the NodeConfigs"},
		{fmt.Sprintf("to those of %d agents, computed", *agents)}, {"processor time of kube-apiserver"}, {"of etcd"}}
	for _, c := range found {
		for i, cell := range []string{"`--status=" + string(c.form) + "`", "---",
			fmt.Sprint(c.stored), fmt.Sprintf("%.0f s", c.took.Seconds()), quantiles(c.patches), c.refused, megabytes(float64(c.size)),
			megabytes(c.etcd), megabytes(c.database), megabytes(c.watch),
			megabytes(c.watch * float64(*agents)), fmt.Sprintf("%.0f s", c.api), fmt.Sprintf("%.0f s", c.store)} {
			table[i] = append(table[i], cell)
		}
	}
	rows.WriteString("\n")
	for _, cells := range table {
		fmt.Fprintf(&rows, "| %s |\n", strings.Join(cells, " | "))
	}
}

func megabytes(bytes float64) string { return fmt.Sprintf("%.2f MB", bytes/1e6) }

// cost is what one edit came to.
type cost struct {
	form           cluster.Form
	took           time.Duration
	stored, size   int
	patches        []time.Duration
	refused        string
	etcd, database float64 // bytes
	watch          float64 // bytes
	api, store     float64 // seconds
}

func measure(b *testing.B, form cluster.Form) cost {
	s := serve(b, kubetest.Options{EtcdArgs: []string{etcdQuota}})
	const name = "fleet"
	config := nodeConfig(name, strings.Repeat("setting = 0123456789\n", 20))
	if err := s.Do(b.Context(), s.Admin(), http.MethodPost, nodeConfigs, config, nil); err != nil {
		b.Fatal(err)
	}
	f := newFleet(b, s, form, name)
	progress("%s: %d agents write for the first time", form, *agents)
	if form == cluster.FormMap {
		fillMap(b, s, name, *agents)
	} else {
		f.write(b, 1, *window)
	}
	w := watch(b, s)

	progress("%s: one edit", form)
	before, seen, from := figures(b, s), w.bytes.Load(), time.Now()
	patch(b, s, nodeConfigs+"/"+name, object{"spec": object{"params": object{"content": "edited\n"}}})
	until(b, "the edit is seen", time.Millisecond, time.Minute, func() bool {
		k, _ := f.shared.Known(name)
		return k.Generation == 2
	})
	f.write(b, 2, *window)
	c := cost{form: form, took: time.Since(from)}
	f.stop() // a server that is overwhelmed must be able to answer
	until(b, "the API server is well", time.Second, 5*time.Minute, func() bool {
		began := time.Now()
		return s.Do(b.Context(), s.Admin(), http.MethodGet, "/api/v1/namespaces/default", nil, nil) == nil && time.Since(began) < time.Second
	})
	after := figures(b, s)
	c.api, c.store = after.api-before.api, after.store-before.store
	c.etcd, c.database = after.sent-before.sent, after.database-before.database
	c.watch = float64(w.bytes.Load()-seen) / float64(*watches)
	progress("%s: %d watches began anew", form, w.again.Load())

	c.refused = "0"
	refused := map[int]int{}
	for _, r := range s.Requests(b, from) {
		if r.Verb != "patch" || !strings.HasPrefix(r.UserAgent, "keel-node-agent") {
			continue
		}
		if c.patches = append(c.patches, r.Took); r.Code/100 != 2 {
			refused[r.Code]++
		}
	}
	if len(refused) > 0 {
		c.refused = fmt.Sprintf("%v of %d", refused, len(c.patches))
	}
	c.stored, c.size = f.stored(b)
	b.ReportMetric(c.took.Seconds(), "s")
	return c
}

// numbers are of the two processes, since they started.
type numbers struct{ api, store, sent, database float64 }

func figures(b *testing.B, s *kubetest.Server) numbers {
	b.Helper()
	api, etcd := s.Metrics(b)
	get := func(text, name string) float64 {
		v, err := sumOf(strings.NewReader(text), name)
		if err != nil {
			b.Fatal(err)
		}
		return v
	}
	return numbers{
		api: get(api, "process_cpu_seconds_total"), store: get(etcd, "process_cpu_seconds_total"),
		sent: get(etcd, "etcd_network_client_grpc_received_bytes_total"), database: get(etcd, "etcd_mvcc_db_total_size_in_bytes"),
	}
}

// A fleet are the Reporters of many agents. They share one watch of the NodeConfigs,
// which the other agents' would be copies of.
type fleet struct {
	server    *kubetest.Server
	form      cluster.Form
	name      string // of the NodeConfig
	shared    *cluster.Cluster
	reporters []*cluster.Reporter
	stop      func() // ends all of it; may be called again
}

func newFleet(b *testing.B, s *kubetest.Server, form cluster.Form, name string) *fleet {
	b.Helper()
	dir := b.TempDir()
	connect := func(node string) *cluster.Client {
		c, err := cluster.Connect(kubeconfig(b, s, dir, node), "keel-node-agent")
		if err != nil {
			b.Fatal(err)
		}
		return c
	}
	log := slog.New(slog.DiscardHandler)
	f := &fleet{server: s, form: form, name: name}
	f.shared = cluster.New(cluster.Options{Client: connect("shared"), Node: "shared", Log: log})
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	f.stop = sync.OnceFunc(func() {
		stop()
		running.Wait()
		f.shared.Wait()
	})
	b.Cleanup(f.stop)
	f.shared.Start(ctx)
	until(b, "the NodeConfig is seen", soon, time.Minute, func() bool { _, ok := f.shared.Known(name); return ok })
	for i := range *agents {
		r := cluster.NewReporter(cluster.ReporterOptions{
			Client: connect(nodeName(i)), Node: nodeName(i), Form: form, Known: f.shared.Known,
			NodeUID: func() types.UID { return types.UID("uid-of-" + nodeName(i)) }, Now: time.Now, Log: log,
		})
		f.reporters = append(f.reporters, r)
		running.Go(func() { r.Run(ctx) })
	}
	return f
}

// write has every agent report a result of a generation, at a time of its own within
// a window, and waits until all are stored.
func (f *fleet) write(b *testing.B, generation int64, window time.Duration) {
	b.Helper()
	known, _ := f.shared.Known(f.name)
	ctx, cancel := context.WithTimeout(b.Context(), window+*most)
	defer cancel()
	var writing sync.WaitGroup
	var unsent, done atomic.Int64
	for _, r := range f.reporters {
		writing.Go(func() {
			timer := time.NewTimer(rand.N(window))
			defer timer.Stop()
			<-timer.C
			r.Report(f.name, known.UID, status(generation))
			if err := r.Flush(ctx); err != nil && unsent.Add(1) == 1 {
				progress("%v", err)
			}
			if n := done.Add(1); n%500 == 0 {
				progress("%s: %d results", f.form, n)
			}
		})
	}
	writing.Wait()
	if n := unsent.Load(); n > 0 {
		progress("%s: %d results were not sent", f.form, n)
	}
}

// stored counts results of the second generation, and gives the NodeConfig's size.
func (f *fleet) stored(b *testing.B) (results, size int) {
	b.Helper()
	var raw json.RawMessage
	get := func(path string, into any) {
		if err := f.server.Do(b.Context(), f.server.Admin(), http.MethodGet, path, nil, into); err != nil {
			b.Fatal(err)
		}
	}
	get(nodeConfigs+"/"+f.name, &raw)
	var nc v1alpha1.NodeConfig
	if err := json.Unmarshal(raw, &nc); err != nil {
		b.Fatal(err)
	}
	for _, s := range nc.Status.Nodes {
		if s.ObservedGeneration == 2 {
			results++
		}
	}
	var states v1alpha1.NodeStateList
	get(nodeStates, &states)
	for _, s := range states.Items {
		if s.Status.Configs[f.name].ObservedGeneration == 2 {
			results++
		}
	}
	return results, len(raw)
}

func nodeName(i int) string { return fmt.Sprintf("node-%05d", i) }

// status is as an agent writes it after a visit that changed a file.
func status(generation int64) v1alpha1.NodeStatus {
	sum := sha256.Sum256([]byte("data"))
	return v1alpha1.NodeStatus{
		LastRunTime: metav1.Now(), LastResult: v1alpha1.Success, Changed: true, Message: "configuration applied, and a few words",
		ObservedGeneration: generation, TriggerDigest: hex.EncodeToString(sum[:]),
	}
}
