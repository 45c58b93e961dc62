package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newEvents makes Events of node n1 for what the server says; they run until the
// bubble ends.
func newEvents(t *testing.T, says func(string) answer) (*Events, *desk) {
	d := &desk{api: &fakeAPI{says: says, began: time.Now()}, wrote: map[Outcome]int{}}
	e := NewEvents(EventsOptions{
		Client: fakeClient(t, d.api), Node: "n1", Now: time.Now, Log: d.log.logger(),
		Wrote: func(o Outcome) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.wrote[o]++
		},
		Jitter: func(d time.Duration) time.Duration { return d },
	})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { e.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return e, d
}

// echo stores what is created, and answers a patch with a count.
func echo(request string) answer {
	_, body, _ := strings.Cut(request, "{")
	return answer{code: 201, body: "{" + body}
}

func TestEvents_sayWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, d := newEvents(t, echo)
		e.Event("motd", "uid-a", corev1.EventTypeWarning, "VisitFailed", "read /etc/motd: permission denied")
		got := d.after(time.Second)
		const path = "0s POST /api/v1/namespaces/default/events "
		var event corev1.Event
		if len(got) != 1 || !strings.HasPrefix(got[0], path) || json.Unmarshal([]byte(strings.TrimPrefix(got[0], path)), &event) != nil {
			t.Fatalf("requests:\n%s", strings.Join(got, "\n"))
		}
		when := metav1.Time{Time: d.api.began.Local()}
		want := corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: event.Name, Namespace: "default"},
			InvolvedObject: corev1.ObjectReference{APIVersion: "keel.tlspu.io/v1alpha1", Kind: "NodeConfig", Name: "motd", UID: "uid-a"},
			Reason:         "VisitFailed", Message: "n1: read /etc/motd: permission denied", Type: "Warning", Count: 1,
			Source:         corev1.EventSource{Component: "keel-node-agent", Host: "n1"},
			FirstTimestamp: when, LastTimestamp: when,
			ReportingController: "keel-node-agent", ReportingInstance: "n1",
		}
		if diff := cmp.Diff(want, event); diff != "" || !strings.HasPrefix(event.Name, "motd.") {
			t.Errorf("Event %s (-want +got):\n%s", event.Name, diff)
		}

		// Again: it is counted. After an hour the server has forgotten it.
		e.Event("motd", "uid-a", corev1.EventTypeWarning, "VisitFailed", "read /etc/motd: permission denied")
		got = d.after(time.Second)
		if len(got) != 1 || !strings.HasPrefix(got[0], "1s PATCH /api/v1/namespaces/default/events/"+event.Name+" {") || !strings.Contains(got[0], `"count":2`) {
			t.Errorf("requests:\n%s", strings.Join(got, "\n"))
		}
		d.api.say(func(request string) answer {
			if strings.HasPrefix(request, "PATCH") {
				return refusal(404, metav1.StatusReasonNotFound, "not found", "")
			}
			return echo(request)
		})
		e.Event("motd", "uid-a", corev1.EventTypeWarning, "VisitFailed", "read /etc/motd: permission denied")
		got = d.after(time.Second)
		if len(got) != 2 || !strings.HasPrefix(got[1], "2s POST /api/v1/namespaces/default/events {") {
			t.Errorf("requests:\n%s", strings.Join(got, "\n"))
		}
		e.Event("motd", "uid-b", corev1.EventTypeNormal, "Changed", "configuration applied")
		if got = d.after(time.Second); len(got) != 1 || !strings.Contains(got[0], " POST ") {
			t.Errorf("requests:\n%s", strings.Join(got, "\n"))
		}
		if d.wrote[Written] != 4 || d.wrote[Failed] != 1 || d.log.said() != "" {
			t.Errorf("metrics %v", d.wrote)
		}
	})
}

func TestEvents_fail(t *testing.T) {
	tests := []struct {
		name   string
		answer answer
		want   string // when requests came
	}{
		{"no connection", answer{}, "0s 1s 3s 7s 15s 31s 1m3s 2m3s"},
		{"500", refusal(500, "", "etcdserver: mvcc: database space exceeded", ""), "0s 1s 3s 7s 15s 31s 1m3s 2m3s"},
		{"429 with a pause", refusal(429, metav1.StatusReasonTooManyRequests, "slow down", `{"retryAfterSeconds":90}`), "0s 1m30s"},
		{"403", refusal(403, metav1.StatusReasonForbidden, `events is forbidden: User "x" cannot create resource "events" in API group "" in the namespace "default"`, ""), "0s 1s 3s 7s"},
		{"422", refusal(422, metav1.StatusReasonInvalid, "is invalid", ""), "0s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, d := newEvents(t, func(string) answer { return tt.answer })
				e.Event("motd", "uid-a", corev1.EventTypeNormal, "Changed", "configuration applied")
				var times []string
				for _, r := range d.after(150 * time.Second) {
					times = append(times, strings.Fields(r)[0])
				}
				if got := strings.Join(times, " "); got != tt.want {
					t.Errorf("requests at %s, want %s", got, tt.want)
				}
				got := d.log.said()
				if strings.Count(got, "\n") != 1 || !strings.Contains(got, "create events in namespace default: ") {
					t.Errorf("log:\n%s", got)
				}
				if tt.name == "403" && !strings.Contains(got, "give the agent's ServiceAccount create on events, as deploy/kubernetes does") {
					t.Errorf("log:\n%s", got)
				}
				d.api.say(echo)
				e.Event("sshd", "uid-b", corev1.EventTypeNormal, "Changed", "configuration applied")
				if err := e.Flush(deadline(t, time.Minute)); err != nil {
					t.Error(err)
				}
				if got := d.log.said(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "Events are sent again") {
					t.Errorf("log:\n%s", got)
				}
			})
		})
	}
}

func TestEvents_areLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, d := newEvents(t, func(string) answer { return answer{} })
		for i := range 2 * maxQueue {
			e.Event(fmt.Sprint("c", i), "uid", corev1.EventTypeNormal, "Changed", "configuration applied") // returns at once
		}
		if got := d.after(time.Second); len(got) != 2 || d.wrote[Withheld] < maxQueue-1 {
			t.Errorf("%d requests, metrics %v", len(got), d.wrote)
		}
		if err := e.Flush(deadline(t, time.Second)); err == nil || !strings.Contains(err.Error(), "Events not sent: create events in namespace default: ") {
			t.Error(err)
		}
		d.api.say(echo)
		d.after(time.Minute)
		if err := e.Flush(t.Context()); err != nil || d.wrote[Written]+d.wrote[Withheld] != 2*maxQueue {
			t.Errorf("%v, metrics %v", err, d.wrote)
		}
		// One NodeConfig that has too much to say is not heard after a while.
		for i := range 100 {
			e.Event("loud", "uid", corev1.EventTypeNormal, "Changed", fmt.Sprint("configuration applied ", i))
		}
		if got := d.after(time.Second); len(got) < 10 || len(got) > 30 {
			t.Errorf("%d requests", len(got))
		}
	})
}
