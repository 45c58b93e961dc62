package nodeconfig

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/plugin"
	"github.com/tlspu/keel/core/restart"
	"github.com/tlspu/keel/test/nodetest"
)

// world is a machine with one NodeConfig.
type world struct{ *nodetest.World }

func newWorld(t testing.TB) *world { return &world{nodetest.NewWorld(t)} }

const settingDoc = `apiVersion: keel.tlspu.io/v1alpha1
kind: NodeConfig
metadata: {name: one}
spec:
  type: setting
  params: {path: /etc/one, value: new}
`

const services = "  services: [a.service, b.service]\n"

// target makes the one target of a document, as the command line does.
func (w *world) target(t testing.TB, doc string) drift.Planner {
	t.Helper()
	ts, err := targets(t.Context(), w.Env, []plugin.Doc{{Source: "one.yaml", Data: []byte(doc)}})
	if err != nil {
		t.Fatal(err)
	}
	return ts[0].(drift.Planner)
}

func (w *world) ensure(t testing.TB, doc string) drift.Result {
	t.Helper()
	return drift.Ensure(t.Context(), w.target(t, doc), drift.Options{})
}

// journal opens the journal of the NodeConfig.
func (w *world) journal(t testing.TB) *restart.File {
	t.Helper()
	m, err := OpenMachine(w.Env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Tree.Close() })
	return restart.NewFile(m.Tree, JournalDir+"/one.json")
}

func (w *world) record(t testing.TB) (rec restart.Record, open bool) {
	t.Helper()
	rec, open, err := w.journal(t).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return rec, open
}

func texts(res drift.Result) (list []string) {
	for _, o := range res.Steps {
		list = append(list, o.Step.Text)
	}
	return list
}

