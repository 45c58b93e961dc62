package node

import (
	"context"
	"errors"
	"fmt"
	"path"

	"gopkg.in/yaml.v3"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/core/host"
	"github.com/tlspu/keel/core/plugin"
	"github.com/tlspu/keel/core/restart"
)

// Kind is the kind NodeConfig for the command line.
func Kind() plugin.Kind {
	return plugin.Kind{Name: v1alpha1.Kind, Validate: validate, Targets: targets}
}

// validate judges documents as far as that is possible without a machine: two
// that claim one path are found, two that reach one file by a link are not.
func validate(_ context.Context, env plugin.Env, docs []plugin.Doc) []error {
	errs := make([]error, len(docs))
	configs := read(env, docs)
	lost := conflicts(configs, nil)
	for i, c := range configs {
		errs[i] = errors.Join(c.err, lost[c])
	}
	return errs
}

// read reads and judges documents, each and beside the others.
func read(env plugin.Env, docs []plugin.Doc) []*config {
	configs := make([]*config, len(docs))
	for i, doc := range docs {
		parsed := parse(doc)
		configs[i] = newConfig(doc.Source, parsed, env.Handlers)
		if configs[i].err == nil {
			warn(env.Log, doc.Source, parsed, env.Handlers)
		}
	}
	twice(configs)
	return configs
}

// parse reads a document that may have been read in part already.
func parse(doc plugin.Doc) v1alpha1.Document {
	if tree, ok := doc.Tree.(*yaml.Node); ok {
		return v1alpha1.ReadNodeConfig(tree)
	}
	nc, err := v1alpha1.ParseNodeConfig(doc.Data)
	return v1alpha1.Document{NodeConfig: nc, Err: err}
}

// targets makes a target of every document. They share what they remember of
// the machine, which stays open as long as they are in use.
func targets(_ context.Context, env plugin.Env, docs []plugin.Doc) ([]drift.Target, error) {
	m, err := openMachine(env)
	if err != nil {
		return nil, err
	}
	configs := read(env, docs)
	lost := conflicts(configs, &m.tree.View)
	list := make([]drift.Target, len(configs))
	for i, c := range configs {
		id := c.name
		if id == "" || c.twice {
			id = c.source
		}
		list[i] = m.target(id, c, lost[c])
	}
	return list, nil
}

// A machine is the machine at a root, open to be kept.
type machine struct {
	env  plugin.Env
	tree *host.Tree
	run  host.Runner
	look handler.Machine
}

// openMachine opens the machine of env. Whoever keeps it for long closes its tree.
func openMachine(env plugin.Env) (*machine, error) {
	tree, err := host.OpenTree(env.Root)
	if err != nil {
		return nil, &plugin.Exit{Code: exitUnreadable, Err: err}
	}
	run := env.Run(env.Root)
	return &machine{env: env, tree: tree, run: run, look: handler.NewMachine(&tree.View, run)}, nil
}

// target makes the target of a NodeConfig that is to be kept as c says. err, when
// set, is why it is not kept, and so is c's own.
func (m *machine) target(id string, c *config, err error) drift.Planner {
	if c.err != nil && id != c.source {
		err = errors.Join(c.fault(), err)
	} else {
		err = errors.Join(c.err, err)
	}
	if err != nil {
		return drift.Refused(id, &plugin.Exit{Code: exitInvalid, Err: err})
	}
	if c.suspend {
		return suspended(id)
	}
	spec, err := c.unpack()
	if err != nil {
		return drift.Refused(id, err)
	}
	h, err := m.env.Handlers.Lookup(spec.Type)
	if err != nil {
		return drift.Refused(id, fmt.Errorf("spec.type: %w", err))
	}
	inner := handler.Opaque(id, h, m.env.Root, spec.Params)
	if o, ok := h.(handler.Observer); ok {
		inner = handler.Target(id, o, m.look, m.env.Root, spec.Params)
	}
	return &target{Planner: inner, restarts: m.restarts(c.name, fileName(c.name)), services: spec.Services}
}

// restarts are those of the NodeConfig of a name, noted in a file of journalDir.
func (m *machine) restarts(name, file string) restarts {
	journal := restart.NewFile(m.tree, path.Join(journalDir, file))
	return restarts{name: name, journal: journal, run: m.run, forget: m.look.Forget}
}
