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

// A Document is one document of a file: a NodeConfig, or data for templates.
// +kubebuilder:object:generate=false
type Document struct {
	// NodeConfig is filled as far as the document is sound, for its name. Nothing
	// may be applied from it when Err is set. It is nil beside Data.
	NodeConfig *NodeConfig
	// Data is a ConfigMap or Secret, filled as far as the document is sound.
	Data *Data
	// Err joins everything that is wrong with the document, a line each.
	Err error
}

// Parse reads a file of NodeConfigs, ConfigMaps and Secrets: a stream of YAML
// documents, or JSON. It is strict: unknown and repeated keys, values of a wrong
// type and values that break a rule are errors that give the line in the file and
// the field. Documents that hold nothing are left out. The error is for a file
// that is not YAML from its beginning to its end: nothing of it is returned then,
// because what follows the error cannot be distinguished from what is missing.
func Parse(file []byte) ([]Document, error) {
	nodes, err := document.Nodes(file)
	if err != nil {
		return nil, err
	}
	var docs []Document
	for _, n := range document.Filled(nodes) {
		docs = append(docs, Read(n))
	}
	return docs, nil
}

// Read reads a document that document.Nodes gave, as strictly. The document is
// not changed.
func Read(doc *yaml.Node) Document {
	n := doc.Content[0]
	switch kind, _ := kindOf(n); kind {
	case ConfigMapKind, SecretKind:
		p := parser{secret: kind == SecretKind}
		data := &Data{Kind: kind}
		p.data(n, data)
		return Document{Data: data, Err: p.err()}
	}
	var p parser
	nc := new(NodeConfig)
	p.document(n, nc)
	return Document{NodeConfig: nc, Err: p.err()}
}

// ParseOne reads a file that holds exactly one document.
func ParseOne(file []byte) Document {
	docs, err := Parse(file)
	switch {
	case err != nil:
	case len(docs) == 0:
		err = errors.New("holds no document")
	case len(docs) > 1:
		err = errors.New("holds more than one document")
	default:
		return docs[0]
	}
	return Document{NodeConfig: new(NodeConfig), Err: err}
}

// kindOf is the kind that a document says it is of, or "", and where.
func kindOf(n *yaml.Node) (kind string, at *yaml.Node) {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if k, v := n.Content[i], target(n.Content[i+1]); k.Value == "kind" && isText(v) {
			return v.Value, v
		}
	}
	return "", n
}

// ErrRepeatedKey is in the error of a document that has a key twice: what it says
// cannot be read, as opposed to being invalid.
var ErrRepeatedKey = errors.New("is there twice")

// A parser walks the nodes of a document and collects what is wrong.
type parser struct {
	problems []error // the first maxProblems
	more     int     // problems beyond these
	secret   bool    // messages show no value, however short
}

// maxProblems is how many errors of one document are listed.
const maxProblems = 100

// err joins what is wrong.
func (p *parser) err() error {
	if p.more > 0 {
		p.problems = append(p.problems, fmt.Errorf("and %d more errors", p.more))
	}
	return errors.Join(p.problems...)
}

func (p *parser) fail(n *yaml.Node, path, format string, args ...any) {
	if len(p.problems) == maxProblems {
		p.more++
		return
	}
	if path != "" {
		path += ": "
	}
	p.problems = append(p.problems, fmt.Errorf("line %d: %s%w", n.Line, path, fmt.Errorf(format, args...)))
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
	if kind, at := kindOf(n); kind != "" && kind != Kind {
		p.fail(at, "kind", "must be %s, %s or %s, not %s", Kind, ConfigMapKind, SecretKind, quote(kind))
		return
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
		p.fail(n, path, "must be a string%s", p.hint(path[strings.LastIndexByte(path, '.')+1:], n))
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
		p.fail(v, join(path, key), "must be a string%s", p.hint(key, v))
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
			at := join(path, key)
			if p.secret { // its keys are fixed: another may be text that belongs elsewhere
				at = path
			}
			p.fail(k, at, "unknown key; known are %s", keys(fields))
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
			p.fail(k, join(path, k.Value), "%w, first in line %d", ErrRepeatedKey, first)
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
func (p *parser) hint(key string, n *yaml.Node) string {
	switch {
	case n.Kind != yaml.ScalarNode:
		return ""
	case len(n.Value) > 5 || p.secret:
		return fmt.Sprintf(", put the value of %s in double quotes", key)
	case n.ShortTag() == "!!null":
		return fmt.Sprintf(`, write %s: ""`, key)
	case key == "ensure" && n.ShortTag() == "!!bool":
		return ", write ensure: present or ensure: absent"
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
