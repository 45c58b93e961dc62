package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/test/kubetest"
)

const (
	deployed   = "../../../../deploy/kubernetes"
	nodeStates = "/apis/keel.tlspu.io/v1alpha1/nodestates"
)

// applied is done once: all tests share the server.
var applied sync.Once

// deploy applies what a cluster has for agents, and waits until the policy works.
func deploy(t *testing.T, s *kubetest.Server) {
	t.Helper()
	applied.Do(func() { apply(t, s) })
}

func apply(t *testing.T, s *kubetest.Server) {
	t.Helper()
	s.Kubectl(t, "", "apply", "-f", deployed+"/namespace.yaml")
	s.Kubectl(t, "", "apply", "-k", deployed)
	config(t, s, "policy-works")
	token := s.NodeToken(t, "keel-system", "keel-node-agent", "no-node")
	kubetest.Await(t, "the policy works", func() bool {
		err := s.Do(t.Context(), s.WithToken(token), http.MethodPatch, nodeConfigs+"/policy-works/status?dryRun=All",
			body{"status": body{"observedGeneration": 2}}, nil)
		return err != nil && strings.Contains(err.Error(), "is newer than the NodeConfig")
	})
}

// config makes a NodeConfig, which is gone at the end of t, and returns its UID.
func config(t *testing.T, s *kubetest.Server, name string) types.UID {
	t.Helper()
	var made v1alpha1.NodeConfig
	content := body{"apiVersion": "keel.tlspu.io/v1alpha1", "kind": "NodeConfig", "metadata": body{"name": name}, "spec": body{"type": "file"}}
	if err := s.Do(t.Context(), s.Admin(), http.MethodPost, nodeConfigs, content, &made); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Do(context.WithoutCancel(t.Context()), s.Admin(), http.MethodDelete, nodeConfigs+"/"+name, nil, nil)
	})
	return made.UID
}

// configOf reads a NodeConfig.
func configOf(t *testing.T, s *kubetest.Server, name string) (c v1alpha1.NodeConfig) {
	t.Helper()
	if err := s.Do(t.Context(), s.Admin(), http.MethodGet, nodeConfigs+"/"+name, nil, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// stateOf reads a NodeState, nil if there is none.
func stateOf(t *testing.T, s *kubetest.Server, name string) *v1alpha1.NodeState {
	t.Helper()
	state := new(v1alpha1.NodeState)
	switch err := s.Do(t.Context(), s.Admin(), http.MethodGet, nodeStates+"/"+name, nil, state); {
	case err != nil && strings.Contains(err.Error(), "not found"):
		return nil
	case err != nil:
		t.Fatal(err)
	}
	return state
}

// An agent is a Reporter with the rights of an agent, beside the watch that feeds it.
type agent struct {
	*Reporter
	watch  *Cluster
	log    journal
	access *rest.Config
	name   string           // of its client, in the audit log
	stale  map[string]Known // what the watch is to show, although it is old
	mu     sync.Mutex
	events []string
}

func (a *agent) known(name string) (Known, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if k, ok := a.stale[name]; ok {
		return k, true
	}
	return a.watch.Known(name)
}

// freeze has the watch show of a NodeConfig what it shows now, until it is thawed.
func (a *agent) freeze(t *testing.T, name string) {
	t.Helper()
	kubetest.Await(t, "it is known", func() bool { _, ok := a.watch.Known(name); return ok })
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stale[name], _ = a.watch.Known(name)
}

func (a *agent) thaw(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.stale, name)
}

// agentOn starts the agent on a node, which is there, and ends it with t or by stop.
func agentOn(t *testing.T, s *kubetest.Server, access *rest.Config, node string, form Form) (a *agent, stop func()) {
	t.Helper()
	a = &agent{access: access, name: fmt.Sprintf("%s/%s/%d", t.Name(), node, time.Now().UnixNano()), stale: map[string]Known{}}
	client, err := Connect(s.Kubeconfig(t, access), a.name)
	if err != nil {
		t.Fatal(err)
	}
	a.watch = New(Options{Client: client, Node: node, Log: slog.New(slog.DiscardHandler)})
	a.Reporter = NewReporter(ReporterOptions{
		Client: client, Node: node, Form: form, Known: a.known, NodeUID: a.watch.UID, Now: time.Now, Log: a.log.logger(),
		Event: func(name string, _ types.UID, kind, reason, message string) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.events = append(a.events, strings.Join([]string{name, kind, reason, message}, " "))
		},
	})
	ctx, end := context.WithCancel(t.Context())
	a.watch.Start(ctx)
	var running sync.WaitGroup
	running.Go(func() { a.Run(ctx) })
	stop = func() {
		end()
		running.Wait()
		a.watch.Wait()
	}
	t.Cleanup(stop)
	return a, stop
}

// deployedAgent is one with the rights that deploy/kubernetes gives, on a new node.
func deployedAgent(t *testing.T, s *kubetest.Server, name string, form Form) *agent {
	t.Helper()
	s.Node(t, node(name))
	a, _ := agentOn(t, s, s.WithToken(s.NodeToken(t, "keel-system", "keel-node-agent", name)), name, form)
	return a
}

// tell reports the status of a NodeConfig that the watch shows, and waits until the
// server has it.
func (a *agent) tell(t *testing.T, name string, st v1alpha1.NodeStatus) {
	t.Helper()
	a.hand(t, name, st)
	if err := a.Flush(deadline(t, time.Minute)); err != nil {
		t.Fatalf("%v\n%s", err, a.log.said())
	}
}

func (a *agent) hand(t *testing.T, name string, st v1alpha1.NodeStatus) {
	t.Helper()
	var k Known
	kubetest.Await(t, "it is known", func() (ok bool) { k, ok = a.known(name); return ok })
	a.Report(name, k.UID, st)
}

// writes lists what an agent has written since from.
func (a *agent) writes(t *testing.T, s *kubetest.Server, from time.Time) (list []string) {
	t.Helper()
	for _, r := range s.Requests(t, from) {
		if r.UserAgent == a.name && r.Writes() {
			list = append(list, fmt.Sprintf("%s %s %s %d", r.Verb, strings.TrimSuffix(r.Resource+"/"+r.Subresource, "/"), r.Name, r.Code))
		}
	}
	return list
}

func (a *agent) wrote(t *testing.T, s *kubetest.Server, from time.Time, want ...string) {
	t.Helper()
	var got []string
	kubetest.Await(t, strings.Join(want, ", "), func() bool {
		got = a.writes(t, s, from)
		return len(got) >= len(want)
	})
	if !slices.Equal(got, want) {
		t.Errorf("wrote:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
