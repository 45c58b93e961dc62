package nodeconfig

import (
	"context"
	"testing"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/core/plugin"
	"github.com/tlspu/keel/test/contract"
	"github.com/tlspu/keel/test/nodetest"
)

// asking is a handler that learns its value from a command, whose answer a Pass
// remembers.
type asking struct{ nodetest.Setting }

func (asking) Observe(ctx context.Context, l handler.Look) (declared, observed drift.State, err error) {
	out, err := l.Query.Run(ctx, command.Cmd{Argv: []string{"value"}, Query: true})
	if err != nil {
		return nil, nil, err
	}
	path := drift.Path{"value"}
	return drift.State{{Path: path, Value: l.Params["value"]}}, drift.State{{Path: path, Value: string(out)}}, nil
}

// valued answers the query of asking.
type valued struct {
	command.Runner
	value *string
}

func (v valued) Run(ctx context.Context, c command.Cmd) ([]byte, error) {
	if c.Argv[0] == "value" {
		return []byte(*v.value), nil
	}
	return v.Runner.Run(ctx, c)
}

func TestTarget_freshUnderTheLock(t *testing.T) {
	w := newWorld(t)
	value := "old"
	w.Env.Handlers = plugin.NewRegistry[handler.Handler]("handler")
	w.Env.Handlers.Register("setting", asking{w.Handler})
	run := valued{w.Systemd, &value}
	fresh := func(t testing.TB, run command.Runner) drift.Planner {
		env := w.Env
		env.Run = func(string) command.Runner { return run }
		ts, err := targets(t.Context(), env, []plugin.Doc{{Source: "one.yaml", Data: []byte(settingDoc + services)}})
		if err != nil {
			t.Fatal(err)
		}
		return ts[0].(drift.Planner)
	}
	contract.Target(t, contract.Targets{
		New:  func(t testing.TB, run command.Runner) []drift.Target { return []drift.Target{fresh(t, run)} },
		Run:  run,
		Root: w.Env.Root,
		Drifted: func(t testing.TB) (drift.Planner, func()) {
			return fresh(t, run), func() { value = "new" }
		},
	})
}
