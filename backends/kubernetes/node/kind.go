package node

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/node/facts"
	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/core/host"
	"github.com/tlspu/keel/core/plugin"
	"github.com/tlspu/keel/core/restart"
)

// Kind is the kind NodeConfig for the command line, with the data its templates
// read.
func Kind() plugin.Kind {
	return plugin.Kind{
		Name: v1alpha1.Kind, Data: []string{v1alpha1.ConfigMapKind, v1alpha1.SecretKind},
		Validate: validate, Targets: targets,
	}
}

// validate judges documents as far as that is possible without a machine: two
// that claim one path are found, two that reach one file by a link are not. With a
// file of facts it also judges what templates give.
func validate(_ context.Context, env plugin.Env, docs []plugin.Doc) []error {
	set := read(env, docs)
	var unknown error
	if env.Facts != "" {
		var f facts.Facts
		if f, _, unknown = gather(nil, env.Facts); unknown == nil {
			set.resolve(inputs{facts: f, find: set.find}, env)
		}
	}
	errs := make([]error, len(docs))
	lost := conflicts(set.known(), nil)
	for i, c := range set.configs {
		switch {
		case c == nil:
			errs[i] = set.data[i].err
		case c.err != nil || lost[c] != nil:
			errs[i] = errors.Join(c.err, lost[c])
		default:
			errs[i] = unknown
		}
	}
	return errs
}

// documents are those of an operator, judged, each as what it is.
type documents struct {
	configs []*config // nil where it is data
	data    []*datum  // nil where it is none
	find    func(title string) (*v1alpha1.Data, error)
}

// read reads and judges documents, each and beside the others.
func read(env plugin.Env, docs []plugin.Doc) documents {
	set := documents{configs: make([]*config, len(docs)), data: make([]*datum, len(docs))}
	for i, doc := range docs {
		parsed := parse(doc)
		if parsed.Data != nil {
			set.data[i] = newDatum(doc.Source, parsed)
			continue
		}
		set.configs[i] = newConfig(doc.Source, parsed, env.Handlers)
		if set.configs[i].err == nil {
			warn(env.Log, doc.Source, parsed, env.Handlers)
		}
	}
	twice(set.configs)
	found := index(set.data)
	found.twice()
	set.find = found.find
	return set
}

// known lists the NodeConfigs.
func (s documents) known() []*config {
	return slices.DeleteFunc(slices.Clone(s.configs), func(c *config) bool { return c == nil })
}

// resolve puts what the NodeConfigs say on this node in their place.
func (s documents) resolve(in inputs, env plugin.Env) {
	for i, c := range s.configs {
		if c != nil {
			s.configs[i] = c.resolve(in, env.Handlers)
		}
	}
}

// parse reads a document that may have been read in part already.
func parse(doc plugin.Doc) v1alpha1.Document {
	if tree, ok := doc.Tree.(*yaml.Node); ok {
		return v1alpha1.Read(tree)
	}
	return v1alpha1.ParseOne(doc.Data)
}

// targets makes a target of every NodeConfig, and of data that is wrong. They
// share what they remember of the machine, which stays open as long as they are in
// use.
func targets(_ context.Context, env plugin.Env, docs []plugin.Doc) ([]drift.Target, error) {
	m, err := openMachine(env)
	if err != nil {
		return nil, err
	}
	f, overruled, err := gather(&m.tree.View, env.Facts)
	if err != nil {
		return nil, err
	}
	warnOfFacts(env.Log, overruled, env.Facts)
	set := read(env, docs)
	set.resolve(inputs{facts: f, find: set.find}, env)
	lost := conflicts(set.known(), &m.tree.View)
	var list []drift.Target
	for i, c := range set.configs {
		switch {
		case c != nil:
			id := c.name
			if id == "" || c.twice {
				id = c.source
			}
			list = append(list, m.target(id, c, lost[c]))
		case set.data[i].err != nil:
			list = append(list, drift.Refused(set.data[i].source, &plugin.Exit{Code: exitInvalid, Err: set.data[i].err}))
		}
	}
	return list, nil
}

// A machine is the machine at a root, open to be kept.
type machine struct {
	env  plugin.Env
	tree *host.Tree
	run  command.Runner
	look handler.Machine

	proven int // units whose restart was proven
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
	if reason := c.idle(); reason != "" {
		return idle{id, reason}
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
	if c.sensitive {
		inner = sensitive{inner, hiding{values: c.hidden}}
	}
	return &target{Planner: inner, restarts: m.restarts(c.name, fileName(c.name)), services: spec.Services}
}

// restarts are those of the NodeConfig of a name, noted in a file of journalDir.
func (m *machine) restarts(name, file string) restarts {
	journal := restart.NewFile(m.tree, path.Join(journalDir, file))
	return restarts{
		name: name, journal: journal, run: m.run, forget: m.look.Forget,
		proved: func(units int) { m.proven += units },
	}
}
