package appliance

import (
	"slices"
	"strings"

	apispec "github.com/tlspu/keel/api/appliance"
	"github.com/tlspu/keel/core/drift"
)

// text is a value as trimmed text, so that 3306 equals "3306"; a list is one of
// such texts.
func text(v any) any {
	return each(v, strings.TrimSpace)
}

// domain is a domain name without regard to case and to dots at its end.
func domain(v any) any {
	return each(v, func(s string) string { return strings.ToLower(strings.TrimRight(strings.TrimSpace(s), ".")) })
}

// addresses is a list of addresses in canonical form, in order and each once, as
// readers give them. An empty list is the same as none.
func addresses(v any) any {
	v = each(v, func(s string) string {
		if a, err := apispec.ParseAddress(strings.TrimSpace(s)); err == nil {
			return a.String()
		}
		return strings.TrimSpace(s)
	})
	list, ok := v.([]string)
	switch {
	case !ok:
		return v
	case len(list) == 0:
		return nil
	}
	var once []string
	for _, a := range list {
		if !slices.Contains(once, a) {
			once = append(once, a)
		}
	}
	return once
}

// each brings a value, or each item of a list, to another text. What is no
// value stays as it is.
func each(v any, form func(string) string) any {
	switch v := v.(type) {
	case []string:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = form(item)
		}
		return items
	case string, bool, int64, float64:
		return form(drift.Text(v))
	}
	return v
}
