package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/utils/clock"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/node/facts"
)

const (
	// answerTime is how long a single request may take.
	answerTime = 30 * time.Second
	// systemSpace is the namespace whose UID is the cluster's ID.
	systemSpace = "kube-system"
)

// A Cluster is what the API server said last. Its methods are safe for concurrent
// use and never wait for the API server.
type Cluster struct {
	client  *Client
	node    string // name of the agent's Node
	log     *slog.Logger
	woken   chan struct{}
	configs *configs
	data    *data

	line    *connection
	running sync.WaitGroup
	// begin follows something until stop is called, or what Start was given ends.
	begin func(f feed) (stop func())

	mu       sync.Mutex
	own      *corev1.Node // last that was there
	gone     bool         // it is not there any more
	asked    bool         // the server said whether it is there
	edition  int          // number of what is known of the Node and the cluster
	system   *corev1.Namespace
	version  *version.Info
	troubles map[string]error // by what could not be read last time
}

// Options of a Cluster.
type Options struct {
	Client     *Client
	Node       string   // name of the agent's Node
	Namespaces []string // whose ConfigMaps and Secrets may be read
	Log        *slog.Logger
}

// New makes a Cluster that knows nothing before it runs.
func New(o Options) *Cluster {
	c := &Cluster{client: o.Client, node: o.Node, log: o.Log, woken: make(chan struct{}, 1), troubles: map[string]error{}}
	c.line = newConnection(o.Client, o.Node)
	c.configs = newConfigs(o.Node, c.wake)
	c.data = &data{client: o.Client, namespaces: o.Namespaces, changed: c.wake, log: o.Log, watches: map[string]*datum{}, renewed: map[string]bool{}}
	return c
}

// Start follows the API server until ctx ends. It may be called once, before
// anything else; Wait returns when everything that it started has ended.
func (c *Cluster) Start(ctx context.Context) {
	c.line.begin(ctx)
	c.begin = func(f feed) (stop func()) {
		f.line = c.line
		following, stop := context.WithCancel(ctx)
		c.running.Go(func() { f.run(following) })
		return stop
	}
	for _, f := range []feed{
		{client: c.client.core, resource: "nodes", name: c.node, example: &corev1.Node{}, store: &single[corev1.Node]{taken: c.setNode}},
		{client: c.client.keel, resource: "nodeconfigs", example: &object{}, store: c.configs},
	} {
		what := f.String()
		f.heard = func(err error) { c.heard(what, err) }
		c.begin(f)
	}
	c.running.Go(func() { c.meet(ctx) })
}

// Wait waits for the end of what Start started.
func (c *Cluster) Wait() { c.running.Wait() }

// Woken has an element when anything changed since it was last received from.
func (c *Cluster) Woken() <-chan struct{} { return c.woken }

func (c *Cluster) wake() {
	select {
	case c.woken <- struct{}{}:
	default: // there is one already
	}
}

// Take gives the NodeConfigs that are new or changed since it was called last, and
// the names of those that are gone. synced is false before all were read once.
func (c *Cluster) Take() (news []NodeConfig, gone []string, synced bool) { return c.configs.take() }

// Known gives what the watch said last of a NodeConfig.
func (c *Cluster) Known(name string) (Known, bool) { return c.configs.get(name) }

// missing says that the server does not have a NodeConfig that is known. If the watch
// does not say so within moments, it follows a state that is no more.
func (c *Cluster) missing(name string, uid types.UID) {
	time.AfterFunc(probeTime, func() {
		if k, ok := c.Known(name); ok && k.UID == uid {
			c.line.relist()
		}
	})
}

// Want says which ConfigMaps and Secrets are needed, by their titles. The others
// are forgotten. It comes after Start.
func (c *Cluster) Want(titles []string) { c.data.want(titles, c.begin) }

// Find gives a ConfigMap or Secret that is wanted, or nil when there is none. The
// error is ErrPending while nobody knows.
func (c *Cluster) Find(title string) (*v1alpha1.Data, error) { return c.data.find(title) }

// TakeData gives the titles of the ConfigMaps and Secrets that Find answers
// differently than when it was called last.
func (c *Cluster) TakeData() []string { return c.data.taken() }

// FactsEdition is the number of what is known of the Node and the cluster.
func (c *Cluster) FactsEdition() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.edition
}

