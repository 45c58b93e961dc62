// Package handler is the plug-in contract: what a kind of setting must offer
// (Handler), what it should tell of itself (Described), the least that a private
// build must bring (Plain), and how one becomes a target of the engine (Machine).
package handler

import (
	"context"
	"slices"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/host"
)

// A Handler brings one kind of setting on one machine to the state its parameters
// describe. It remembers nothing between calls.
type Handler interface {
	// Name is the value of spec.type: lower case, frozen once released.
	Name() string
	// Validate checks parameters without touching the machine and names the
	// offending key. A value that still holds "{{" is not judged.
	Validate(params map[string]string) error
	// Observe looks without touching, and returns both sides in comparable form:
	// parameters that are policy and not state appear on neither. After a successful
	// Ensure the two are the same.
	Observe(ctx context.Context, l Look) (declared, observed drift.State, err error)
	// Ensure makes the machine match the parameters and reports whether it had to
	// change anything; called again it returns false, nil. On error changed still tells
	// the truth. A *drift.Wait says that it cannot be done now, such as while another
	// program holds a lock, and is no failure.
	Ensure(ctx context.Context, c Call) (changed bool, err error)
}

// A Look is what a handler is given to look at a machine.
type Look struct {
	ID     string            // of the target
	Params map[string]string // with templates filled; not to be changed
	Files  *host.View
	Query  command.Runner // refuses what is no query; equal ones are asked once, until something changed
	// Sensitive says that parameters came from a Secret or are marked sensitive: their
	// content is redacted everywhere and files are private.
	Sensitive bool
	// Others lists what other targets claim, as Described.Claims has it. known is false
	// while there may be more: a handler must not take for unclaimed what is not listed.
	Others func() (claims []string, known bool)
}

// A Call is what a handler is given to change a machine. It belongs to the call, and
// the caller holds the machine's lock.
type Call struct {
	Look
	Tree *host.Tree
	Run  command.Runner
	// Note gives the operator one sentence on what is worth knowing and no error. It
	// never holds content. What Tree notes goes there too.
	Note func(sentence string)

	root string
}

// Param describes one parameter; help, docs, warnings and explain come from it.
// Kind is one of string, text, bool, int, duration, mode, path, user, list, enum:a|b|c.
type Param struct {
	Name, Kind, Default, Help string
	Required                  bool
}

// Described tells what a handler takes, and what on the machine it will own, the
// thing it is about first: "package:nginx"; "path:/etc/motd" is that name itself,
// "file:/etc/motd" the file it leads to. Two owners of one thing are refused. Every
// handler in plugins/all is Described.
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
