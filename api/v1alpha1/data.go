package v1alpha1

import (
	"encoding/base64"
	"maps"
	"slices"

	"gopkg.in/yaml.v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Data is a ConfigMap or a Secret of a file: what templates may read.
// +kubebuilder:object:generate=false
type Data struct {
	Kind            string // ConfigMapKind or SecretKind
	Namespace, Name string
	UID             types.UID
	ResourceVersion string
	Values          map[string]string // any bytes
}

// Title names it in messages.
func (d *Data) Title() string { return d.Kind + " " + d.Namespace + "/" + d.Name }

// Title is that of the Data that r names, of one of the two kinds.
func (r DataRef) Title(kind string) string {
	return (&Data{Kind: kind, Namespace: r.Namespace, Name: r.Name}).Title()
}

// data reads a ConfigMap or a Secret, as the API server would take it, but for
// unknown keys, which it would ignore.
func (p *parser) data(n *yaml.Node, d *Data) {
	d.Namespace, d.Values = metav1.NamespaceDefault, map[string]string{}
	fields := []field{
		{"apiVersion", true, func(path string, n *yaml.Node) {
			if version, ok := p.text(path, n); ok && version != "v1" {
				p.fail(n, path, "must be v1")
			}
		}},
		{"kind", true, func(string, *yaml.Node) {}},
		{"metadata", true, func(path string, n *yaml.Node) { p.dataMetadata(path, n, d) }},
		{"immutable", false, func(path string, n *yaml.Node) { p.truth(path, n) }},
	}
	text, bytes := map[string]string{}, map[string]string{}
	plain := func(path string, n *yaml.Node) { text = p.values(path, n, false) }
	coded := func(path string, n *yaml.Node) { bytes = p.values(path, n, true) }
	if d.Kind == SecretKind {
		fields = append(fields, field{"type", false, func(path string, n *yaml.Node) { p.text(path, n) }},
			field{"data", false, coded}, field{"stringData", false, plain})
	} else {
		fields = append(fields, field{"data", false, plain}, field{"binaryData", false, coded})
	}
	p.mapping("", n, fields)
	maps.Copy(d.Values, bytes)
	for _, key := range slices.Sorted(maps.Keys(text)) {
		if _, there := bytes[key]; there && d.Kind == ConfigMapKind {
			p.fail(n, "binaryData."+key, "is in data too")
		}
		d.Values[key] = text[key] // a Secret's stringData counts more than its data
	}
}

// dataMetadata takes what `kubectl get -o yaml` writes there, too.
func (p *parser) dataMetadata(path string, n *yaml.Node, d *Data) {
	ignored := func(string, *yaml.Node) {}
	p.mapping(path, n, []field{
		{"name", true, func(path string, n *yaml.Node) {
			name, ok := p.text(path, n)
			switch err := CheckName(name); {
			case ok && err != nil && p.secret:
				p.fail(n, path, "is not a valid name: use lower case letters, digits, '-' and '.', at most 253 characters")
			case ok && err != nil:
				p.check(n, path, err)
			default:
				d.Name = name
			}
		}},
		{"namespace", false, func(path string, n *yaml.Node) {
			var ok bool
			if d.Namespace, ok = p.text(path, n); ok && len(validation.IsDNS1123Label(d.Namespace)) > 0 {
				p.fail(n, path, "is not a valid namespace: use lower case letters, digits and '-', at most 63 characters")
			}
		}},
		{"uid", false, func(path string, n *yaml.Node) {
			uid, _ := p.text(path, n)
			d.UID = types.UID(uid)
		}},
		{"resourceVersion", false, func(path string, n *yaml.Node) { d.ResourceVersion, _ = p.text(path, n) }},
		{"labels", false, ignored}, {"annotations", false, ignored}, {"creationTimestamp", false, ignored},
		{"generation", false, ignored}, {"ownerReferences", false, ignored}, {"finalizers", false, ignored}, {"managedFields", false, ignored},
	})
}

// values reads a mapping of data, or of its base64. Null is an empty one.
func (p *parser) values(path string, n *yaml.Node, coded bool) map[string]string {
	m := map[string]string{}
	if n.ShortTag() == "!!null" {
		return m
	}
	p.pairs(path, n, func(key string, k, v *yaml.Node) {
		at := join(path, key)
		switch {
		case len(validation.IsConfigMapKey(key)) > 0:
			if p.secret { // the key may be text that belongs elsewhere
				at = path
			}
			p.fail(k, at, "is not a key: use letters, digits, '-', '_' and '.', at most 253")
		case !isText(v):
			p.fail(v, at, "must be a string%s", p.hint(key, v))
		case !coded:
			m[key] = v.Value
		default:
			b, err := base64.StdEncoding.DecodeString(v.Value) // line ends do not count
			if err != nil {
				p.fail(v, at, "must be base64, of the standard alphabet and with padding")
			}
			m[key] = string(b)
		}
	})
	return m
}
