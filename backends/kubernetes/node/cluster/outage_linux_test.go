package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/tlspu/keel/test/kubetest"
)

// soon is how late an edit may be after an outage, and a status.
const soon = 5 * time.Second

// After an outage long enough for pauses to grow, an edit is learned and a status is
// sent within moments, by few requests.
func TestCluster_isBackSoonAfterAnOutage(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t, kubetest.Options{})
	s.InstallCRDs(t, "../../../../deploy/kubernetes/crd")
	s.Node(t, node("n1"))
	c := started(t, s, s.Admin(), Options{Node: "n1"})
	r := reporting(t, c)
	declare(t, s, "edited", "x")
	known := await(t, c, "edited")
	s.API.Stop()
	stopped := time.Now()
	r.Report("edited", known.UID, statusOf("m", known.Generation))
	kubetest.Await(t, "that both fail shows", func() bool { return c.Err() != nil && r.Err() != nil })
	kubetest.Await(t, "an outage of 20 s", func() bool { return time.Since(stopped) > 20*time.Second })
	if err := s.API.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	do(t, s, http.MethodPatch, nodeConfigs+"/edited", body{"spec": body{"params": body{"content": "y"}}})
	kubetest.Await(t, "the edit", func() bool { k, _ := c.Known("edited"); return k.Generation == 2 })
	edit := time.Since(back)
	kubetest.Await(t, "the status", func() bool { return r.Err() == nil && r.Flush(t.Context()) == nil })
	status := time.Since(back)
	t.Logf("edit after %s, status after %s", edit, status)
	if edit > soon || status > soon {
		t.Errorf("edit after %s, status after %s, want %s at most", edit, status, soon)
	}
	n := 0
	for _, q := range s.Requests(t, stopped) {
		if q.UserAgent == "keel-test/"+t.Name() {
			n++
		}
	}
	if n > 20 {
		t.Errorf("%d requests", n)
	}
}

// When etcd was restored from a backup, what was undone is undone here, and what is
// new is seen, although the server's versions are older than those that are known.
func TestCluster_etcdIsRestored(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t, kubetest.Options{})
	s.InstallCRDs(t, "../../../../deploy/kubernetes/crd")
	s.Node(t, node("n1"))
	declare(t, s, "edited", "x")
	restore := s.Backup(t)
	c := started(t, s, s.Admin(), Options{Node: "n1"})
	await(t, c, "edited")
	do(t, s, http.MethodPatch, nodeConfigs+"/edited", body{"spec": body{"params": body{"content": "y"}}})
	for i := range 50 { // so that the versions do not catch up
		declare(t, s, fmt.Sprint("undone-", i), "x")
	}
	kubetest.Await(t, "everything", func() bool {
		k, _ := c.Known("edited")
		_, last := c.Known("undone-49")
		return k.Generation == 2 && last
	})
	restore()
	declare(t, s, "new", "x")
	kubetest.Await(t, "what the backup holds", func() bool {
		k, _ := c.Known("edited")
		_, undone := c.Known("undone-0")
		_, there := c.Known("new")
		return k.Generation == 1 && !undone && there
	})
	do(t, s, http.MethodPatch, nodeConfigs+"/edited", body{"spec": body{"params": body{"content": "z"}}})
	kubetest.Await(t, "an edit after it", func() bool { k, _ := c.Known("edited"); return k.Generation == 2 })
}

func declare(t *testing.T, s *kubetest.Server, name, content string) {
	t.Helper()
	do(t, s, http.MethodPost, nodeConfigs, body{
		"apiVersion": "keel.tlspu.io/v1alpha1", "kind": "NodeConfig", "metadata": body{"name": name},
		"spec": body{"type": "file", "params": body{"path": "/etc/" + name, "content": content}},
	})
}

// await waits until a NodeConfig is known.
func await(t *testing.T, c *Cluster, name string) (k Known) {
	t.Helper()
	kubetest.Await(t, name, func() (ok bool) { k, ok = c.Known(name); return ok })
	return k
}

// reporting runs a Reporter beside c.
func reporting(t *testing.T, c *Cluster) *Reporter {
	t.Helper()
	r := NewReporter(ReporterOptions{
		Client: c.client, Node: c.node, Form: FormMap, Cluster: c, Known: c.Known, NodeUID: c.UID, Now: time.Now,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	return r
}
