// Package appliance compares an appliance with its description: each section of
// an instance document is a target whose observed side is read from the
// machine's files and, on the running system, from commands that only ask. It
// changes nothing and reads no secret.
//
// What is compared is the field table (fields), what the machine holds comes
// from the readers (readers). A field more is a row in each, its rule in the
// schema of api/appliance, and a folder of test/fixtures/diff.
package appliance

import (
	"context"
	"errors"
	"fmt"
	"path"

	apispec "github.com/tlspu/keel/api/appliance"
	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/plugin"
)

// Kind describes instance documents. Their targets can only be compared: none
// has a plan.
func Kind() plugin.Kind {
	return plugin.Kind{Name: "Instance", Validate: validate, Targets: instanceTargets}
}

// validate judges each document without a machine and without the files of its
// secrets: exit code 2 for what is no document, 3 for what is wrong with one.
func validate(_ context.Context, _ plugin.Env, docs []plugin.Doc) []error {
	errs := make([]error, len(docs))
	for i, doc := range docs {
		_, errs[i] = parse(doc)
	}
	return errs
}

func parse(doc plugin.Doc) (*apispec.Spec, error) {
	spec, err := apispec.Parse(doc.Data)
	if err != nil {
		return nil, &plugin.Exit{Code: 2, Err: err}
	}
	if errs := spec.Validate(); errs != nil {
		return nil, &plugin.Exit{Code: 3, Err: errors.Join(errs...)}
	}
	return spec, nil
}

// instanceTargets makes a target of each section of the document; a machine has
// one instance document, so a second one is an error in its place.
func instanceTargets(_ context.Context, env plugin.Env, docs []plugin.Doc) ([]drift.Target, error) {
	root := path.Clean(env.Root)
	m := machine{root: root, live: root == "/"}
	if m.live {
		m.run = command.NewReadOnly(command.NewPass(env.Run(root)))
	}
	var all []drift.Target
	first := ""
	for _, doc := range docs {
		spec, err := parse(doc)
		if err == nil && first != "" {
			err = &plugin.Exit{Code: 3, Err: fmt.Errorf("a machine has one instance document, and %s is one already", first)}
		}
		if err != nil {
			all = append(all, broken{doc.Source, err})
			continue
		}
		first = doc.Source
		all = append(all, targets(spec, m)...)
	}
	return all, nil
}

// broken stands for a document that cannot be used.
type broken struct {
	source string
	err    error
}

func (b broken) ID() string { return b.source }

func (b broken) Observe(context.Context) (declared, observed drift.State, err error) {
	return nil, nil, b.err
}
