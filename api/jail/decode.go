package jail

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/tlspu/keel/api/document"
)

// A decoder fills a struct from a YAML tree and notes everything that does not
// fit, by path, where yaml.v3 alone would stop or keep silent.
type decoder struct {
	errs  []*FieldError
	lines map[string]int // of every value, by path
}

// single returns the one document in data.
func single(data []byte) (*yaml.Node, error) {
	nodes, err := document.Nodes(data)
	nodes = document.Filled(nodes)
	switch {
	case err != nil:
		return nil, &FieldError{Category: Syntax, Reason: err.Error()}
	case len(nodes) == 0:
		return nil, &FieldError{Category: Syntax, Reason: "the document is empty"}
	case len(nodes) > 1:
		return nil, &FieldError{Category: Syntax, Line: nodes[1].Line, Reason: "a second document begins: put it into a file of its own"}
	}
	return nodes[0].Content[0], nil
}

// decode fills the struct that into points to.
func decode(node *yaml.Node, into any) *decoder {
	d := &decoder{lines: map[string]int{}}
	d.value(node, reflect.ValueOf(into).Elem(), "")
	return d
}

func (d *decoder) fail(c Category, line int, path, value, reason string) {
	d.errs = append(d.errs, &FieldError{Category: c, Path: path, Line: line, Value: value, Reason: reason})
}

// failed reports that the value at path, or one that it lies in, was not read.
func (d *decoder) failed(path string) bool {
	return slices.ContainsFunc(d.errs, func(e *FieldError) bool {
		rest, ok := strings.CutPrefix(path, e.Path)
		return ok && (rest == "" || e.Path == "" || rest[0] == '.' || rest[0] == '[')
	})
}

func (d *decoder) value(n *yaml.Node, v reflect.Value, path string) {
	line := n.Line
	d.lines[path] = line
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch v.Kind() {
	case reflect.Struct:
		if n.Kind != yaml.MappingNode {
			d.fail(WrongType, line, path, n.Value, "must be a mapping of fields")
			return
		}
		d.fields(n, v, path)
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			d.fail(WrongType, line, path, n.Value, "must be a list")
			return
		}
		list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
		for i, item := range n.Content {
			d.value(item, list.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
		v.Set(list)
	default:
		if reason := scalar(n, v); reason != "" {
			d.fail(WrongType, line, path, n.Value, reason)
		}
	}
}

// fields fills a struct. A key it does not have, a key given twice and a
// required key that is not there, or null, are errors.
func (d *decoder) fields(n *yaml.Node, v reflect.Value, path string) {
	t := v.Type()
	index := map[string]int{}
	var names []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		index[name], names = i, append(names, name)
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := below(path, key.Value)
		field, known := index[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode || !known:
			d.fail(UnknownField, key.Line, at, "", "there is no such field: known here are "+strings.Join(names, ", "))
		case seen[key.Value]:
			d.fail(TwiceGiven, key.Line, at, "", "is given twice: keep one")
		case value.ShortTag() == "!!null":
		default:
			d.value(value, v.Field(field), at)
			seen[key.Value] = true
		}
	}
	for i, name := range names {
		if !seen[name] && !strings.HasSuffix(t.Field(i).Tag.Get("yaml"), ",omitempty") {
			d.fail(MissingField, n.Line, below(path, name), "", "is missing")
		}
	}
}

// scalar sets v, or says why n does not fit.
func scalar(n *yaml.Node, v reflect.Value) string {
	if n.Kind != yaml.ScalarNode {
		return "must be one value, not a list or a mapping"
	}
	tag := n.ShortTag()
	if v.Kind() == reflect.Bool {
		if tag != "!!bool" {
			return "must be true or false"
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
		return ""
	}
	_, number := v.Interface().(interface{ number() })
	if tag != "!!str" && (!number || tag != "!!int" && tag != "!!float") {
		return "must be a string: write it in quotes"
	}
	v.SetString(n.Value)
	return ""
}

func below(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
