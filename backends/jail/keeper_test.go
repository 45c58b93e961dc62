package jail_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apijail "github.com/tlspu/keel/api/jail"
	"github.com/tlspu/keel/backends/jail"
	"github.com/tlspu/keel/backends/jail/memory"
	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/host"
	"github.com/tlspu/keel/test/contract"
)

func limits(percent, bytes int64) jail.Limits { return jail.Limits{CPU: percent, Memory: bytes} }

func at(address string) func(*apijail.Spec) {
	return func(s *apijail.Spec) { s.Network.Address = address }
}

func TestApply_refuses(t *testing.T) {
	tests := []struct {
		name string
		jail *apijail.Jail
		want string
		is   error
	}{
		{"what is invalid", spec("web", func(s *apijail.Spec) { s.Image = "x" }), `spec.image: "x" must begin with base/`, nil},
		{"what cannot change", spec("web", func(s *apijail.Spec) { s.Image = "base/x" }), "spec.image: cannot change", nil},
		{"an address twice", spec("db", at("10.0.60.5/16")), "spec.network.address: 10.0.60.5 is that of jail web already", jail.ErrExists},
		{"a volume of two sizes", spec("db", func(s *apijail.Spec) {
			s.Network.Address = "10.0.60.9/24"
			s.Volumes = []apijail.Volume{{Name: "web-data", MountPath: "/x", Size: "9G"}}
		}), "spec.volumes: volume web-data has size 8G in jail web, and cannot have 9G here", jail.ErrExists},
		{"what is being deleted", spec("old", at("10.0.60.8/24")), "apply jail old: it is being deleted", jail.ErrBusy},
	}
	b := newBench(t)
	b.up("web", nil)
	b.do(b.keeper.Record(t.Context(), spec("old", at("10.0.60.8/24"))))
	b.do(b.keeper.RecordDelete(t.Context(), "old"))
	before := b.read("web.yaml") + b.read("old.yaml")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := b.keeper.Record(t.Context(), tt.jail)
			if err == nil || !strings.Contains(err.Error(), tt.want) || tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
	b.equal("records", b.read("web.yaml")+b.read("old.yaml"), before)
	b.equal("records", b.records(), []string{"old.yaml", "web.yaml"})
}

func TestApply_sharedVolumeOfOneSize(t *testing.T) {
	b := newBench(t)
	b.up("web", nil)
	b.up("db", func(s *apijail.Spec) {
		s.Network.Address = "10.0.60.9/24"
		s.Volumes = []apijail.Volume{{Name: "web-data", MountPath: "/x", Size: "8192M"}}
	})
}

func TestApply_ordinals(t *testing.T) {
	b := newBench(t)
	b.up("a", at("10.0.60.11/24"))
	b.up("b", at("10.0.60.12/24"))
	b.start()
	b.up("c", at("10.0.60.13/24"))
	b.do(b.keeper.Record(t.Context(), spec("a", func(s *apijail.Spec) {
		s.Network.Address, s.Resources.CPU = "10.0.60.11/24", "3"
	})))
	b.do(b.keeper.RecordDelete(t.Context(), "b"))
	b.pass(time.Minute)
	b.ok("b")
	b.pass(time.Minute)
	b.up("d", at("10.0.60.14/24"))
	for name, want := range map[string]string{"a": "1", "c": "3", "d": "4"} {
		if text := b.read(name + ".yaml"); !strings.Contains(text, "epair_ordinal: "+want+"\n") {
			t.Errorf("%s: want ordinal %s in\n%s", name, want, text)
		}
	}
}