// UID is that of the Node; empty: not known, or it is gone.
func (c *Cluster) UID() types.UID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.own == nil || c.gone {
		return ""
	}
	return c.own.UID
}

// SetFacts fills in what the API server says of the node and the cluster. Before
// there is anything to say, the error is ErrPending, or says that there is no Node.
func (c *Cluster) SetFacts(f *facts.Facts) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.own == nil && c.asked:
		return c.noNode()
	case c.own == nil:
		return c.pending("nodes "+c.node, "the Node "+c.node)
	case c.system == nil || c.version == nil:
		return c.pending(clusterFacts, "the namespace "+systemSpace)
	}
	f.SetNode(c.own)
	f.SetSystem(c.system)
	f.SetServer(c.client.Server, c.version)
	return nil
}

func (c *Cluster) noNode() error {
	return fmt.Errorf("the cluster has no Node %s: is node-name right?", c.node)
}

// pending says that something is being read, and why that does not work.
func (c *Cluster) pending(what, name string) error {
	if err := c.troubles[what]; err != nil {
		return fmt.Errorf("%s %w: %w", name, ErrPending, err)
	}
	return fmt.Errorf("%s %w", name, ErrPending)
}

// Err says why what is known may be old: what cannot be read at the moment, or that
// the Node is gone.
func (c *Cluster) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	if c.gone {
		errs = append(errs, c.noNode())
	}
	for _, what := range slices.Sorted(maps.Keys(c.troubles)) {
		errs = append(errs, c.troubles[what])
	}
	return errors.Join(errs...)
}

// setNode takes the Node. Of one that went, what it said last stays known.
func (c *Cluster) setNode(n *corev1.Node, synced bool) {
	c.mu.Lock()
	if n != nil {
		n.ManagedFields, n.Status.Images = nil, nil // most of its size
		c.own = n
	}
	if gone := n == nil && c.own != nil; gone != c.gone {
		c.gone = gone
		if gone {
			c.log.Warn("Node is gone; what it said last is used", "node", c.node)
		}
	}
	c.asked = c.asked || synced
	c.edition++
	c.mu.Unlock()
	c.wake()
}

// heard notes how a request went and logs what is new about it.
func (c *Cluster) heard(what string, err error) {
	c.mu.Lock()
	before := c.troubles[what]
	if err == nil {
		delete(c.troubles, what)
	} else {
		c.troubles[what] = err
	}
	c.mu.Unlock()
	say(c.log, what, before, err)
}

// say logs how a request went, if the last one went otherwise.
func say(log *slog.Logger, what string, before, err error) {
	switch {
	case err != nil && class(before) != class(err):
		log.Error("API server cannot be read", "what", what, "err", err)
	case err == nil && before != nil:
		log.Info("API server can be read again", "what", what)
	}
}

// clusterFacts is what meet reads, in messages.
const clusterFacts = "facts of the cluster"

// meet reads the facts of the cluster, again and again until it has them.
func (c *Cluster) meet(ctx context.Context) {
	// Of an outage the connection says when it is over: the pauses are for refusals.
	backoff := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 6, Cap: 30 * time.Second}
	_ = backoff.DelayWithReset(clock.RealClock{}, 5*time.Minute).Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		ns, v, err := c.read(ctx)
		if ctx.Err() != nil {
			return true, nil
		}
		c.heard(clusterFacts, err)
		if err != nil {
			c.line.wait(ctx)
			return false, nil
		}
		c.mu.Lock()
		c.system, c.version = ns, v
		c.edition++
		c.mu.Unlock()
		c.wake()
		return true, nil
	})
}

func (c *Cluster) read(ctx context.Context) (*corev1.Namespace, *version.Info, error) {
	asking, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	ns, v := new(corev1.Namespace), new(version.Info)
	err := c.client.core.Get().Resource("namespaces").Name(systemSpace).Do(asking).Into(ns)
	if apierrors.IsForbidden(err) {
		err = fmt.Errorf("%w: give the agent's ServiceAccount get on the namespace %s", err, systemSpace)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the namespace %s: %w", systemSpace, bare(err))
	}
	data, err := c.client.core.Get().AbsPath("/version").Do(asking).Raw()
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the API server's version: %w", bare(err))
	}
	return ns, v, nil
}
