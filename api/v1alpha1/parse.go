package v1alpha1

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tlspu/keel/api/document"
)

// later names what this version does not know yet.
const later = "not supported by this version; it comes with the Kubernetes API source"

// A Document is one document of a file.
// +kubebuilder:object:generate=false
type Document struct {
	// NodeConfig is filled as far as the document is sound, for its name. Nothing
	// may be applied from it when Err is set.
	NodeConfig *NodeConfig
	// Err joins everything that is wrong with the document, a line each.
	Err error
}

// ParseNodeConfigs reads a file of NodeConfigs: a stream of YAML documents, or
// JSON. It is strict: unknown and repeated keys, values of a wrong type and
// values that break a rule are errors that give the line in the file and the
// field. Documents that hold nothing are left out. The error is for a file that is
// not YAML from its beginning to its end: nothing of it is returned then, because
// what follows the mistake cannot be told from what is missing.
func ParseNodeConfigs(file []byte) ([]Document, error) {
	nodes, err := document.Nodes(file)
	if err != nil {
		return nil, err
	}
	var docs []Document
	for _, n := range document.Filled(nodes) {
		docs = append(docs, ReadNodeConfig(n))
	}
	return docs, nil
}

// ReadNodeConfig reads a document that document.Nodes gave, as strictly. The
// document is not changed.
func ReadNodeConfig(doc *yaml.Node) Document {
	var p parser
	nc := new(NodeConfig)
	p.document(doc.Content[0], nc)
	return Document{nc, errors.Join(p.problems...)}
}

// ParseNodeConfig reads a file that holds exactly one NodeConfig. One is returned
// beside an error too, as in a Document.
func ParseNodeConfig(file []byte) (*NodeConfig, error) {
	docs, err := ParseNodeConfigs(file)
	switch {
	case err != nil:
		return new(NodeConfig), err
	case len(docs) == 0:
		return new(NodeConfig), errors.New("holds no document")
	case len(docs) > 1:
		return new(NodeConfig), errors.New("holds more than one document")
	}
	return docs[0].NodeConfig, docs[0].Err
}

// A parser walks the nodes of a document and collects what is wrong.
type parser struct{ problems []error }

func (p *parser) fail(n *yaml.Node, path, format string, args ...any) {
	if path != "" {
		path += ": "
	}
	p.problems = append(p.problems, fmt.Errorf("line %d: %s%s", n.Line, path, fmt.Sprintf(format, args...)))
}

// check reports err, when there is one, as found at n.
func (p *parser) check(n *yaml.Node, path string, err error) {
	if err != nil {
		p.fail(n, path, "%s", err)
	}
}

// A field of a mapping and what reads its value.
type field struct {
	key      string
	required bool
	read     func(path string, n *yaml.Node)
}

// document reads a document. Of one that is of another kind it says no more.
func (p *parser) document(n *yaml.Node, nc *NodeConfig) {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if k, v := n.Content[i], n.Content[i+1]; k.Value == "kind" && isText(v) && v.Value != Kind {
			p.fail(v, "kind", "must be %s, not %s", Kind, quote(v.Value))
			return
		}
	}
	p.mapping("", n, []field{
		{"apiVersion", true, func(path string, n *yaml.Node) {
			var ok bool
			if nc.APIVersion, ok = p.text(path, n); ok && nc.APIVersion != GroupVersion.String() {
				p.fail(n, path, "must be %s", GroupVersion)
			}
		}},
		{"kind", true, func(path string, n *yaml.Node) {
			var ok bool
			if nc.Kind, ok = p.text(path, n); ok && nc.Kind != Kind {
				p.fail(n, path, "must be %s", Kind)
			}
		}},
		{"metadata", true, func(path string, n *yaml.Node) { p.metadata(path, n, &nc.ObjectMeta) }},
		{"spec", true, func(path string, n *yaml.Node) { p.spec(path, n, &nc.Spec) }},
		{"status", false, func(path string, n *yaml.Node) {
			p.fail(n, path, "is written by the agent; remove it from the file")
		}},
	})
}

