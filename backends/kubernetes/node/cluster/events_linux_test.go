package cluster

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/tlspu/keel/test/kubetest"
)

// eventsOn sends Events as who has access, until the end of t.
func eventsOn(t *testing.T, s *kubetest.Server, access *rest.Config, node string, log *journal) *Events {
	t.Helper()
	client, err := Connect(s.Kubeconfig(t, access), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	e := NewEvents(EventsOptions{Client: client, Node: node, Now: time.Now, Log: log.logger()})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { e.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return e
}

// eventsOf lists the Events on an object.
func eventsOf(t *testing.T, s *kubetest.Server, uid types.UID) []corev1.Event {
	t.Helper()
	var list corev1.EventList
	if err := s.Do(t.Context(), s.Admin(), http.MethodGet, "/api/v1/namespaces/default/events?fieldSelector="+
		url.QueryEscape("involvedObject.uid="+string(uid)), nil, &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func TestEvents_onAServer(t *testing.T) {
	s := server(t)
	deploy(t, s)
	// The name is as long as it may be, and that of an Event has to have room for it.
	name := strings.Repeat("e", 250)
	uid := config(t, s, name)
	s.Node(t, node("events-1"))
	var log journal
	e := eventsOn(t, s, s.WithToken(s.NodeToken(t, "keel-system", "keel-node-agent", "events-1")), "events-1", &log)
	flush := func() {
		t.Helper()
		if err := e.Flush(deadline(t, time.Minute)); err != nil {
			t.Errorf("%v\n%s", err, log.said())
		}
	}
	for range 3 {
		e.Event(name, uid, corev1.EventTypeWarning, "VisitFailed", "read /etc/motd: permission denied")
	}
	e.Event(name, uid, corev1.EventTypeNormal, "Changed", "configuration applied")
	flush()
	got := eventsOf(t, s, uid)
	if len(got) != 2 {
		t.Fatalf("Events %+v", got)
	}
	for _, event := range got {
		if event.Reason != "VisitFailed" {
			continue
		}
		if event.Count != 3 || event.Message != "events-1: read /etc/motd: permission denied" || event.Source.Host != "events-1" ||
			event.Source.Component != "keel-node-agent" || event.InvolvedObject.Kind != "NodeConfig" || event.InvolvedObject.Name != name {
			t.Errorf("Event %+v", event)
		}
		// The server forgets it, and it happens again.
		do(t, s, http.MethodDelete, "/api/v1/namespaces/default/events/"+event.Name, nil)
	}
	e.Event(name, uid, corev1.EventTypeWarning, "VisitFailed", "read /etc/motd: permission denied")
	flush()
	if got := eventsOf(t, s, uid); len(got) != 2 {
		t.Errorf("Events %+v", got)
	}
	if text := log.said(); text != "" {
		t.Errorf("log:\n%s", text)
	}

	// What happens while the server is away is told afterwards.
	s.API.Stop()
	e.Event(name, uid, corev1.EventTypeNormal, "Recovered", "configuration in place")
	if err := e.Flush(deadline(t, 100*time.Millisecond)); err == nil {
		t.Error("it was sent to nobody")
	}
	if err := s.API.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	flush()
	if got := eventsOf(t, s, uid); len(got) != 3 {
		t.Errorf("Events %+v", got)
	}
}

func TestEvents_withoutRights(t *testing.T) {
	s := server(t)
	space := s.Namespace(t, "events")
	s.ServiceAccount(t, space, "agent")
	s.Node(t, node("events-2"))
	var log journal
	e := eventsOn(t, s, s.WithToken(s.NodeToken(t, space, "agent", "events-2")), "events-2", &log)
	e.Event("motd", "uid", corev1.EventTypeNormal, "Changed", "configuration applied")
	if err := e.Flush(deadline(t, time.Minute)); err != nil {
		t.Error(err) // it is lost, and nothing waits for it
	}
	if text := log.said(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "give the agent's ServiceAccount create on events, as deploy/kubernetes does") {
		t.Errorf("log:\n%s", text)
	}
}
