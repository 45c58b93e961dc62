// Package handler is the plug-in contract: what a kind of setting must offer
// (Handler), what it should offer (Described), and how it becomes a target of
// the engine (Opaque).
package handler

import (
	"context"
	"slices"
)

// A Handler brings one kind of setting on one machine to the state its
// parameters describe. It keeps nothing between calls.
type Handler interface {
	// Name is the value of spec.type: lower case, frozen once released.
	Name() string
	// Validate checks parameters without touching the machine and names the
	// offending key. A value that still holds "{{" is not judged.
	Validate(params map[string]string) error
	// Ensure makes the machine at root match params and reports whether it had
	// to change anything; called again it returns false, nil. On error changed
	// still tells the truth.
	Ensure(ctx context.Context, root string, params map[string]string) (changed bool, err error)
}

// Param describes one parameter; help, docs, warnings and explain come from it.
// Kind is one of string, text, bool, int, duration, mode, path, user, list, enum:a|b|c.
type Param struct {
	Name, Kind, Default, Help string
	Required                  bool
}

// Described tells what a handler takes, and what on the machine it will own:
// "path:/etc/motd", "package:nginx". Two owners of one claim are refused.
type Described interface {
	Params() []Param
	Claims(params map[string]string) []string
}

// Unknown lists, in alphabetical order, the keys of params that d does not
// take. They are accepted and have no effect, which is worth a warning.
func Unknown(d Described, params map[string]string) []string {
	var unknown []string
	for key := range params {
		if !slices.ContainsFunc(d.Params(), func(p Param) bool { return p.Name == key }) {
			unknown = append(unknown, key)
		}
	}
	slices.Sort(unknown)
	return unknown
}

type sensitiveKey struct{}

// WithSensitive marks a call whose parameters came from a Secret or are marked
// sensitive: content is withheld everywhere and files are private.
func WithSensitive(ctx context.Context) context.Context {
	return context.WithValue(ctx, sensitiveKey{}, true)
}

// Sensitive reports that mark.
func Sensitive(ctx context.Context) bool {
	marked, _ := ctx.Value(sensitiveKey{}).(bool)
	return marked
}