// TestKeeper_run is the whole of it: a loop, its clock, and commands from outside.
func TestKeeper_run(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.New()
		if err := m.AddImage("tank/keel/" + image); err != nil {
			t.Fatal(err)
		}
		tree, err := host.OpenTree(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tree.Close() }()
		var visits []error
		k, err := jail.NewKeeper(t.Context(), jail.Options{
			Driver: m.Driver(), Store: jail.NewStore(tree), Pool: pool, Now: time.Now,
			Done: func(r drift.Result) { visits = append(visits, r.Err) },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- k.Run(ctx) }()

		res, err := k.Apply(ctx, spec("web", nil))
		if err != nil || res.Err != nil || m.Starts("keel-web") != 1 {
			t.Errorf("apply: %+v, %v", res, err)
		}
		if res, err = k.Apply(ctx, spec("web", nil)); err != nil || res.Err != nil || res.Changed {
			t.Errorf("apply again: %+v, %v", res, err)
		}
		if _, err = k.Apply(ctx, spec("web", func(s *apijail.Spec) { s.Image = "base/x" })); err == nil {
			t.Error("an image was changed")
		}
		if err := m.MarkExited("keel-web", 1); err != nil {
			t.Fatal(err)
		}
		<-time.After(5 * time.Second)
		synctest.Wait()
		if m.Starts("keel-web") != 2 {
			t.Errorf("%d starts after a crash and a pass", m.Starts("keel-web"))
		}
		// It crashes at once, and the pause of 2 s is honoured between two passes.
		if err := m.MarkExited("keel-web", 1); err != nil {
			t.Fatal(err)
		}
		<-time.After(8 * time.Second)
		synctest.Wait()
		if m.Starts("keel-web") != 3 {
			t.Errorf("%d starts after two crashes", m.Starts("keel-web"))
		}
		// A change does not wait for the pause.
		if err := m.MarkExited("keel-web", 1); err != nil {
			t.Fatal(err)
		}
		if res, err = k.Apply(ctx, spec("web", func(s *apijail.Spec) { s.Command = []string{"/mended"} })); err != nil || res.Err != nil || m.Starts("keel-web") != 4 {
			t.Errorf("changed: %+v, %v", res, err)
		}
		if res, err = k.Delete(ctx, "web"); err != nil || res.Err != nil {
			t.Errorf("delete: %+v, %v", res, err)
		}
		if _, err = k.Delete(ctx, "web"); !errors.Is(err, jail.ErrNotFound) {
			t.Errorf("delete again: %v", err)
		}
		if res, err = k.Apply(ctx, spec("web", nil)); err != nil || res.Err != nil {
			t.Errorf("applied anew: %+v, %v", res, err)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		if len(visits) == 0 {
			t.Error("Done was not told")
		}
		if _, err := k.Apply(t.Context(), spec("web", nil)); err == nil {
			t.Error("applied without a loop")
		}
	})
}

func TestTarget_keepsTheContract(t *testing.T) {
	states := map[string]func(*bench){
		"nothing":  func(*bench) {},
		"running":  func(b *bench) { b.pass(0) },
		"crashed":  func(b *bench) { b.pass(0); b.do(b.machine.MarkExited("keel-a", 1)) },
		"deleting": func(b *bench) { b.pass(0); b.do(b.keeper.RecordDelete(b.Context(), "a")) },
		"unknown": func(b *bench) {
			for _, op := range []string{"list jails", "list limits", "list datasets", "list mounts", "list network"} {
				b.machine.Fail(op, "", errors.New("no answer"))
			}
		},
	}
	for name, prepare := range states {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.do(b.keeper.Record(t.Context(), spec("a", nil)))
			b.do(b.keeper.Record(t.Context(), spec("b", at("10.0.60.9/24"))))
			prepare(b)
			contract.Target(t, contract.Targets{
				New: func(testing.TB, command.Runner) []drift.Target {
					k, err := jail.NewKeeper(t.Context(), b.options())
					b.do(err)
					return k.Targets()
				},
				Root:  b.dir,
				State: func() string { return strings.Join(b.machine.Contents(), "\n") },
			})
		})
	}
}

// A jail that another process starts while this one waits for the lock is left alone.
func TestTarget_freshUnderTheLock(t *testing.T) {
	b := newBench(t)
	b.do(b.keeper.Record(t.Context(), spec("a", nil)))
	b.pass(0)
	b.do(b.machine.Reboot())
	fresh := func() []drift.Target {
		k, err := jail.NewKeeper(t.Context(), b.options())
		b.do(err)
		return k.Targets()
	}
	contract.Target(t, contract.Targets{
		New:   func(testing.TB, command.Runner) []drift.Target { return fresh() },
		Root:  b.dir,
		State: func() string { return strings.Join(b.machine.Contents(), "\n") },
		Drifted: func(t testing.TB) (drift.Planner, func()) {
			return fresh()[0].(drift.Planner), func() {
				if r := drift.Ensure(t.Context(), fresh()[0].(drift.Planner), drift.Options{}); r.Err != nil {
					t.Fatal(r.Err)
				}
			}
		},
	})
}

// TestTarget_calledOffIsNoAnswer: what was not answered because a visit was
// called off is asked again, and not unknown to the next one.
func TestTarget_calledOffIsNoAnswer(t *testing.T) {
	b := newBench(t)
	b.up("web", nil)
	b.wrap = func(d *jail.Driver) { d.Jails = patient{d.Jails} }
	b.start()
	list := b.keeper.Targets()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := list[0].Observe(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("called off: %v", err)
	}
	if res := drift.Check(t.Context(), list[0]); res.Err != nil || !res.Before.Settled() {
		t.Errorf("afterwards: %+v", res)
	}
}
