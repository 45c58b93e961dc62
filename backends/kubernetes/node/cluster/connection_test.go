package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lineOf is a connection of that node whose server answers what probe says.
func lineOf(t *testing.T, node string, probe func() error) *connection {
	c := newConnection(nil, node)
	c.probe = func(context.Context) error { return probe() }
	c.begin(t.Context())
	return c
}

// Whoever waits for a server that is away goes on within moments of its return, by
// one probe at a time, however many wait.
func TestConnection_wait(t *testing.T) {
	unready := apierrors.NewInternalError(errors.New("etcd failed"))
	tests := []struct {
		name string
		says func(since time.Duration) error // the server, since the beginning
		want bool                            // it was away
		most time.Duration                   // until all go on
	}{
		{"it answers", func(time.Duration) error { return nil }, false, probeTime},
		{"an outage of 38 s", func(d time.Duration) error {
			if d < 38*time.Second {
				return errNoAnswer
			}
			return nil
		}, true, 38*time.Second + probeTime},
		{"it starts, and is not ready for a while", func(d time.Duration) error {
			switch {
			case d < 10*time.Second:
				return errNoAnswer
			case d < 20*time.Second:
				return unready
			}
			return nil
		}, true, 20*time.Second + probeTime},
		{"it never calls itself ready", func(time.Duration) error { return unready }, true, unreadyTime + 2*probeTime},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, probes := time.Now(), 0
				c := lineOf(t, "n1", func() error { probes++; return tt.says(time.Since(began)) })
				var backs atomic.Int32
				c.follow(func() { backs.Add(1) }, func() {})
				ended := make(chan bool)
				for range 5 {
					go func() { ended <- c.wait(t.Context()) }()
				}
				for range 5 {
					if down := <-ended; down != tt.want {
						t.Errorf("it was away: %v, want %v", down, tt.want)
					}
				}
				took := time.Since(began)
				synctest.Wait()
				if took > tt.most || time.Duration(probes) > took/probeTime+2 {
					t.Errorf("went on after %s and %d probes", took, probes)
				}
				if want := map[bool]int32{true: 1}[tt.want]; backs.Load() != want {
					t.Errorf("told %d times that it is back", backs.Load())
				}
			})
		})
	}
}

// The probes of a fleet are spread over their time: no second has more than its part.
func TestConnection_spreadsAFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes, parts = 1000, 10
		began := time.Now()
		var counts [parts]atomic.Int32
		for i := range nodes {
			c := lineOf(t, fmt.Sprint("worker-", i), func() error {
				counts[time.Since(began)*parts/(probeTime+1)].Add(1)
				return nil
			})
			c.doubt()
		}
		<-time.After(probeTime)
		synctest.Wait()
		for i := range counts {
			if n := counts[i].Load(); n < nodes/parts/2 || n > nodes/parts*2 {
				t.Errorf("part %d of %s has %d probes, want about %d", i, probeTime, n, nodes/parts)
			}
		}
	})
}

// A connection that ends lets nobody wait.
func TestConnection_ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConnection(nil, "n1")
		ctx, stop := context.WithCancel(t.Context())
		c.probe = func(context.Context) error { return errNoAnswer }
		c.begin(ctx)
		waiting, leave := context.WithCancel(t.Context())
		ended := make(chan bool)
		go func() { ended <- c.wait(waiting) }()
		synctest.Wait()
		leave()
		if <-ended {
			t.Error("one who left was told that the server is back")
		}
		o := c.doubt()
		stop()
		<-o.done
	})
}

// What follows the server asks again when that is ready, and leaves to the reflector's
// growing pauses what the server has answered.
func TestFeed_asksAgain(t *testing.T) {
	const empty = `{"kind":"NodeConfigList","apiVersion":"keel.tlspu.io/v1alpha1","metadata":{"resourceVersion":"7"},"items":[]}`
	away := func(d time.Duration) bool { return d < 38*time.Second }
	tests := []struct {
		name    string
		away    answer // the server's while it is away, and that of a probe
		then    answer
		ready   bool // a probe says so all the time
		wantErr bool
		asked   int
		most    time.Duration
	}{
		{"no answer", answer{}, answer{200, empty, nil}, false, false, 2, 38*time.Second + probeTime},
		{"an answer that it is not ready", refusal(503, "ServiceUnavailable", "starts", ""), answer{200, empty, nil}, false, false, 3, 38*time.Second + probeTime},
		{"a refusal", refusal(403, "Forbidden", "no", ""), answer{}, true, true, 1, 0},
		{"an answer that cannot be read", answer{200, "{", nil}, answer{}, true, true, 1, 0},
		{"an error of a server that is ready", refusal(500, "InternalError", "etcd", ""), answer{}, true, true, 1, probeTime},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, asked := time.Now(), 0
				api := &fakeAPI{began: began, says: func(request string) answer {
					if strings.Contains(request, "/readyz") {
						if tt.ready || !away(time.Since(began)) {
							return answer{200, "ok", http.Header{"Content-Type": {"text/plain"}}}
						}
						return tt.away
					}
					asked++
					if away(time.Since(began)) {
						return tt.away
					}
					return tt.then
				}}
				c := fakeClient(t, api)
				f := feed{client: c.keel, resource: "nodeconfigs", heard: func(error) {}, line: newConnection(c, "n1")}
				f.line.begin(t.Context())
				_, err := f.listWatch(t.Context()).ListWithContextFunc(t.Context(), metav1.ListOptions{})
				if took := time.Since(began); (err != nil) != tt.wantErr || asked != tt.asked || took > tt.most {
					t.Errorf("%v after %d requests and %s", err, asked, took)
				}
			})
		})
	}
}
