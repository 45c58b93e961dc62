// Package plugin is the registry: which backends and handlers one binary holds,
// and what the outside world gives them.
package plugin

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Registry maps a name from configuration to one thing of kind T. It is
// filled before work starts and only read afterwards, then safe for concurrent
// use. There is no global one.
type Registry[T any] struct {
	kind  string
	items map[string]T
}

// NewRegistry returns an empty registry; kind is the noun used in errors.
func NewRegistry[T any](kind string) *Registry[T] {
	return &Registry[T]{kind: kind, items: map[string]T{}}
}

// Register adds item. An empty or taken name is a mistake in the program: it
// panics.
func (r *Registry[T]) Register(name string, item T) {
	if name == "" {
		panic("plugin: register " + r.kind + ": empty name")
	}
	if _, taken := r.items[name]; taken {
		panic("plugin: register " + r.kind + " " + name + ": name is taken")
	}
	r.items[name] = item
}

// Lookup returns the item, or an error that lists the names that would work.
func (r *Registry[T]) Lookup(name string) (t T, err error) {
	t, ok := r.items[name]
	if !ok {
		return t, Unknown(r.kind, name, r.Names())
	}
	return t, nil
}

// Names returns the names in alphabetical order.
func (r *Registry[T]) Names() []string {
	return slices.Sorted(maps.Keys(r.items))
}

// Unknown is the error for a name that is none of names; it lists those that
// would work. kind is the noun: `unknown handler "fiel": use file or package`.
func Unknown(kind, name string, names []string) error {
	if len(names) == 0 {
		return fmt.Errorf("unknown %s %q: this binary has none", kind, name)
	}
	list := names[0]
	if last := len(names) - 1; last > 0 {
		list = strings.Join(names[:last], ", ") + " or " + names[last]
	}
	return fmt.Errorf("unknown %s %q: use %s", kind, name, list)
}