// metadata takes what `kubectl get -o yaml` writes there, too.
func (p *parser) metadata(path string, n *yaml.Node, m *metav1.ObjectMeta) {
	p.mapping(path, n, []field{
		{"name", true, func(path string, n *yaml.Node) {
			name, ok := p.text(path, n)
			if !ok {
				return
			}
			if err := CheckName(name); err != nil {
				p.check(n, path, err)
				return
			}
			m.Name = name
		}},
		{"namespace", false, func(path string, n *yaml.Node) {
			p.fail(n, path, "a NodeConfig belongs to the whole cluster and has no namespace; remove it")
		}},
		{"labels", false, func(path string, n *yaml.Node) { m.Labels = p.texts(path, n) }},
		{"annotations", false, func(path string, n *yaml.Node) { m.Annotations = p.texts(path, n) }},
		{"creationTimestamp", false, func(path string, n *yaml.Node) { m.CreationTimestamp = p.time(path, n) }},
		{"generation", false, func(path string, n *yaml.Node) {
			var generation int64
			if n.ShortTag() != "!!int" || n.Decode(&generation) != nil || generation < 0 {
				p.fail(n, path, "must be a whole number, 0 or more")
				return
			}
			m.Generation = generation
		}},
		{"resourceVersion", false, func(path string, n *yaml.Node) { m.ResourceVersion, _ = p.text(path, n) }},
		{"uid", false, func(path string, n *yaml.Node) {
			uid, _ := p.text(path, n)
			m.UID = types.UID(uid)
		}},
	})
}

func (p *parser) spec(path string, n *yaml.Node, s *NodeConfigSpec) {
	notYet := func(path string, n *yaml.Node) { p.fail(n, path, "%s", later) }
	p.mapping(path, n, []field{
		{"type", true, func(path string, n *yaml.Node) {
			var ok bool
			if s.Type, ok = p.text(path, n); ok && s.Type == "" {
				p.fail(n, path, "must name a handler")
			}
		}},
		{"params", false, func(path string, n *yaml.Node) { s.Params = p.params(path, n) }},
		{"services", false, func(path string, n *yaml.Node) { s.Services = p.units(path, n) }},
		{"interval", false, func(path string, n *yaml.Node) { s.Interval = p.interval(path, n) }},
		{"suspend", false, func(path string, n *yaml.Node) {
			if n.ShortTag() != "!!bool" || n.Decode(&s.Suspend) != nil {
				p.fail(n, path, "must be true or false")
			}
		}},
		{"nodeSelector", false, notYet},
		{"configMaps", false, notYet},
		{"secrets", false, notYet},
	})
}

func (p *parser) params(path string, n *yaml.Node) map[string]string {
	params := p.texts(path, n)
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if k, v := n.Content[i], target(n.Content[i+1]); strings.Contains(v.Value, "{{") {
			p.fail(n.Content[i+1], join(path, k.Value), `a template ("{{") is %s`, later)
		}
	}
	return params
}

func (p *parser) units(path string, n *yaml.Node) []string {
	if n.Kind != yaml.SequenceNode {
		p.fail(n, path, "must be a list of unit names")
		return nil
	}
	var units []string
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		item = target(item)
		if !isText(item) {
			p.fail(item, at, "must be the name of a unit")
			continue
		}
		switch unit := item.Value; {
		case strings.Contains(unit, "{{"):
			p.fail(item, at, `a template ("{{") is %s`, later)
		case slices.Contains(units, unit):
			p.fail(item, at, "%s is listed twice", quote(unit))
		default:
			p.check(item, at, CheckUnit(unit))
			units = append(units, unit)
		}
	}
	return units
}

