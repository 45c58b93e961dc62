package node

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tlspu/keel/test/nodetest"
)

// heard are Events, a line each.
type heard []string

func (h *heard) Event(name string, uid types.UID, kind, reason, message string) {
	*h = append(*h, strings.Join([]string{name, kind, reason, message}, " "))
}

// take gives what was heard since it was called last.
func (h *heard) take() []string {
	all := *h
	*h = nil
	return all
}

// What changes is told once; what lasts is not told again.
func TestAgent_tellsEvents(t *testing.T) {
	w := newAgentWorld(t)
	w.write(t, "a.yaml", nodetest.Doc("a", "one"))
	w.pass(t)
	sink := new(heard)
	w.agent.events = sink
	for _, tt := range []struct {
		name string
		do   func()
		wait time.Duration
		want []string
	}{
		{"nothing to do", func() {}, 20 * time.Minute, nil},
		{"an edit", func() { w.write(t, "a.yaml", nodetest.Doc("a", "two")) }, poll, []string{"a Normal Changed configuration applied"}},
		{"a handler that fails", func() {
			*w.Handler.Fail = errors.New("disk on fire")
			w.write(t, "x.yaml", strings.Replace(nodetest.Doc("x", "one"), "type: setting", "type: blind", 1))
		}, time.Hour, []string{"x Normal Changed configuration applied", "x Warning Failed ensure path:/etc/x (applied): disk on fire"}},
		{"it works again", func() { *w.Handler.Fail = nil }, time.Hour, []string{"x Normal Recovered recovered"}},
		{"another that wants the same", func() { w.write(t, "b.yaml", strings.Replace(nodetest.Doc("b", "one"), "/etc/b", "/etc/a", 1)) }, time.Hour,
			[]string{"b Warning Conflict "}},
		{"a service that fails to start", func() {
			w.Systemd.Change(t, func(u *nodetest.Units) { u.Units["a.service"].Fails = 1 })
			w.write(t, "c.yaml", strings.Replace(nodetest.Doc("c", "one"), "spec: {", "spec: {services: [a.service], ", 1))
		}, poll, []string{"c Normal Changed configuration applied", "c Warning Failed ", "c Warning RestartPending services wait for a restart that a change needs"}},
		{"and starts at the next try", func() {}, time.Minute, []string{"c Normal Changed services restarted", "c Normal Recovered recovered"}},
	} {
		tt.do()
		w.later(t, tt.wait)
		got := sink.take()
		for i, line := range got { // of long ones the beginning
			if i < len(tt.want) && strings.HasSuffix(tt.want[i], " ") && strings.HasPrefix(line, tt.want[i]) {
				got[i] = tt.want[i]
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
