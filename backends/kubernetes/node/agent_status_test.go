package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/test/contract"
	"github.com/tlspu/keel/test/nodetest"
)

func TestAgent_statusIsWrittenOnlyWhenItIsNews(t *testing.T) {
	w := newAgentWorld(t)
	w.write(t, "a.yaml", strings.Replace(nodetest.Doc("a", "one"), "name: a", "name: a, generation: 7", 1))
	w.pass(t)
	digest := w.status(t, "a").TriggerDigest
	if !strings.HasPrefix(digest, "sha256:") || len(digest) != 71 {
		t.Errorf("digest %q", digest)
	}
	want := fmt.Sprintf(`{
  "lastRunTime": "2026-10-15T12:00:00Z",
  "lastResult": "success",
  "changed": true,
  "restartPending": false,
  "message": "configuration applied",
  "observedGeneration": 7,
  "triggerDigest": %q
}
`, digest)
	got, err := os.ReadFile(filepath.Join(w.settings.StateDir, "a.json"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	before := contract.Snapshot(t, w.settings.StateDir)
	w.later(t, time.Hour)
	w.stop(t)
	w.pass(t)
	before.Unchanged(t, w.settings.StateDir, "an hour of nothing to do, and a new agent")

	w.write(t, "a.yaml", strings.Replace(nodetest.Doc("a", "one"), "name: a", "name: a, generation: 8", 1))
	w.later(t, poll)
	if s := w.status(t, "a"); s.ObservedGeneration != 8 || s.Changed || s.Message != "configuration in place" {
		t.Errorf("status of a new generation: %+v", s)
	}
}

func TestAgent_statusOfWhatIsGone(t *testing.T) {
	w := newAgentWorld(t)
	w.write(t, "a.yaml", nodetest.Doc("a", "one"))
	w.write(t, "b.yaml", nodetest.Doc("b", "one"))
	w.pass(t)
	foreign := filepath.Join(w.settings.StateDir, "foreign.json")
	if err := os.WriteFile(foreign, []byte(`{"name":"no status"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	w.remove(t, "b.yaml")
	w.later(t, poll)
	if diff := cmp.Diff([]string{"a.json", "foreign.json"}, w.states(t)); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
	if w.content(t, "b") != "one" {
		t.Error("what the NodeConfig did was undone")
	}
	w.stop(t)
	w.remove(t, "a.yaml")
	w.write(t, "broken.yaml", "a: [")
	w.pass(t)
	w.later(t, poll)
	if diff := cmp.Diff([]string{"a.json", "foreign.json"}, w.states(t)); diff != "" {
		t.Errorf("statuses while a file is broken, which may hold a (-want +got):\n%s", diff)
	}
	w.remove(t, "broken.yaml")
	w.later(t, poll)
	if diff := cmp.Diff([]string{"foreign.json"}, w.states(t)); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
}

func TestAgent_brokenStatusIsSetAside(t *testing.T) {
	for _, content := range []string{"", "{", `{"lastResult":"success"}`, "null", `{"lastRunTime":"2026-10-15T12:00:00Z","lastResult":"fine"}`} {
		w := newAgentWorld(t)
		w.write(t, "a.yaml", nodetest.Doc("a", "one"))
		if err := os.MkdirAll(w.settings.StateDir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(w.settings.StateDir, "a.json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		w.pass(t)
		if s := w.status(t, "a"); s.LastResult != v1alpha1.Success {
			t.Errorf("status %+v", s)
		}
		aside, err := os.ReadFile(filepath.Join(w.settings.StateDir, "a.json.broken"))
		if err != nil || string(aside) != content {
			t.Errorf("set aside: %q, %v; want %q", aside, err, content)
		}
		if !strings.Contains(w.log.String(), "a.json.broken") {
			t.Errorf("it was not said:\n%s", &w.log)
		}
	}
}

// A folder of statuses that is removed is made again; the status comes with the
// next visit.
func TestAgent_statusesAreRemoved(t *testing.T) {
	w := newAgentWorld(t)
	w.write(t, "a.yaml", nodetest.Doc("a", "one"))
	w.pass(t)
	for name, makeAgain := range map[string]bool{"gone": false, "another in its place": true} {
		if err := os.RemoveAll(filepath.Dir(w.settings.StateDir)); err != nil {
			t.Fatal(err)
		}
		if makeAgain {
			if err := os.MkdirAll(w.settings.StateDir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		w.later(t, 10*time.Minute)
		if s := w.status(t, "a"); s.LastResult != v1alpha1.Success {
			t.Errorf("%s: status %+v", name, s)
		}
		if info, err := os.Stat(w.settings.StateDir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: directory %v, %v", name, info.Mode(), err)
		}
	}
	if strings.Contains(w.log.String(), "ERROR") {
		t.Errorf("log:\n%s", &w.log)
	}
}

// Errors name a status by its path on this machine.
func TestAgent_statusThatCannotBeWritten(t *testing.T) {
	w := newAgentWorld(t)
	w.write(t, "a.yaml", nodetest.Doc("a", "one"))
	file := filepath.Join(w.settings.StateDir, "a.json")
	if err := os.MkdirAll(file, 0o700); err != nil {
		t.Fatal(err)
	}
	w.pass(t)
	if got := w.log.String(); !strings.Contains(got, `"status cannot be written" target=a err="write `+file+": ") {
		t.Errorf("log:\n%s", got)
	}
	if w.content(t, "a") != "one" {
		t.Error("the NodeConfig was not kept")
	}
}
