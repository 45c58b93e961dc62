package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/tlspu/keel/api/v1alpha1"
)

// An answer of the API server. Code 0: there is no connection.
type answer struct {
	code   int
	body   string
	header http.Header
}

// fakeAPI stands where the network would, so that a test's clock may be synctest's.
// It answers what is said for a request, in this order, and the last one for ever.
type fakeAPI struct {
	mu    sync.Mutex
	got   []string // "12s PATCH /path body"
	asks  []string // media types of the answers that are asked for
	says  func(request string) answer
	began time.Time
}

func (f *fakeAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	request := strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, r.URL.RequestURI(), body))
	f.mu.Lock()
	f.got = append(f.got, fmt.Sprintf("%v %s", time.Since(f.began), request))
	f.asks = append(f.asks, r.Header.Get("Accept"))
	a := f.says(request)
	f.mu.Unlock()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if a.code == 0 {
		return nil, errors.New("connection refused")
	}
	header := a.header.Clone()
	if header == nil {
		header = http.Header{}
	}
	if header.Get("Content-Type") == "" {
		header.Set("Content-Type", "application/json")
	}
	return &http.Response{StatusCode: a.code, Header: header, Body: io.NopCloser(bytes.NewReader([]byte(a.body))), Request: r}, nil
}

// say has it answer otherwise from now on.
func (f *fakeAPI) say(says func(request string) answer) { f.change(func() { f.says = says }) }

// change changes what says reads.
func (f *fakeAPI) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// requests gives what came since it was called last.
func (f *fakeAPI) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	got := f.got
	f.got = nil
	return got
}

// inOrder gives one answer after the other, and the last one for ever.
func inOrder(all ...answer) func(string) answer {
	return func(string) answer {
		a := all[0]
		if len(all) > 1 {
			all = all[1:]
		}
		return a
	}
}

func refusal(code int, reason metav1.StatusReason, message, details string) answer {
	if details == "" {
		details = "{}"
	}
	return answer{code: code, body: fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":%q,"details":%s,"code":%d}`, reason, message, details, code)}
}

// metadata answers a patch of a NodeConfig.
func metadata(uid types.UID, rv string) answer {
	return answer{code: 200, body: fmt.Sprintf(`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"x","uid":%q,"resourceVersion":%q}}`, uid, rv)}
}

// A desk is a Reporter with all that is around it.
type desk struct {
	*Reporter
	api    *fakeAPI
	log    journal
	mu     sync.Mutex
	known  map[string]Known
	uid    types.UID // of the Node
	events []string
	wrote  map[Outcome]int
}

// newDesk makes a Reporter of node n1 for what the server says; it runs until the
// bubble ends.
func newDesk(t *testing.T, form Form, says func(string) answer) *desk {
	d := &desk{api: &fakeAPI{says: says, began: time.Now()}, known: map[string]Known{}, uid: "node-1", wrote: map[Outcome]int{}}
	d.Reporter = NewReporter(ReporterOptions{
		Client: fakeClient(t, d.api), Node: "n1", Form: form, Now: time.Now,
		Log: d.log.logger(),
		Known: func(name string) (Known, bool) {
			d.mu.Lock()
			defer d.mu.Unlock()
			k, ok := d.known[name]
			return k, ok
		},
		NodeUID: func() types.UID {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.uid
		},
		Event: func(name string, uid types.UID, kind, reason, _ string) {
			d.events = append(d.events, fmt.Sprint(name, " ", uid, " ", kind, " ", reason))
		},
		Wrote:  func(o Outcome) { d.wrote[o]++ },
		Jitter: func(d time.Duration) time.Duration { return d },
	})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { d.send(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return d
}

// fakeClient is a Client whose requests go to transport.
func fakeClient(t *testing.T, transport http.RoundTripper) *Client {
	t.Helper()
	c, s, err := new(Client), scheme(), error(nil)
	config := &rest.Config{Host: "https://server", Transport: transport, QPS: -1}
	if c.core, err = client(config, s, corev1.SchemeGroupVersion, "/api"); err == nil {
		c.keel, err = client(config, s, v1alpha1.GroupVersion, "/apis")
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// know is what the watch shows of a NodeConfig.
func (d *desk) know(name string, k Known) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known[name] = k
}

// after lets time pass and gives the requests that came.
func (d *desk) after(t time.Duration) []string {
	synctest.Wait()
	<-time.After(t)
	synctest.Wait()
	return d.api.requests()
}

// node has the Node be another one.
func (d *desk) node(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.uid = uid
}

// A journal keeps what is logged.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// said gives what was logged since it was called last.
func (j *journal) said() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	defer j.text.Reset()
	return j.text.String()
}

// logger logs into j, without the time.
func (j *journal) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// statusOf is one with that message, of that generation.
func statusOf(message string, generation int64) v1alpha1.NodeStatus {
	return v1alpha1.NodeStatus{
		LastRunTime: metav1.Time{Time: time.Date(2026, 10, 15, 12, 0, 0, 0, time.UTC)},
		LastResult:  v1alpha1.Success, Message: message, ObservedGeneration: generation,
	}
}

// entryOf is that status as it is sent.
func entryOf(message string, generation int64) string {
	return fmt.Sprintf(`{"lastRunTime":"2026-10-15T12:00:00Z","lastResult":"success","changed":false,"restartPending":false,"message":%q,"observedGeneration":%d,"triggerDigest":""}`, message, generation)
}

// deadline is a context that ends after d.
func deadline(t *testing.T, d time.Duration) context.Context {
	ctx, stop := context.WithTimeout(t.Context(), d)
	t.Cleanup(stop)
	return ctx
}

// but keeps all names but one.
func but(gone string) func(name string) bool {
	return func(name string) bool { return name != gone }
}

// synced reports whether the NodeState was read.
func (r *Reporter) synced() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.synced
}
