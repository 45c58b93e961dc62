package appliance

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/tlspu/keel/api/document"
)

type kind uint8

const (
	scalar kind = iota
	list
	mapping
)

// A node is one value of a document with aliases and merge keys resolved.
type node struct {
	kind    kind
	scalar  any // nil, string, bool, int64 or float64
	items   []node
	entries []entry // in document order, each key once
}

type entry struct {
	key   string
	value node
}

func (n node) get(key string) (node, bool) {
	for _, e := range n.entries {
		if e.key == key {
			return e.value, true
		}
	}
	return node{}, false
}

// empty reports that n declares nothing.
func (n node) empty() bool {
	switch n.kind {
	case mapping:
		return len(n.entries) == 0
	case list:
		return false
	}
	return n.scalar == nil
}

// plain returns n as Go values.
func (n node) plain() any {
	switch n.kind {
	case list:
		items := make([]any, 0, len(n.items))
		for _, item := range n.items {
			items = append(items, item.plain())
		}
		return items
	case mapping:
		entries := make(map[string]any, len(n.entries))
		for _, e := range n.entries {
			entries[e.key] = e.value.plain()
		}
		return entries
	}
	return n.scalar
}

// read parses data into the mapping at its top.
func read(data []byte) (node, error) {
	nodes, err := document.Nodes(data)
	nodes = document.Filled(nodes)
	switch {
	case err != nil:
		return node{}, err
	case len(nodes) == 0:
		return node{}, errors.New("file is empty")
	case len(nodes) > 1:
		return node{}, notYAML("line %d: a second document", nodes[1].Line)
	}
	root, err := readNode(nodes[0].Content[0])
	switch {
	case err != nil:
		return node{}, err
	case root.kind == scalar && root.scalar == nil:
		return node{}, errors.New("file is empty")
	case root.kind != mapping:
		return node{}, errors.New("top level must be a mapping")
	}
	return root, nil
}

// notYAML never quotes a value of the document: it may be a secret.
func notYAML(format string, args ...any) error {
	return fmt.Errorf("not valid YAML: "+format, args...)
}

// readNode reads a value; document.Nodes has bounded its depth and its aliases.
func readNode(y *yaml.Node) (node, error) {
	switch y.Kind {
	case yaml.AliasNode:
		return readNode(y.Alias)
	case yaml.SequenceNode:
		if tag := y.ShortTag(); tag != "!!seq" {
			return node{}, unknownTag(y)
		}
		n := node{kind: list}
		for _, c := range y.Content {
			item, err := readNode(c)
			if err != nil {
				return node{}, err
			}
			n.items = append(n.items, item)
		}
		return n, nil
	case yaml.MappingNode:
		if tag := y.ShortTag(); tag != "!!map" {
			return node{}, unknownTag(y)
		}
		return readMapping(y)
	}
	value, err := scalarValue(y)
	return node{scalar: value}, err
}

func readMapping(y *yaml.Node) (node, error) {
	own, err := ownKeys(y)
	if err != nil {
		return node{}, err
	}
	n := node{kind: mapping}
	for i := 0; i+1 < len(y.Content); i += 2 {
		value, err := readNode(y.Content[i+1])
		if err != nil {
			return node{}, err
		}
		key := keyOf(y.Content[i])
		if key.Tag != "!!merge" {
			n.entries = append(n.entries, entry{key.Value, value})
			continue
		}
		if n.entries, err = merge(n.entries, own, value); err != nil {
			return node{}, notYAML("line %d: %w", key.Line, err)
		}
	}
	return n, nil
}

// keyOf follows the alias that a key may be.
func keyOf(y *yaml.Node) *yaml.Node {
	if y.Kind == yaml.AliasNode {
		return y.Alias
	}
	return y
}

// ownKeys returns the keys written in y itself, each with its line.
func ownKeys(y *yaml.Node) (map[string]int, error) {
	own := map[string]int{}
	for i := 0; i+1 < len(y.Content); i += 2 {
		key, line := keyOf(y.Content[i]), y.Content[i].Line
		if key.Kind != yaml.ScalarNode {
			return nil, notYAML("line %d: a key must be a word", line)
		}
		if first, ok := own[key.Value]; ok {
			return nil, notYAML("line %d: the key %s is already given on line %d", line, printable(key.Value), first)
		}
		own[key.Value] = line
	}
	return own, nil
}

// merge adds what "<<: from" stands for. A key written beside it wins, and of
// several mappings the first that has the key.
func merge(entries []entry, own map[string]int, from node) ([]entry, error) {
	mappings := []node{from}
	if from.kind == list {
		mappings = from.items
	}
	for _, m := range mappings {
		if m.kind != mapping {
			return nil, errors.New("<< takes a mapping or a list of mappings")
		}
		for _, e := range m.entries {
			_, written := own[e.key]
			if !written && !slices.ContainsFunc(entries, func(have entry) bool { return have.key == e.key }) {
				entries = append(entries, e)
			}
		}
	}
	return entries, nil
}

// scalarValue returns what y says under the YAML 1.2 core schema. A date, and a
// number that neither an int64 nor a finite float64 holds, stays the text it was.
func scalarValue(y *yaml.Node) (any, error) {
	switch y.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool":
		var b bool
		if y.Decode(&b) != nil {
			return nil, notYAML("line %d: not true or false", y.Line)
		}
		return b, nil
	case "!!int":
		var v any
		if y.Decode(&v) != nil {
			return nil, notYAML("line %d: not a number", y.Line)
		}
		if i, ok := v.(int); ok {
			return int64(i), nil
		}
		return y.Value, nil
	case "!!float":
		var f float64
		if y.Decode(&f) != nil {
			return nil, notYAML("line %d: not a number", y.Line)
		}
		if math.IsInf(f, 0) || math.IsNaN(f) {
			return y.Value, nil
		}
		return f, nil
	case "!!str", "!!timestamp", "!!merge":
		return y.Value, nil
	}
	return nil, unknownTag(y)
}

func unknownTag(y *yaml.Node) error {
	return notYAML("line %d: unknown tag %s", y.Line, printable(y.Tag))
}
