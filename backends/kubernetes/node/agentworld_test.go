package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/test/nodetest"
)

// An agentWorld is a machine with an agent, whose clock moves by hand.
type agentWorld struct {
	*nodetest.World
	settings settings
	agent    *agent
	loop     *drift.Loop
	clock    time.Time
	out, log bytes.Buffer
}

func newAgentWorld(t *testing.T) *agentWorld {
	w := &agentWorld{World: nodetest.NewWorld(t), clock: now}
	dir := t.TempDir()
	w.settings = *Role().Settings().(*settings)
	w.settings.Source = fromFolder
	w.settings.HostRoot = w.Env.Root
	w.settings.ConfigDir, w.settings.StateDir = filepath.Join(dir, "configs"), filepath.Join(dir, "var/state")
	if err := os.Mkdir(w.settings.ConfigDir, 0o755); err != nil {
		t.Fatal(err)
	}
	w.Env.Now = func() time.Time { return w.clock }
	w.Env.Out = &w.out
	w.Env.UID = os.Geteuid()
	w.Env.Log = slog.New(slog.NewTextHandler(&w.log, nil))
	return w
}

// pass makes one pass; the first one starts the agent.
func (w *agentWorld) pass(t *testing.T) {
	t.Helper()
	if w.agent == nil {
		a, err := newAgent(t.Context(), w.Env, w.settings)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.close(context.WithoutCancel(t.Context())) })
		w.agent = a
		w.loop = a.prepare(t.Context())
	}
	w.loop.Pass(t.Context())
}

// later lets time go by, with a pass every two seconds.
func (w *agentWorld) later(t *testing.T, d time.Duration) {
	t.Helper()
	for end := w.clock.Add(d); w.clock.Before(end); {
		w.clock = w.clock.Add(min(poll, end.Sub(w.clock)))
		w.pass(t)
	}
}

// stop ends the agent, so that the next pass starts another.
func (w *agentWorld) stop(t *testing.T) {
	t.Helper()
	if err := w.agent.close(t.Context()); err != nil {
		t.Error(err)
	}
	w.agent = nil
}

// write writes a file of NodeConfigs that is not of this moment.
func (w *agentWorld) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(w.settings.ConfigDir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	old := w.clock.Add(-time.Minute)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
}

func (w *agentWorld) remove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(w.settings.ConfigDir, name)); err != nil {
		t.Fatal(err)
	}
}

// status reads the status of a NodeConfig.
func (w *agentWorld) status(t *testing.T, name string) (s v1alpha1.NodeStatus) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(w.settings.StateDir, name+".json"))
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// states lists the files of the folder of statuses.
func (w *agentWorld) states(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(w.settings.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// metrics gives what the agent shows.
func (w *agentWorld) metrics(t *testing.T) string {
	t.Helper()
	answer := httptest.NewRecorder()
	w.agent.metrics.Handler(w.Env.Log).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	return answer.Body.String()
}

// looks gives how often the handler looked since it was asked last.
func (w *agentWorld) looks() int64 { return w.Handler.Looks.Swap(0) }

func (w *agentWorld) content(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(w.Env.Root, "etc", name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}

// run runs the role as the command line does.
func (w *agentWorld) run(t *testing.T) error {
	t.Helper()
	return Role().Run(t.Context(), w.Env, &w.settings)
}
