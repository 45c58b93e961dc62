package nodeconfig

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/core/plugin"
	"github.com/tlspu/keel/test/nodetest"
)

// TestTarget_inTheOrderListed (A8).
func TestTarget_inTheOrderListed(t *testing.T) {
	w := newWorld(t)
	if res := w.ensure(t, settingDoc+"  services: [b.service, a.service]\n"); res.Err != nil {
		t.Fatal(res.Err)
	}
	w.Restarts(t, "daemon-reload", "restart b.service", "restart a.service")
}

// TestTarget_stoppedUnitIsNotStarted (A3): a failed one is restarted.
func TestTarget_stoppedUnitIsNotStarted(t *testing.T) {
	w := newWorld(t)
	w.Systemd.Change(t, func(u *nodetest.Units) {
		u.Units["a.service"].Active = "inactive"
		u.Units["b.service"].Active = "failed"
	})
	if res := w.ensure(t, settingDoc+services); res.Err != nil {
		t.Fatal(res.Err)
	}
	w.Restarts(t, "daemon-reload", "restart b.service")
	if res := w.ensure(t, settingDoc+services); res.Err != nil || res.Changed {
		t.Errorf("second run: changed %t, error %v", res.Changed, res.Err)
	}
}

// forgetful accepts a change that does not last, as chmod on vfat.
type forgetful struct{ nodetest.Setting }

func (forgetful) Observe(_ context.Context, l handler.Look) (declared, observed drift.State, err error) {
	path := drift.Path{"mode"}
	return drift.State{{Path: path, Value: "0600"}}, drift.State{{Path: path, Value: "0700"}}, nil
}

func (forgetful) Ensure(context.Context, handler.Call) (bool, error) { return true, nil }

// TestTarget_changeThatDoesNotLast (A1) restarts nothing, and leaves no record.
func TestTarget_changeThatDoesNotLast(t *testing.T) {
	w := newWorld(t)
	w.Env.Handlers = plugin.NewRegistry[handler.Handler]("handler")
	w.Env.Handlers.Register("setting", forgetful{w.Handler})
	for range 2 {
		if res := w.ensure(t, settingDoc+services); res.Err == nil {
			t.Error("no error")
		}
		w.Restarts(t)
		if _, open := w.record(t); open {
			t.Error("a record is left")
		}
	}
}

// bare is a root without systemctl.
type bare struct{}

func (bare) Run(context.Context, command.Cmd) ([]byte, error) { return nil, fs.ErrNotExist }

// TestTarget_noSystemctl (A9): as the error advises, without its units it settles.
func TestTarget_noSystemctl(t *testing.T) {
	w := newWorld(t)
	w.Env.Run = func(string) command.Runner { return bare{} }
	res := w.ensure(t, settingDoc+services)
	if res.Err == nil || !strings.Contains(res.Err.Error(), "declare no units to restart") {
		t.Fatalf("error %v", res.Err)
	}
	if res = w.ensure(t, settingDoc); res.Err != nil {
		t.Errorf("without units: %v", res.Err)
	}
	if _, open := w.record(t); open {
		t.Error("a record is left")
	}
}

// TestTarget_oneRestartForAPass (A2): what several NodeConfigs of a pass need is one
// restart, proven for each. One whose change failed keeps no other from it.
func TestTarget_oneRestartForAPass(t *testing.T) {
	w := newWorld(t)
	var docs []plugin.Doc
	for i := range 8 {
		name := fmt.Sprintf("n%d", i)
		doc := strings.Replace(nodetest.Doc(name, "new"), "spec: {", "spec: {services: [a.service], ", 1)
		docs = append(docs, plugin.Doc{Source: name + ".yaml", Data: []byte(doc)})
	}
	ts, err := targets(t.Context(), w.Env, docs)
	if err != nil {
		t.Fatal(err)
	}
	var visits []*drift.Visit
	for _, target := range ts {
		visits = append(visits, drift.Begin(t.Context(), target.(drift.Planner), drift.Options{}))
	}
	w.Restarts(t)
	for _, v := range visits {
		if r := v.Finish(t.Context()); r.Err != nil || !r.Changed {
			t.Errorf("%s: changed %t, error %v", r.Target, r.Changed, r.Err)
		}
	}
	restarts := 0
	for _, c := range w.Systemd.Log(t) {
		if strings.HasPrefix(c, "restart ") {
			restarts++
		}
	}
	if restarts != 1 {
		t.Errorf("%d restarts, want one", restarts)
	}
}
