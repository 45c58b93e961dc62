package v1alpha1

import (
	"fmt"
	"slices"
	"time"

	"gopkg.in/yaml.v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (p *parser) spec(path string, n *yaml.Node, s *NodeConfigSpec) {
	p.mapping(path, n, []field{
		{"type", true, func(path string, n *yaml.Node) {
			var ok bool
			if s.Type, ok = p.text(path, n); ok && s.Type == "" {
				p.fail(n, path, "must name a handler")
			}
		}},
		{"params", false, func(path string, n *yaml.Node) {
			if p.atMost(path, n, len(n.Content)/2, MaxParams) {
				s.Params = p.texts(path, n)
			}
		}},
		{"services", false, func(path string, n *yaml.Node) {
			if p.atMost(path, n, len(n.Content), MaxServices) {
				s.Services = p.units(path, n)
			}
		}},
		{"interval", false, func(path string, n *yaml.Node) { s.Interval = p.interval(path, n) }},
		{"nodeSelector", false, func(path string, n *yaml.Node) { s.NodeSelector = p.selector(path, n) }},
		{"configMaps", false, func(path string, n *yaml.Node) { s.ConfigMaps = p.refs(path, n) }},
		{"secrets", false, func(path string, n *yaml.Node) { s.Secrets = p.refs(path, n) }},
		{"suspend", false, func(path string, n *yaml.Node) { s.Suspend = p.truth(path, n) }},
	})
}

// atMost refuses what holds more than it may; nothing of it need be read then.
func (p *parser) atMost(path string, n *yaml.Node, count, most int) bool {
	if count > most {
		p.fail(n, path, "holds %d, at most %d", count, most)
	}
	return count <= most
}

func (p *parser) truth(path string, n *yaml.Node) (b bool) {
	if n.ShortTag() != "!!bool" || n.Decode(&b) != nil {
		p.fail(n, path, "must be true or false")
	}
	return b
}

// list calls each for the items of a list of what.
func (p *parser) list(path string, n *yaml.Node, what string, each func(path string, n *yaml.Node)) {
	if n.Kind != yaml.SequenceNode {
		p.fail(n, path, "must be a list of %s", what)
		return
	}
	for i, item := range n.Content {
		each(fmt.Sprintf("%s[%d]", path, i), target(item))
	}
}

func (p *parser) units(path string, n *yaml.Node) (units []string) {
	p.list(path, n, "unit names", func(at string, item *yaml.Node) {
		if !isText(item) {
			p.fail(item, at, "must be the name of a unit")
			return
		}
		switch unit := item.Value; {
		case slices.Contains(units, unit):
			p.fail(item, at, "%s is listed twice", quote(unit))
		case IsTemplate(unit) && len(unit) > MaxUnitTemplate:
			p.fail(item, at, "the template is too long, at most %d characters", MaxUnitTemplate)
		case IsTemplate(unit):
			units = append(units, unit)
		default:
			p.check(item, at, CheckUnit(unit))
			units = append(units, unit)
		}
	})
	return units
}

// selector reads a selector of nodes; null is none.
func (p *parser) selector(path string, n *yaml.Node) *metav1.LabelSelector {
	if n.ShortTag() == "!!null" {
		return nil
	}
	s := new(metav1.LabelSelector)
	before := len(p.problems)
	p.mapping(path, n, []field{
		{"matchLabels", false, func(path string, n *yaml.Node) { s.MatchLabels = p.texts(path, n) }},
		{"matchExpressions", false, func(path string, n *yaml.Node) {
			p.list(path, n, "{key, operator, values}", func(at string, item *yaml.Node) {
				var r metav1.LabelSelectorRequirement
				p.mapping(at, item, []field{
					{"key", true, func(path string, n *yaml.Node) { r.Key, _ = p.text(path, n) }},
					{"operator", true, func(path string, n *yaml.Node) {
						operator, _ := p.text(path, n)
						r.Operator = metav1.LabelSelectorOperator(operator)
					}},
					{"values", false, func(path string, n *yaml.Node) {
						p.list(path, n, "strings", func(at string, n *yaml.Node) {
							value, _ := p.text(at, n)
							r.Values = append(r.Values, value)
						})
					}},
				})
				s.MatchExpressions = append(s.MatchExpressions, r)
			})
		}},
	})
	if len(p.problems) == before {
		p.check(n, path, CheckSelector(s))
	}
	return s
}

// refs reads a list of references to ConfigMaps or Secrets.
func (p *parser) refs(path string, n *yaml.Node) (refs []DataRef) {
	if !p.atMost(path, n, len(n.Content), MaxRefs) {
		return nil
	}
	p.list(path, n, "{namespace, name, as, optional}", func(at string, item *yaml.Node) {
		var r DataRef
		before := len(p.problems)
		p.mapping(at, item, []field{
			{"namespace", true, func(path string, n *yaml.Node) { r.Namespace, _ = p.text(path, n) }},
			{"name", true, func(path string, n *yaml.Node) { r.Name, _ = p.text(path, n) }},
			{"as", true, func(path string, n *yaml.Node) { r.As, _ = p.text(path, n) }},
			{"optional", false, func(path string, n *yaml.Node) { r.Optional = p.truth(path, n) }},
		})
		switch {
		case len(p.problems) > before:
		case slices.ContainsFunc(refs, func(other DataRef) bool { return other.As == r.As }):
			p.fail(item, join(at, "as"), "%s is there twice", quote(r.As))
		default:
			p.check(item, at, CheckRef(r))
		}
		refs = append(refs, r)
	})
	return refs
}

func (p *parser) interval(path string, n *yaml.Node) *metav1.Duration {
	if n.Kind == yaml.ScalarNode {
		if d, err := time.ParseDuration(n.Value); err == nil {
			p.check(n, path, CheckInterval(d))
			return &metav1.Duration{Duration: d}
		}
	}
	p.fail(n, path, "must be a duration from 10s to 8760h, like 30s, 10m or 1h30m")
	return nil
}
