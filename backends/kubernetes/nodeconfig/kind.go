package nodeconfig

import (
	"context"
	"errors"

	"gopkg.in/yaml.v3"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/node/facts"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/plugin"
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
		if f, _, unknown = Gather(nil, env.Facts); unknown == nil {
			set.resolve(Inputs{Facts: f, Find: set.find}, env)
		}
	}
	errs := make([]error, len(docs))
	claims := NewClaims(nil)
	set.claim(claims)
	for i, c := range set.configs {
		if c == nil {
			errs[i] = coded(set.data[i].Err)
			continue
		}
		if errs[i] = coded(errors.Join(c.Err, claims.Conflict(set.id(i)))); errs[i] == nil {
			errs[i] = unknown
		}
	}
	return errs
}

// coded is an error with its exit code, which tells a document that cannot be read
// from one that is invalid; nil stays nil.
func coded(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, v1alpha1.ErrRepeatedKey):
		return &plugin.Exit{Code: plugin.ExitUnreadable, Err: err}
	}
	return &plugin.Exit{Code: plugin.ExitInvalid, Err: err}
}

// documents are those of an operator, judged, each as what it is.
type documents struct {
	configs []*Config // nil where it is data
	data    []*Datum  // nil where it is none
	find    func(title string) (*v1alpha1.Data, error)
}

// read reads and judges documents, each and beside the others.
func read(env plugin.Env, docs []plugin.Doc) documents {
	set := documents{configs: make([]*Config, len(docs)), data: make([]*Datum, len(docs))}
	for i, doc := range docs {
		parsed := parse(doc)
		if parsed.Data != nil {
			set.data[i] = NewDatum(doc.Source, parsed)
			continue
		}
		set.configs[i] = judged(doc.Source, parsed, env.Handlers, env.AllowUnknownParams)
		if set.configs[i].Err == nil {
			Warn(env.Log, doc.Source, parsed, env.Handlers)
		}
	}
	Twice(set.configs)
	found := Index(set.data)
	found.twice()
	set.find = found.Find
	return set
}

// id names the target of a NodeConfig: by its name, which is no other's, or by its
// document.
func (s documents) id(i int) string {
	c := s.configs[i]
	if c.Name == "" || c.twice {
		return c.Source
	}
	return c.Name
}

// claim takes down what the NodeConfigs claim.
func (s documents) claim(claims *Claims) {
	for i, c := range s.configs {
		if c != nil {
			claims.Set(s.id(i), c)
		}
	}
}

// resolve puts what the NodeConfigs say on this node in their place.
func (s documents) resolve(in Inputs, env plugin.Env) {
	for i, c := range s.configs {
		if c != nil {
			s.configs[i] = c.Resolve(in, env.Handlers)
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
	m, err := OpenMachine(env)
	if err != nil {
		return nil, err
	}
	f, overruled, err := Gather(&m.Tree.View, env.Facts)
	if err != nil {
		return nil, err
	}
	WarnOfFacts(env.Log, overruled, env.Facts)
	set := read(env, docs)
	set.resolve(Inputs{Facts: f, Find: set.find}, env)
	set.claim(m.Claims)
	var list []drift.Target
	for i, c := range set.configs {
		switch {
		case c != nil:
			list = append(list, m.Target(set.id(i), c))
		case set.data[i].Err != nil:
			list = append(list, drift.Refused(set.data[i].source, coded(set.data[i].Err)))
		}
	}
	return list, nil
}
