package facts

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tlspu/keel/api/document"
)

// Parse reads the facts that a person gives: a mapping of the groups node, os,
// kernel and cluster in YAML or JSON, with the names of the facts in lower case.
//
//	node:
//	  name: web-1
//	  labels: {role: web}
//	  externalIP: null # this node has none
//
// null says that there is none; what is left out is not known. It is strict:
// unknown and repeated keys and values of a wrong type are errors that give the
// line, all of them at once. Beside it or instead, the file may hold a Node and the
// namespace kube-system as kubectl prints them.
func Parse(data []byte) (Facts, error) {
	f, given := Given(), Given()
	docs, err := document.Nodes(data)
	if err != nil {
		return f, err
	}
	p := reader{unread: given.Unread}
	seen := map[string]bool{}
	for _, doc := range document.Filled(docs) {
		n := doc.Content[0]
		kind := kindOf(n)
		switch {
		case seen[kind]:
			p.fail(n, "", "a second document of this kind; give one of facts, one Node, one Namespace")
		case kind == "":
			p.value("", n, reflect.ValueOf(&given).Elem(), "")
		case kind == "Node" || kind == "Namespace":
			p.object(kind, n, &f)
		default:
			p.fail(n, "kind", "must be Node or Namespace, or the keys of facts be given without a kind")
		}
		seen[kind] = true
	}
	for _, fact := range f.Add(given) {
		p.problems = append(p.problems, fmt.Errorf(".%s: is another one in the object of the same file", fact))
	}
	return f, errors.Join(p.problems...)
}

// A reader fills a struct from a document and collects what is wrong.
type reader struct {
	unread   map[string]string
	problems []error
}

func (p *reader) fail(n *yaml.Node, path, format string, args ...any) {
	if path != "" {
		path += ": "
	}
	p.problems = append(p.problems, fmt.Errorf("line %d: %s%s", n.Line, path, fmt.Sprintf(format, args...)))
}

// pairs calls do for the keys of a mapping. It refuses what is none, and keys
// that are no text or come twice.
func (p *reader) pairs(n *yaml.Node, path string, do func(key string, k, v *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		p.fail(n, path, "must be a mapping of keys to values")
		return
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		first, twice := lines[k.Value]
		switch {
		case k.Kind != yaml.ScalarNode || k.ShortTag() != "!!str":
			p.fail(k, path, "a key must be a string; put it in quotes")
		case twice:
			p.fail(k, join(path, k.Value), "is there twice, first in line %d", first)
		case v.Kind == yaml.AliasNode:
			p.fail(v, join(path, k.Value), "is an alias; write the value itself")
		default:
			lines[k.Value] = k.Line
			do(k.Value, k, v)
		}
	}
}

// group reads a mapping into the fields of a struct: of all facts, of a group of
// them, or of an address.
func (p *reader) group(path string, n *yaml.Node, to reflect.Value) {
	var known []string
	for i := range to.NumField() {
		if key := to.Type().Field(i).Tag.Get("json"); key != "-" {
			known = append(known, key)
		}
	}
	p.pairs(n, path, func(key string, k, v *yaml.Node) {
		i := slices.Index(known, key)
		if i < 0 {
			p.fail(k, join(path, key), "unknown key; known are %s", strings.Join(known, ", "))
			return
		}
		p.value(join(path, key), v, to.Field(i), to.Type().Name()+"."+to.Type().Field(i).Name)
	})
}

// value reads one value; fact is its name.
func (p *reader) value(path string, n *yaml.Node, to reflect.Value, fact string) {
	if n.ShortTag() == "!!null" && to.Kind() != reflect.Struct && !strings.HasPrefix(fact, "Address.") {
		p.unread[fact] = ""
		return
	}
	switch v := to.Addr().Interface().(type) {
	case *string:
		*v = p.text(path, n)
	case *map[string]string:
		*v = p.texts(path, n, fact)
		p.none(fact, len(*v))
	case *[]Address:
		*v = p.addresses(path, n)
		p.none(fact, len(*v))
	default:
		if n.ShortTag() != "!!null" { // nothing is given
			p.group(path, n, to)
		}
	}
}

// none notes that a list or a map is known to be empty.
func (p *reader) none(fact string, size int) {
	if size == 0 {
		p.unread[fact] = ""
	}
}

func (p *reader) text(path string, n *yaml.Node) string {
	switch {
	case n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str":
		p.fail(n, path, "must be a string; put it in quotes")
	case n.Value == "":
		p.fail(n, path, "is empty: write null where there is none, leave it out where you do not know")
	}
	return n.Value
}

func (p *reader) texts(path string, n *yaml.Node, fact string) map[string]string {
	m := map[string]string{}
	p.pairs(n, path, func(key string, k, v *yaml.Node) {
		at := join(path, key)
		if v.Kind != yaml.ScalarNode || v.ShortTag() != "!!str" {
			p.fail(v, at, "must be a string; put it in quotes")
			return
		}
		m[key] = v.Value
		if fact != "Node.Labels" {
			return
		}
		for _, wrong := range validation.IsQualifiedName(key) {
			p.fail(k, at, "is no key of a label: %s", wrong)
		}
		for _, wrong := range validation.IsValidLabelValue(v.Value) {
			p.fail(v, at, "is no value of a label: %s", wrong)
		}
	})
	return m
}

func (p *reader) addresses(path string, n *yaml.Node) []Address {
	if n.Kind != yaml.SequenceNode {
		p.fail(n, path, "must be a list of {type, address}")
		return nil
	}
	list := make([]Address, len(n.Content))
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		before := len(p.problems)
		p.group(at, item, reflect.ValueOf(&list[i]).Elem())
		if len(p.problems) == before && (list[i].Type == "" || list[i].Address == "") {
			p.fail(item, at, "must have type and address")
		}
	}
	return list
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
