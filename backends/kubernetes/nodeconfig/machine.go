package nodeconfig

import (
	"errors"
	"fmt"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/core/host"
	"github.com/tlspu/keel/core/plugin"
)

// A Machine is the machine at a root, open to be kept.
type Machine struct {
	env  plugin.Env
	Tree *host.Tree
	run  command.Runner
	// Handled is the machine as handlers reach it.
	Handled *handler.Machine
	// Claims are those of the NodeConfigs that are managed on this machine.
	Claims *Claims

	Proven int // units whose restart was proven
}

// OpenMachine opens the machine of env. Whoever keeps it for long closes its tree.
func OpenMachine(env plugin.Env) (*Machine, error) {
	tree, err := host.OpenTree(env.Root)
	if err != nil {
		return nil, &plugin.Exit{Code: plugin.ExitUnreadable, Err: err}
	}
	if env.Note == nil {
		env.Note = func(string, string) {}
	}
	run := env.Run(env.Root)
	return &Machine{env: env, Tree: tree, run: run, Handled: handler.NewMachine(env.Root, tree, run), Claims: NewClaims(&tree.View)}, nil
}

// Target makes the target of a NodeConfig that is to be managed as c says. One with
// an error, or in conflict with another that m.Claims knows, refuses every run.
func (m *Machine) Target(id string, c *Config) drift.Planner {
	err := m.Claims.Conflict(id)
	if c.Err != nil && id != c.Source {
		err = errors.Join(c.Fault(), err)
	} else {
		err = errors.Join(c.Err, err)
	}
	if err != nil {
		return drift.Refused(id, coded(err))
	}
	if reason := c.Idle(); reason != "" {
		return idle{id, reason}
	}
	spec, err := c.Unpack()
	if err != nil {
		return drift.Refused(id, err)
	}
	h, err := m.env.Handlers.Lookup(spec.Type)
	if err != nil {
		return drift.Refused(id, fmt.Errorf("spec.type: %w", err))
	}
	hidden := hiding{values: c.Hidden}
	var inner drift.Planner = exclusive{m.Handled.Target(handler.Spec{
		ID: id, Handler: h, Params: spec.Params, Sensitive: c.sensitive,
		Others: func() ([]string, bool) { return m.Claims.Others(id) },
		Note:   func(sentence string) { m.env.Note(id, hidden.text(sentence)) },
	}), m.Claims, id, c}
	if c.sensitive {
		inner = sensitive{inner, hidden}
	}
	return &target{Planner: inner, restarts: m.restarts(c.Name, FileName(c.Name)), services: spec.Services}
}
