package appliance

import (
	"context"
	"errors"
	"slices"

	apispec "github.com/tlspu/keel/api/appliance"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/host"
	"github.com/tlspu/keel/core/plugin"
)

// A target is one section of the spec and what the machine holds of it. It has
// no Plan: comparing is all that can be done with it.
type target struct {
	section  string
	declared drift.State
	machine  machine // its files are opened by each Observe
}

// targets makes one target for each section that is declared or can be read,
// in canonical order.
func targets(spec *apispec.Spec, m machine) []drift.Target {
	sections := map[string]drift.State{}
	for _, r := range readers() {
		sections[r.section] = nil
	}
	for _, leaf := range spec.Leaves() {
		sections[leaf.Path[0]] = declare(sections[leaf.Path[0]], leaf)
	}
	var all []drift.Target
	for _, section := range apispec.Sections() {
		if declared, ok := sections[section]; ok {
			all = append(all, &target{section: section, declared: declared, machine: m})
		}
	}
	return all
}

// declare appends what a leaf of the spec declares: its value as the spec holds
// it, or that it is not compared.
func declare(to drift.State, leaf apispec.Leaf) drift.State {
	row, path := ruling(leaf.Path), drift.Path(leaf.Path)
	if row.skip == "" {
		return append(to, formed(drift.Leaf{Path: path, Value: leaf.Value}))
	}
	skip := drift.Skip{Reason: row.skip, Withhold: row.withhold}
	if row.whole {
		path = row.path
		if slices.ContainsFunc(to, func(l drift.Leaf) bool { return slices.Equal(l.Path, path) }) {
			return to
		}
	}
	if !row.withhold && len(path) == len(leaf.Path) {
		skip.Value = drift.Canon(leaf.Value)
	}
	return append(to, drift.Leaf{Path: path, Value: skip})
}

// ID is the name of the section.
func (t *target) ID() string { return t.section }

// Observe returns both sides in the forms that the field table names, and shown
// as the spec and the machine hold them: spelling is no drift, and nothing is
// shown that neither side says. The error is for a root that cannot be opened.
func (t *target) Observe(ctx context.Context) (declared, observed drift.State, err error) {
	var mine []reader
	for _, r := range readers() {
		if r.section == t.section {
			mine = append(mine, r)
		}
	}
	if len(mine) == 0 {
		return t.declared, nil, nil
	}
	view, err := host.OpenView(t.machine.root)
	if err != nil {
		return nil, nil, &plugin.Exit{Code: 2, Err: err}
	}
	defer func() { err = errors.Join(err, view.Close()) }()
	m := t.machine
	m.files = view
	if problem := m.noMachine(); problem != nil {
		return t.declared, drift.State{{Path: drift.Path{t.section}, Value: *problem}}, nil
	}
	for _, r := range mine {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		for _, leaf := range r.read(ctx, m) {
			observed = append(observed, formed(leaf))
		}
	}
	return t.declared, observed, nil
}

// formed is a leaf brought to its comparable form, shown as it is held.
func formed(leaf drift.Leaf) drift.Leaf {
	form := ruling(leaf.Path).form
	if form == nil {
		form = text
	}
	leaf.Value = drift.Canon(leaf.Value)
	leaf.Shown = leaf.Value
	leaf.Value = form(leaf.Value)
	return leaf
}

// noMachine is the problem of a root that holds no /etc: a mount that is
// missing or a wrong path, of which no file says anything.
func (m machine) noMachine() *drift.Unknown {
	info, err := m.files.Stat("/etc")
	switch {
	case err != nil:
		return problem(m.shown("/etc"), err)
	case !info.IsDir():
		return &drift.Unknown{Kind: drift.Malformed, Reason: m.shown("/etc") + " not readable: is not a directory"}
	}
	return nil
}