func (p *parser) interval(path string, n *yaml.Node) *metav1.Duration {
	if n.Kind == yaml.ScalarNode {
		if d, err := time.ParseDuration(n.Value); err == nil {
			p.check(n, path, CheckInterval(d))
			return &metav1.Duration{Duration: d}
		}
	}
	p.fail(n, path, "must be a duration like 30s, 10m or 1h30m")
	return nil
}

// time reads a time stamp; null, which kubectl writes for "none", is the zero.
func (p *parser) time(path string, n *yaml.Node) metav1.Time {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return metav1.Time{}
	}
	t, err := time.Parse(time.RFC3339, n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		p.fail(n, path, "must be a time like 2026-10-15T12:00:00Z")
	}
	return metav1.Time{Time: t}
}

// text reads a string; ok is false where there is none, which is said then.
func (p *parser) text(path string, n *yaml.Node) (text string, ok bool) {
	if !isText(n) {
		p.fail(n, path, "must be a string%s", hint(path[strings.LastIndexByte(path, '.')+1:], n))
		return "", false
	}
	return n.Value, true
}

// texts reads a mapping of strings to strings.
func (p *parser) texts(path string, n *yaml.Node) map[string]string {
	m := map[string]string{}
	p.pairs(path, n, func(key string, _, v *yaml.Node) {
		if isText(v) {
			m[key] = v.Value
			return
		}
		p.fail(v, join(path, key), "must be a string%s", hint(key, v))
	})
	return m
}

// mapping reads the fields of a mapping and refuses every other key.
func (p *parser) mapping(path string, n *yaml.Node, fields []field) {
	seen := map[string]bool{}
	isMapping := p.pairs(path, n, func(key string, k, v *yaml.Node) {
		seen[key] = true
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
		if i < 0 {
			p.fail(k, join(path, key), "unknown key; known are %s", keys(fields))
			return
		}
		fields[i].read(join(path, key), v)
	})
	for _, f := range fields {
		if isMapping && f.required && !seen[f.key] {
			p.fail(n, join(path, f.key), "is missing")
		}
	}
}

// pairs calls each for the keys of a mapping in order, with the value an alias
// stands for. It refuses what is no mapping and keys that are no strings or come
// twice.
func (p *parser) pairs(path string, n *yaml.Node, each func(key string, k, v *yaml.Node)) bool {
	if n.Kind != yaml.MappingNode {
		p.fail(n, path, "must be a mapping of keys to values")
		return false
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := target(n.Content[i]), target(n.Content[i+1])
		if k.ShortTag() == "!!merge" {
			p.fail(k, path, "merge keys (<<) are not taken here; write the keys themselves")
			continue
		}
		if !isText(k) {
			p.fail(k, path, "a key must be a string; put it in quotes")
			continue
		}
		if first, ok := lines[k.Value]; ok {
			p.fail(k, join(path, k.Value), "is there twice, first in line %d", first)
			continue
		}
		lines[k.Value] = k.Line
		each(k.Value, k, v)
	}
	return true
}

// target is the node an alias stands for.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// isText says that a scalar is a string to every reader of YAML. The API server
// reads YAML 1.1, where a plain yes or off is a truth value; yaml.v3 does not.
func isText(n *yaml.Node) bool {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		return false
	}
	plain := n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) == 0
	return !plain || !slices.Contains([]string{"y", "n", "yes", "no", "on", "off"}, strings.ToLower(n.Value))
}

// hint says how to write a scalar as a string. It repeats only what is as short
// as a mode, a port or a truth value: anything longer might be a secret.
func hint(key string, n *yaml.Node) string {
	switch {
	case n.Kind != yaml.ScalarNode:
		return ""
	case len(n.Value) > 5:
		return fmt.Sprintf(", put the value of %s in double quotes", key)
	case n.ShortTag() == "!!null":
		return fmt.Sprintf(`, write %s: ""`, key)
	}
	return fmt.Sprintf(", write %s: %q", key, n.Value)
}

func keys(fields []field) string {
	var names []string
	for _, f := range fields {
		names = append(names, f.key)
	}
	return strings.Join(names, ", ")
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
