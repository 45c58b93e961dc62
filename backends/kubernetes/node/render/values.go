package render

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tlspu/keel/backends/kubernetes/node/facts"
)

// Values in templates are string, bool, int, float64, []string, map[string]string,
// []map[string]string and, with parts that are looked up by name:
type parts interface {
	// part gives the part of a name. The error may show name: it stands in the
	// NodeConfig.
	part(name string) (any, error)
	// has says whether there is a part of a name, unless nobody knows. The error
	// may show nothing: name may come from anywhere.
	has(name string) (bool, error)
}

// hooks are the functions that compile puts into templates.
func (r *Run) hooks() map[string]any {
	return map[string]any{fieldHook: r.field, emitHook: r.emit, rangeHook: r.each}
}

// field looks a value up by the names of its parts, one within the other.
func (r *Run) field(from any, names ...string) (any, error) {
	path := ""
	if _, ok := from.(*root); ok {
		path = "."
	}
	for i, name := range names {
		var err error
		switch v := from.(type) {
		case *object:
			if v == nil {
				return nil, &problem{safe: true, text: fmt.Sprintf("%s is optional and not there, so it has no %q: ask first, as in {{ with … }}",
					path+strings.Join(names[:i], "."), name)}
			}
			from, err = v.part(name)
		case parts:
			from, err = v.part(name)
		case map[string]string:
			text, ok := v[name]
			if !ok {
				err = fmt.Errorf("%s has no key %q", orThis(path+strings.Join(names[:i], ".")), name)
			}
			from = text
		default:
			err = fmt.Errorf("%s is %s and has no %q", orThis(path+strings.Join(names[:i], ".")), kind(v), name)
		}
		if own := (*problem)(nil); err != nil && !errors.As(err, &own) {
			err = &problem{text: err.Error(), safe: true}
		}
		if err != nil {
			return nil, err
		}
	}
	if err := r.spend(size(from)); err != nil {
		return nil, err
	}
	return from, nil
}

func orThis(path string) string {
	if path == "" || path == "." {
		return "this value"
	}
	return path
}

// size is about what it costs to look a value up: maps are copied.
func size(v any) int {
	if m, ok := v.(map[string]string); ok {
		return 64 * len(m)
	}
	return 0
}

// emit gives the text of a value that is written.
func (r *Run) emit(v any) (string, error) {
	text, ok := scalar(v)
	if !ok {
		return "", &problem{safe: true, text: kind(v) + " cannot be written: name a part of it, repeat it with range, or use toYaml or toJson"}
	}
	return text, nil
}

// each lets a value be repeated, rounds of which run cost actions each.
func (r *Run) each(cost int, v any) (any, error) {
	rounds := 0
	switch list := v.(type) {
	case *object:
		m := list.values()
		v, rounds = m, len(m)
	case []string:
		rounds = len(list)
	case []map[string]string:
		rounds = len(list)
	case map[string]string:
		rounds = len(list)
	default:
		return nil, &problem{safe: true, text: "range over " + kind(v) + " is refused: only lists and mappings are repeated"}
	}
	return v, r.step(times(rounds, cost))
}

// scalar is the text of a value that is one text, number or truth value.
func scalar(v any) (text string, ok bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case int:
		return strconv.Itoa(v), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	}
	return "", false
}

// kind names what a value is, and nothing of what it holds.
func kind(v any) string {
	switch v.(type) {
	case nil:
		return "nothing"
	case string:
		return "a text"
	case bool:
		return "a truth value"
	case int, float64:
		return "a number"
	case []string, []map[string]string:
		return "a list"
	case map[string]string, *object:
		return "a mapping"
	case parts:
		return "a group"
	}
	return fmt.Sprintf("a %T", v)
}

// root is what templates begin with.
type root struct{ run *Run }

func (d *root) part(name string) (any, error) {
	switch name {
	case "Node", "OS", "Kernel", "Cluster":
		return section{&d.run.data.Facts, name}, nil
	case "ConfigMaps":
		return group{name, "spec.configMaps", d.run.data.ConfigMaps}, nil
	case "Secrets":
		d.run.secret = true
		return group{name, "spec.secrets", d.run.data.Secrets}, nil
	}
	return nil, fmt.Errorf("there is no .%s: use .Node, .OS, .Kernel, .Cluster, .ConfigMaps or .Secrets", name)
}

func (d *root) has(name string) (bool, error) {
	_, err := d.part(name)
	return err == nil, nil
}

// A section is a group of facts.
type section struct {
	facts *facts.Facts
	name  string
}

func (s section) part(name string) (any, error) {
	v, err := s.facts.Lookup(s.name + "." + name)
	if addresses, ok := v.([]facts.Address); ok {
		list := make([]map[string]string, len(addresses))
		for i, a := range addresses {
			list[i] = map[string]string{"Type": a.Type, "Address": a.Address}
		}
		return list, nil
	}
	return v, err
}

func (s section) has(name string) (bool, error) {
	_, err := s.facts.Lookup(s.name + "." + name)
	if missing := (*facts.Missing)(nil); errors.As(err, &missing) && missing.Reason == "" {
		return false, nil // and that is known
	}
	if err != nil {
		return false, failure("hasKey", "%v", err)
	}
	return true, nil
}

// A group is the ConfigMaps or the Secrets of a NodeConfig.
type group struct {
	name, list string
	objects    []Object
}

func (g group) part(name string) (any, error) {
	for i := range g.objects {
		if o := &g.objects[i]; o.As == name && o.Absent {
			return (*object)(nil), nil
		} else if o.As == name {
			return (*object)(o), nil
		}
	}
	return nil, fmt.Errorf("there is no .%s.%s: %s lists nothing as %q", g.name, name, g.list, name)
}

func (g group) has(name string) (bool, error) {
	v, err := g.part(name)
	if err != nil {
		return false, failure("hasKey", "%v", err)
	}
	return v != (*object)(nil), nil
}

// An object is one ConfigMap or Secret; nil is an optional one that is not there.
type object Object

func (o *object) values() map[string]string {
	if o == nil {
		return map[string]string{}
	}
	return o.Values
}

func (o *object) part(name string) (any, error) {
	v, ok := o.values()[name]
	if !ok {
		return nil, fmt.Errorf("%s has no key %q", o.Title, name)
	}
	return v, nil
}

func (o *object) has(name string) (bool, error) {
	_, ok := o.values()[name]
	return ok, nil
}
