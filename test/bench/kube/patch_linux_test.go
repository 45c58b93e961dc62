package kube

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/test/kubetest"
)

const (
	nodeStates = "/apis/keel.tlspu.io/v1alpha1/nodestates"
	patches    = 50
)

// BenchmarkPatch measures what one agent's result costs when nobody else writes, by
// the number of nodes whose results the object holds.
func BenchmarkPatch(b *testing.B) {
	s := serve(b, kubetest.Options{EtcdArgs: []string{etcdQuota}})
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig(b, s, b.TempDir(), nodeName(1)))
	if err != nil {
		b.Fatal(err)
	}
	c.QPS, c.UserAgent = -1, "keel-node-agent"
	if err := s.Do(b.Context(), s.Admin(), http.MethodPost, nodeConfigs, nodeConfig("patch", "x"), nil); err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{10, 100, 500, 1000, 2500} {
		fillMap(b, s, "patch", n)
		write(b, s, c, fmt.Sprintf("`--status=map`, results of %d nodes", n), nodeConfigs+"/patch/status",
			func(s v1alpha1.NodeStatus) object { return object{"nodes": object{nodeName(1): s}} })
	}
	state := object{"apiVersion": "keel.tlspu.io/v1alpha1", "kind": "NodeState", "metadata": object{
		"name": nodeName(1), "ownerReferences": []object{{"apiVersion": "v1", "kind": "Node", "name": nodeName(1), "uid": "x"}}}}
	if err := s.Do(b.Context(), c, http.MethodPost, nodeStates, state, nil); err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{1, keptConfigs} {
		configs := object{}
		for i := range n {
			configs[fmt.Sprintf("bench-%05d", i)] = status(1)
		}
		if err := s.Do(b.Context(), c, http.MethodPatch, nodeStates+"/"+nodeName(1)+"/status", object{"status": object{"configs": configs}}, nil); err != nil {
			b.Fatal(err)
		}
		write(b, s, c, fmt.Sprintf("`--status=node`, results of %d NodeConfigs", n), nodeStates+"/"+nodeName(1)+"/status",
			func(s v1alpha1.NodeStatus) object { return object{"configs": object{"bench-00000": s}} })
	}
}

// write patches a status again and again, and adds a row of what each took.
func write(b *testing.B, s *kubetest.Server, c *rest.Config, what, path string, body func(v1alpha1.NodeStatus) object) {
	b.Helper()
	progress("%d patches: %s", patches, what)
	pause(b, time.Second) // what was written before is dealt with
	before := figures(b, s)
	var took []time.Duration
	for i := range patches {
		result := status(1)
		result.Message = fmt.Sprint("result ", i) // one that changes nothing is not stored
		began := time.Now()
		if err := s.Do(b.Context(), c, http.MethodPatch, path, object{"status": body(result)}, nil); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	after := figures(b, s)
	row("a PATCH of a status, one at a time, "+what, fmt.Sprintf("%s; %.0f ms of kube-apiserver's processor, %.3f MB to etcd",
		quantiles(took), 1000*(after.api-before.api)/patches, (after.sent-before.sent)/patches/1e6), "")
}

// fillMap has n nodes' results in a NodeConfig, written as agents write them.
func fillMap(b *testing.B, s *kubetest.Server, name string, n int) {
	b.Helper()
	entries := object{}
	for i := range n {
		entries[nodeName(i)] = status(1)
	}
	c := s.Admin()
	c.UserAgent = "keel-node-agent" // so that all are one field manager
	body := object{"status": object{"observedGeneration": 1, "nodes": entries}}
	if err := s.Do(b.Context(), c, http.MethodPatch, nodeConfigs+"/"+name+"/status", body, nil); err != nil {
		b.Fatal(err)
	}
}
