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
	Look handler.Machine
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
	run := env.Run(env.Root)
	return &Machine{env: env, Tree: tree, run: run, Look: handler.NewMachine(&tree.View, run), Claims: NewClaims(&tree.View)}, nil
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
	inner := handler.Opaque(id, h, m.env.Root, spec.Params)
	if o, ok := h.(handler.Observer); ok {
		inner = handler.Target(id, o, m.Look, m.env.Root, spec.Params)
	}
	inner = exclusive{inner, m.Claims, id, c}
	if c.sensitive {
		inner = sensitive{inner, hiding{values: c.Hidden}}
	}
	return &target{Planner: inner, restarts: m.restarts(c.Name, FileName(c.Name)), services: spec.Services}
}
