package nodeconfig

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/plugin"
	"github.com/tlspu/keel/test/contract"
	"github.com/tlspu/keel/test/nodetest"
)

// Killed before or after any step, no restart is lost, and none is made that a
// death does not make necessary: the one step whose death may cost a restart is
// the restarts themselves.
func TestTarget_killedAtEveryStep(t *testing.T) {
	t.Run("a first change", func(t *testing.T) { killed(t, "") })
	t.Run("a change while a restart is pending", func(t *testing.T) {
		killed(t, `{"phase":"restarting","units":{"b.service":"00000000000000000000000000000001"}}`)
	})
	t.Run("a change that may have been made", func(t *testing.T) { killed(t, `{"phase":"ensuring","units":{"b.service":""}}`) })
}

func killed(t *testing.T, journal string) {
	contract.Crash(t, contract.Crashes{
		Setup: func(t testing.TB, dir string) {
			s := &nodetest.Systemd{File: filepath.Join(dir, "systemd.json")}
			s.Change(t, func(u *nodetest.Units) {
				u.Units = map[string]*nodetest.Unit{"a.service": {Starts: 1, Active: "active"}, "b.service": {Starts: 1, Active: "active"}}
			})
			folder := filepath.Join(dir, "root", JournalDir)
			if err := os.MkdirAll(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			if journal == "" {
				return
			}
			if err := os.WriteFile(filepath.Join(folder, "one.json"), []byte(journal), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		Visit: func(ctx context.Context, dir string, hook drift.Hook) drift.Result {
			s := &nodetest.Systemd{File: filepath.Join(dir, "systemd.json")}
			env := plugin.Env{Root: filepath.Join(dir, "root"), Run: func(string) command.Runner { return s }, Handlers: nodetest.Handlers(nodetest.NewSetting())}
			m, err := OpenMachine(env)
			if err != nil {
				return drift.Result{Err: err}
			}
			c := read(env, []plugin.Doc{{Source: "one.yaml", Data: []byte(settingDoc + services)}}).configs[0]
			return drift.Ensure(ctx, m.Target("one", c), drift.Options{Hook: hook, Lock: func(ctx context.Context) (func(), error) {
				return m.Tree.Lock(ctx, "test")
			}})
		},
		Check: func(t testing.TB, dir string) {
			root := filepath.Join(dir, "root")
			if got, err := os.ReadFile(filepath.Join(root, "etc/one")); err != nil || string(got) != "new" {
				t.Errorf("content %q, %v", got, err)
			}
			if journals, err := os.ReadDir(filepath.Join(root, JournalDir)); err != nil || len(journals) != 0 {
				t.Errorf("journals %v, %v", journals, err)
			}
			s := &nodetest.Systemd{File: filepath.Join(dir, "systemd.json")}
			log := s.Log(t)
			restarts := slices.DeleteFunc(log, func(c string) bool { return c == "daemon-reload" })
			if diff := cmp.Diff([]string{"restart a.service", "restart b.service"}, restarts); diff != "" {
				t.Errorf("restarts (-want +got):\n%s", diff)
			}
		},
	})
}

// TestPass_killedAtEveryStep (A2): killed anywhere in a pass over two NodeConfigs that
// list one unit, its restart is neither lost nor made twice.
func TestPass_killedAtEveryStep(t *testing.T) {
	systemd := func(dir string) *nodetest.Systemd {
		return &nodetest.Systemd{File: filepath.Join(dir, "systemd.json")}
	}
	contract.Crash(t, contract.Crashes{
		Setup: func(t testing.TB, dir string) {
			systemd(dir).Change(t, func(u *nodetest.Units) {
				u.Units = map[string]*nodetest.Unit{"a.service": {Starts: 1, Active: "active"}}
			})
			if err := os.MkdirAll(filepath.Join(dir, "root"), 0o755); err != nil {
				t.Fatal(err)
			}
		},
		Visit: func(ctx context.Context, dir string, hook drift.Hook) (all drift.Result) {
			env := plugin.Env{Root: filepath.Join(dir, "root"), Run: func(string) command.Runner { return systemd(dir) }, Handlers: nodetest.Handlers(nodetest.NewSetting())}
			var docs []plugin.Doc
			for _, name := range []string{"one", "two"} {
				doc := strings.Replace(nodetest.Doc(name, "new"), "spec: {", "spec: {services: [a.service], ", 1)
				docs = append(docs, plugin.Doc{Source: name + ".yaml", Data: []byte(doc)})
			}
			ts, err := targets(ctx, env, docs)
			if err != nil {
				return drift.Result{Err: err}
			}
			var visits []*drift.Visit
			for _, target := range ts {
				visits = append(visits, drift.Begin(ctx, target.(drift.Planner), drift.Options{Hook: hook}))
			}
			for _, v := range visits {
				r := v.Finish(ctx)
				all.Changed, all.Err = all.Changed || r.Changed, errors.Join(all.Err, r.Err)
			}
			return all
		},
		Check: func(t testing.TB, dir string) {
			restarts := slices.DeleteFunc(systemd(dir).Log(t), func(c string) bool { return c == "daemon-reload" })
			if diff := cmp.Diff([]string{"restart a.service"}, restarts); diff != "" {
				t.Errorf("restarts (-want +got):\n%s", diff)
			}
		},
	})
}
