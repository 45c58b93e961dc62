package appliance

import (
	"fmt"
	"slices"
	"strings"
)

// A field is one key of the schema: a mapping with exactly these keys, a value
// that check judges, or content that this version does not judge yet.
type field struct {
	name  string
	keys  []field
	check func(n node) []string // what is wrong; never called with an empty node
	open  openness
}

type openness uint8

const (
	closed openness = iota
	anyMapping
	anyValue
)

// schema is the whole shape of a document, in canonical order.
func schema() []field {
	return []field{
		{name: "version", check: isVersion},
		{name: "instance", keys: []field{
			{name: "hostname", check: isDomain},
			{name: "fqdn", check: isDomain},
		}},
		{name: "network", keys: []field{
			{name: "managed_by", check: isOneOf("host", "file")},
			{name: "interfaces", open: anyMapping},
			{name: "nameservers", check: isAddressList},
			{name: "overlay", open: anyMapping},
		}},
		{name: "tls", open: anyMapping},
		{name: "secrets", open: anyMapping},
		{name: "app", open: anyMapping},
		{name: "hub", open: anyMapping},
		{name: "security", open: anyMapping},
		{name: "first_login_wizard", open: anyValue},
		{name: "preseed", open: anyMapping},
		{name: "users", open: anyMapping},
		{name: "locale", open: anyMapping},
		{name: "database", open: anyMapping},
		{name: "monitor", open: anyMapping},
		{name: "appliance", open: anyMapping},
		{name: "installation", open: anyMapping},
		{name: "overlays", open: anyMapping},
		{name: "firewall", open: anyMapping},
		{name: "cloud", open: anyMapping},
	}
}

// validate returns everything that is wrong with n, which is at path.
func (f field) validate(path []string, n node) []error {
	at := func(path []string, what string) error { return fmt.Errorf("%s: %s", join(path), what) }
	switch {
	case f.name == "version" || f.check != nil && !n.empty():
		var errs []error
		for _, what := range f.check(n) {
			errs = append(errs, at(path, what))
		}
		return errs
	case f.check != nil || f.open == anyValue || n.empty():
		return nil
	case n.kind != mapping:
		return []error{at(path, "must be a mapping")}
	case f.open == anyMapping:
		return nil
	}
	var errs []error
	for _, e := range n.entries {
		below := append(slices.Clone(path), e.key)
		i := slices.IndexFunc(f.keys, func(k field) bool { return k.name == e.key })
		if i < 0 {
			errs = append(errs, at(below, "unknown key; known are "+strings.Join(names(f.keys), ", ")))
			continue
		}
		errs = append(errs, f.keys[i].validate(below, e.value)...)
	}
	return errs
}

func names(fields []field) []string {
	list := make([]string, len(fields))
	for i, f := range fields {
		list[i] = f.name
	}
	return list
}

// join prints a path for people, as documents are written about.
func join(path []string) string {
	words := make([]string, len(path))
	for i, key := range path {
		words[i] = printable(key)
	}
	return strings.Join(words, ".")
}