func TestTarget_changesAndRestartsOnce(t *testing.T) {
	w := newWorld(t)
	res := w.ensure(t, settingDoc+services)
	if res.Err != nil || !res.Changed {
		t.Fatalf("changed %v, error %v", res.Changed, res.Err)
	}
	w.Restarts(t, "daemon-reload", "restart a.service", "restart b.service")
	if diff := cmp.Diff([]string{
		"note that a.service, b.service may need a restart",
		"ensure path:/etc/one (value)",
		"note what must be restarted",
		"restart a.service, b.service",
	}, texts(res)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if _, open := w.record(t); open {
		t.Error("the journal is still open")
	}
	if res = w.ensure(t, settingDoc+services); res.Err != nil || res.Changed {
		t.Errorf("second visit: changed %v, error %v", res.Changed, res.Err)
	}
	w.Restarts(t)
}

func TestTarget_withoutServicesKeepsNoJournal(t *testing.T) {
	w := newWorld(t)
	res := w.ensure(t, settingDoc)
	if res.Err != nil || !res.Changed {
		t.Fatalf("changed %v, error %v", res.Changed, res.Err)
	}
	if diff := cmp.Diff([]string{"ensure path:/etc/one (value)"}, texts(res)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(w.Env.Root, "var")); !os.IsNotExist(err) {
		t.Errorf("a folder for journals was made: %v", err)
	}
	w.Restarts(t)
}

// An Ensure that fails leaves the mark, and the restarts follow the next one that
// succeeds, also when that one says unchanged.
func TestTarget_failedEnsureOwesTheRestart(t *testing.T) {
	w := newWorld(t)
	*w.Handler.Fail = errors.New("disk on fire")
	res := w.ensure(t, settingDoc+services)
	if res.Err == nil || !strings.Contains(res.Err.Error(), "disk on fire") {
		t.Fatalf("error %v", res.Err)
	}
	w.Restarts(t)
	if rec, open := w.record(t); !open || rec.Phase != restart.Ensuring {
		t.Fatalf("journal %+v, open %v", rec, open)
	}
	*w.Handler.Fail = nil
	res = w.ensure(t, settingDoc+services)
	if res.Err != nil {
		t.Fatal(res.Err)
	}
	w.Restarts(t, "daemon-reload", "restart a.service", "restart b.service")
	if _, open := w.record(t); open {
		t.Error("the journal is still open")
	}
}

func TestTarget_failedRestartIsRetriedAlone(t *testing.T) {
	w := newWorld(t)
	w.Systemd.Change(t, func(u *nodetest.Units) { u.Units["b.service"].Fails = 1 })
	res := w.ensure(t, settingDoc+services)
	if res.Err == nil || !strings.Contains(res.Err.Error(), "b.service") || strings.Contains(res.Err.Error(), "restart a.service:") {
		t.Fatalf("error %v", res.Err)
	}
	w.Restarts(t, "daemon-reload", "restart a.service", "restart b.service")
	calls := w.Handler.Calls.Load()
	if res = w.ensure(t, settingDoc+services); res.Err != nil || !res.Changed {
		t.Fatalf("changed %v, error %v", res.Changed, res.Err)
	}
	w.Restarts(t, "restart b.service")
	if w.Handler.Calls.Load() != calls {
		t.Error("the handler was run for a restart that is pending")
	}
}

// A change that comes while a restart is pending needs restarts of its own, also
// of units that were restarted already.
func TestTarget_changeWhileARestartIsPending(t *testing.T) {
	w := newWorld(t)
	w.Systemd.Change(t, func(u *nodetest.Units) { u.Units["b.service"].Fails = 1 })
	w.ensure(t, settingDoc+services)
	w.Systemd.Log(t)
	w.Edit(t, "by hand")
	if res := w.ensure(t, settingDoc+services); res.Err != nil {
		t.Fatal(res.Err)
	}
	w.Restarts(t, "daemon-reload", "restart a.service", "restart b.service")
}

// A unit that the NodeConfig does not list any more is not required by it (A7).
func TestTarget_editedWhileARestartIsPending(t *testing.T) {
	w := newWorld(t)
	w.Systemd.Change(t, func(u *nodetest.Units) { u.Units["b.service"].Fails = 1 })
	w.ensure(t, settingDoc+"  services: [b.service]\n")
	w.Systemd.Log(t)
	edited := strings.Replace(settingDoc, "value: new", "value: newer", 1) + "  services: [a.service]\n"
	if res := w.ensure(t, edited); res.Err != nil {
		t.Fatal(res.Err)
	}
	w.Restarts(t, "daemon-reload", "restart a.service")
}

// A handler that cannot look is run at every visit; only what it changed leads to
// restarts, and what was proven stays proven.
func TestTarget_blindHandler(t *testing.T) {
	w := newWorld(t)
	doc := strings.Replace(settingDoc, "type: setting", "type: blind", 1) + services
	w.Systemd.Change(t, func(u *nodetest.Units) { u.Units["b.service"].Fails = 1 })
	if res := w.ensure(t, doc); res.Err == nil {
		t.Fatal("no error although b.service failed")
	}
	w.Restarts(t, "daemon-reload", "restart a.service", "restart b.service")
	if res := w.ensure(t, doc); res.Err != nil {
		t.Fatal(res.Err)
	}
	w.Restarts(t, "restart b.service")
	if res := w.ensure(t, doc); res.Err != nil || res.Changed {
		t.Errorf("third visit: changed %v, error %v", res.Changed, res.Err)
	}
	w.Restarts(t)
	if _, open := w.record(t); open {
		t.Error("the journal is open")
	}
}

// What is not tried leaves no mark.
func TestTarget_refusedStepLeavesNoMark(t *testing.T) {
	w := newWorld(t)
	if err := os.MkdirAll(filepath.Join(w.Env.Root, "etc/one"), 0o755); err != nil { // a folder in the file's place
		t.Fatal(err)
	}
	if res := w.ensure(t, settingDoc+services); res.Err == nil {
		t.Fatal("no error")
	}
	if w.Handler.Calls.Load() != 0 {
		t.Error("the handler was run")
	}
	if _, open := w.record(t); open {
		t.Error("a mark is left")
	}
}

func TestTarget_brokenJournalRefuses(t *testing.T) {
	for _, content := range []string{"", "{", `{"phase":"done"}`, `{"phase":"ensuring","units":{"-a":""}}`} {
		w := newWorld(t)
		file := filepath.Join(w.Env.Root, JournalDir, "one.json")
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		res := w.ensure(t, settingDoc+services)
		if res.Err == nil || !strings.Contains(res.Err.Error(), JournalDir+"/one.json: ") || !strings.Contains(res.Err.Error(), "remove it") {
			t.Errorf("journal %q: error %v", content, res.Err)
		}
		if w.Handler.Calls.Load() != 0 || len(w.Systemd.Log(t)) != 0 {
			t.Errorf("journal %q: something was done", content)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != content {
			t.Errorf("journal %q became %q, %v", content, got, err)
		}
	}
}

// In a chroot systemctl ignores what it is told: the change is made, the mark
// stays, and the error names the mode that would work.
func TestTarget_systemctlInAChroot(t *testing.T) {
	w := newWorld(t)
	w.Systemd.Change(t, func(u *nodetest.Units) { u.InACage = true })
	for range 2 {
		res := w.ensure(t, settingDoc+services)
		if res.Err == nil || !strings.Contains(res.Err.Error(), "nsenter") {
			t.Errorf("error %v, want one that names nsenter", res.Err)
		}
		if got, err := os.ReadFile(filepath.Join(w.Env.Root, "etc/one")); err != nil || string(got) != "new" {
			t.Errorf("content %q, %v", got, err)
		}
		if rec, open := w.record(t); !open || len(rec.Units) != 2 {
			t.Errorf("journal %+v, open %v", rec, open)
		}
	}
	w.Systemd.Change(t, func(u *nodetest.Units) { u.InACage = false })
	if res := w.ensure(t, settingDoc+services); res.Err != nil {
		t.Fatal(res.Err)
	}
	w.Restarts(t, "daemon-reload", "restart a.service", "restart b.service")
}

func TestTarget_dryRunDoesNothing(t *testing.T) {
	w := newWorld(t)
	res := drift.Ensure(t.Context(), w.target(t, settingDoc+services), drift.Options{DryRun: true})
	if res.Err != nil || len(res.Steps) != 4 {
		t.Errorf("%d steps, error %v", len(res.Steps), res.Err)
	}
	if entries, err := os.ReadDir(w.Env.Root); err != nil || len(entries) != 0 {
		t.Errorf("the root holds %v, %v", entries, err)
	}
}
