package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"
	"github.com/tlspu/keel/test/nodetest"
)

// What lies at the root's path is what is kept: a disk that is mounted late, an
// image that was replaced.
func TestAgent_anotherRoot(t *testing.T) {
	w := newAgentWorld(t)
	w.write(t, "a.yaml", nodetest.Doc("a", "one"))
	w.write(t, "b.yaml", strings.Replace(nodetest.Doc("b", "one"), "spec: {", "spec: {services: [b.service], ", 1))
	w.pass(t)
	w.Systemd.Log(t)
	if err := os.Rename(w.Env.Root, w.Env.Root+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(w.Env.Root, 0o755); err != nil {
		t.Fatal(err)
	}
	w.clock = w.clock.Add(time.Minute)
	w.pass(t)
	if w.content(t, "a") != "one" || w.content(t, "b") != "one" {
		t.Error("the new root is not kept")
	}
	w.Restarts(t, "daemon-reload", "restart b.service")
	if s := w.status(t, "a"); s.LastResult != v1alpha1.Success || !s.Changed || !s.LastRunTime.Time.Equal(w.clock) {
		t.Errorf("status %+v", s)
	}
	if files, err := os.ReadDir(filepath.Join(w.Env.Root, nodeconfig.JournalDir)); err != nil || len(files) > 0 {
		t.Errorf("journals of the new root: %v, %v", files, err)
	}
	if n := strings.Count(w.log.String(), "another directory is at the root"); n != 1 {
		t.Errorf("said %d times:\n%s", n, &w.log)
	}
	w.looks()
	w.later(t, time.Minute)
	if n := w.looks(); n != 0 {
		t.Errorf("%d looks at a root that stayed", n)
	}
}

// A root that is gone is an error, and never in order.
func TestAgent_noRoot(t *testing.T) {
	w := newAgentWorld(t)
	w.write(t, "a.yaml", nodetest.Doc("a", "one"))
	w.pass(t)
	if err := os.Rename(w.Env.Root, w.Env.Root+".old"); err != nil {
		t.Fatal(err)
	}
	w.later(t, poll)
	s := w.status(t, "a")
	if s.LastResult != v1alpha1.Error || !strings.Contains(s.Message, w.Env.Root) || s.RestartPending {
		t.Errorf("status %+v", s)
	}
	w.later(t, 10*time.Minute)
	if _, err := os.Stat(w.Env.Root); err == nil {
		t.Error("the root was made")
	}
	if n := strings.Count(w.log.String(), "root cannot be opened"); n != 1 {
		t.Errorf("said %d times:\n%s", n, &w.log)
	}
	if err := os.Rename(w.Env.Root+".old", w.Env.Root); err != nil {
		t.Fatal(err)
	}
	w.later(t, poll)
	if s := w.status(t, "a"); s.LastResult != v1alpha1.Success {
		t.Errorf("status %+v", s)
	}
}
