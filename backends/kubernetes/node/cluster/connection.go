package cluster

import (
	"context"
	"errors"
	"hash/fnv"
	"net/http"
	"net/url"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

const (
	// probeTime is the time between two probes of a server that gives no answer. It is
	// how late an agent may be when the server is back.
	probeTime = 3 * time.Second
	// unreadyTime is how long a server that answers may say that it is not ready: then
	// it is asked all the same, for not everything that it checks matters to an agent.
	unreadyTime = 30 * time.Second
)

// A connection knows whether the API server answers. When a request got no answer,
// one goroutine probes the server, and everybody else waits for it: a fleet whose
// agents each try all that they follow would keep a server that starts from getting
// up. Each node has its own part of probeTime for its probes.
type connection struct {
	probe func(ctx context.Context) error // nil: the server is ready
	phase time.Duration
	now   func() time.Time

	mu       sync.Mutex
	ctx      func() context.Context // of what Start was given; nil before
	outage   *outage                // nil: nobody has doubts
	back     []func()
	epoch    chan struct{} // closed when everything is to be listed again
	restored []func()
}

// An outage lasts until done is closed. down says that a probe has failed.
type outage struct {
	done chan struct{}
	down bool
}

func newConnection(c *Client, node string) *connection {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(node))
	return &connection{
		probe: func(ctx context.Context) error { return ready(ctx, c.core) },
		phase: probeTime * time.Duration(sum.Sum32()%1000) / 1000,
		epoch: make(chan struct{}),
		now:   clock.RealClock{}.Now,
	}
}

// ready asks whether the server is ready. A server that says nothing of that is.
func ready(ctx context.Context, client rest.Interface) error {
	asking, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	err := client.Get().AbsPath("/readyz").MaxRetries(0).Do(asking).Error()
	if noAnswer(err) || serverError(err) {
		return err
	}
	return nil
}

// noAnswer reports whether a request failed without an answer. One that cannot be
// read is an answer.
func noAnswer(err error) bool {
	request := (*url.Error)(nil)
	return errors.As(err, &request) || errors.Is(err, errNoAnswer)
}

// serverError reports whether the server has answered that it cannot answer.
func serverError(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && (status.Status().Code >= http.StatusInternalServerError || status.Status().Code == http.StatusTooManyRequests)
}

// begin has probes run until ctx ends.
func (c *connection) begin(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ctx = func() context.Context { return ctx }
}

// doubt has the server probed, after a request that failed. It does not wait.
func (c *connection) doubt() *outage {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outage == nil {
		c.outage = &outage{done: make(chan struct{})}
		go c.watch(c.ctx(), c.outage)
	}
	return c.outage
}

// wait waits, after a request that failed, until the server is ready. It reports
// whether it was not, or false when ctx ends.
func (c *connection) wait(ctx context.Context) (down bool) {
	o := c.doubt()
	select {
	case <-o.done:
		return o.down
	case <-ctx.Done():
		return false
	}
}

// watch probes the server until it is ready.
func (c *connection) watch(ctx context.Context, o *outage) {
	var answers time.Time // since when, although it is not ready
	for {
		timer := time.NewTimer(probeTime - (time.Duration(c.now().UnixNano())-c.phase)%probeTime)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		err := c.probe(ctx)
		if noAnswer(err) {
			answers = time.Time{}
		} else if err != nil && answers.IsZero() {
			answers = c.now()
		}
		if err == nil || ctx.Err() != nil || !answers.IsZero() && c.now().Sub(answers) >= unreadyTime {
			break
		}
		o.down = true
	}
	c.mu.Lock()
	c.outage = nil
	back := c.back
	c.mu.Unlock()
	close(o.done)
	if o.down && ctx.Err() == nil {
		for _, f := range back {
			f()
		}
	}
}

// follow has back called when the server is ready after an outage, and restored when
// the server has gone back to an earlier state.
func (c *connection) follow(back, restored func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.back, c.restored = append(c.back, back), append(c.restored, restored)
}

// relist has everything listed again: what is known is not what the server has.
func (c *connection) relist() {
	c.mu.Lock()
	close(c.epoch)
	c.epoch = make(chan struct{})
	restored := c.restored
	c.mu.Unlock()
	for _, f := range restored {
		f()
	}
}

// current is closed when everything is to be listed again.
func (c *connection) current() <-chan struct{} {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.epoch
}
