package restart_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/host"
	"github.com/tlspu/keel/core/restart"
	"github.com/tlspu/keel/test/contract"
)

// steps calls a drift.Hook around what is no step of a plan.
type steps struct{ hook drift.Hook }

func (s steps) do(ctx context.Context, text string, do func() error) error {
	step := drift.Step{Text: text}
	if err := s.hook(ctx, 0, step, nil); err != nil {
		return err
	}
	err := do()
	return errors.Join(err, s.hook(ctx, 0, step, &drift.Outcome{Err: err}))
}

// stepping dies around each command that acts.
type stepping struct {
	steps
	next command.Runner
}

func (r stepping) Run(ctx context.Context, c command.Cmd) (out []byte, err error) {
	if c.Query {
		return r.next.Run(ctx, c)
	}
	err = r.do(ctx, c.String(), func() (err error) {
		out, err = r.next.Run(ctx, c)
		return err
	})
	return out, err
}

// writing dies around each write of the journal.
type writing struct {
	steps
	restart.Journal
}

func (j writing) Save(ctx context.Context, r restart.Record) error {
	return j.do(ctx, "save "+r.Phase, func() error { return j.Journal.Save(ctx, r) })
}

func (j writing) Clear(ctx context.Context) error {
	return j.do(ctx, "clear", func() error { return j.Journal.Clear(ctx) })
}

// crashVisit changes a configuration once, and brings its restarts to their end.
func crashVisit(ctx context.Context, dir string, hook drift.Hook) (res drift.Result) {
	tree, err := host.OpenTree(dir)
	if err != nil {
		return drift.Result{Err: err}
	}
	defer func() { res.Err = errors.Join(res.Err, tree.Close()) }()
	systemd := contract.Systemd{Dir: dir}
	at := steps{hook}
	j := writing{at, restart.NewFile(tree, journal)}
	_, pending, err := j.Load(ctx)
	if err != nil {
		return drift.Result{Err: err}
	}
	_, err = tree.Read("/config", 100)
	if absent := errors.Is(err, fs.ErrNotExist); absent {
		units := map[string]string{"a.service": "", "b-forgotten.service": "", "c-oneshot.service": "", "d.service": ""}
		if err := j.Save(ctx, restart.Record{Phase: restart.Ensuring, Units: units, Reload: true}); err != nil {
			return drift.Result{Err: err}
		}
		err := at.do(ctx, "change", func() error {
			_, err := tree.Put(ctx, "/config", strings.NewReader("new\n"), host.Attr{})
			return errors.Join(err, systemd.Note("change"))
		})
		if err != nil {
			return drift.Result{Err: err}
		}
	} else if !pending {
		return drift.Result{Err: err}
	}
	return drift.Result{Changed: true, Err: restart.Prove(ctx, stepping{at, systemd}, j)}
}

func TestProve_killedBetweenEveryTwoSteps(t *testing.T) {
	// All once, in this order, but for two that leave no trace which the next
	// process could read: a reload, and a oneshot that systemd forgets.
	want := regexp.MustCompile(`^change;(daemon-reload;){1,2}restart a.service;` +
		`(restart b-forgotten.service;){1,2}restart c-oneshot.service;restart d.service;$`)
	contract.Crash(t, contract.Crashes{
		Setup: func(t testing.TB, dir string) {
			systemd := contract.Systemd{Dir: dir}
			systemd.Add(t, "a.service", contract.SystemdUnit{Type: "simple"})
			systemd.Add(t, "b-forgotten.service", contract.SystemdUnit{Type: "oneshot", Forgotten: true})
			systemd.Add(t, "c-oneshot.service", contract.SystemdUnit{Type: "oneshot"})
			systemd.Add(t, "d.service", contract.SystemdUnit{Type: "simple"})
		},
		Visit: crashVisit,
		Check: func(t testing.TB, dir string) {
			actions := contract.Systemd{Dir: dir}.Actions(t)
			if got := strings.Join(actions, ";") + ";"; !want.MatchString(got) {
				t.Errorf("actions: %s, want %s", got, want)
			}
			if _, err := os.Stat(filepath.Join(dir, journal)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("journal: got %v, want it gone", err)
			}
		},
	})
}
