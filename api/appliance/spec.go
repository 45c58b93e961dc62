// Package appliance is the description of one appliance instance: a YAML
// document with a top-level "version: 1". It reads a document, judges it, and
// lists what it declares as leaves, in the order in which it is written.
//
// A document is read in two steps, because they fail differently: [Parse]
// refuses what is no document at all, and [Spec.Validate] names everything that
// is wrong with one.
package appliance

import (
	"fmt"
	"slices"
)

// Version is the only value that "version" may have.
const Version = 1

// A Spec is one instance document. It never changes once it is parsed.
type Spec struct{ root node }

// A Leaf is one declared value. A mapping is walked, so that its values are
// leaves of their own; everything else is one leaf. What a document leaves
// empty, a null or an empty mapping, declares nothing and is no leaf.
type Leaf struct {
	// Path has an element for each key on the way; a key may hold dots.
	Path []string
	// Value is a string, bool, int64 or float64, or a []any of these. The items
	// of a list that holds mappings or lists are map[string]any and []any.
	Value any
}

// Sections returns the names of the top-level sections in their canonical
// order, which is the order of a report. "version" is none of them.
func Sections() []string {
	var names []string
	for _, f := range schema() {
		if f.name != "version" {
			names = append(names, f.name)
		}
	}
	return names
}

// Parse reads one document. An error says why it is no instance document, and
// not where it was read: bad YAML, a key given twice, an empty file, no mapping
// at its top. A document that can be parsed may still be invalid.
func Parse(data []byte) (*Spec, error) {
	root, err := read(data)
	if err != nil {
		return nil, err
	}
	return &Spec{root: root}, nil
}

// Validate returns everything that is wrong with the document, in the order in
// which it is written, each as "<path>: <what is wrong>"; nil when nothing is.
// It looks at the document only, never at a machine or at a secret's file.
func (s *Spec) Validate() []error {
	var errs []error
	if _, ok := s.root.get("version"); !ok {
		errs = append(errs, fmt.Errorf("version: must be %d", Version))
	}
	for _, e := range s.root.entries {
		i := slices.IndexFunc(schema(), func(f field) bool { return f.name == e.key })
		if i < 0 {
			errs = append(errs, fmt.Errorf("%s: unknown top level key", printable(e.key)))
			continue
		}
		errs = append(errs, schema()[i].validate([]string{e.key}, e.value)...)
	}
	return errs
}

// Leaves returns what the document declares, in the order in which it is
// written, without "version", which says nothing about the machine.
func (s *Spec) Leaves() []Leaf {
	var leaves []Leaf
	for _, e := range s.root.entries {
		if e.key != "version" {
			leaves = e.value.leaves(leaves, []string{e.key})
		}
	}
	return leaves
}

// leaves appends the leaves of n, which is at path.
func (n node) leaves(to []Leaf, path []string) []Leaf {
	switch {
	case n.kind == mapping:
		for _, e := range n.entries {
			to = e.value.leaves(to, append(slices.Clone(path), e.key))
		}
	case n.kind == list || n.scalar != nil:
		to = append(to, Leaf{Path: path, Value: n.plain()})
	}
	return to
}
