// Package handler is the plug-in contract: what a kind of setting must offer
// (Handler), what it should offer (Observer, Described), and how it becomes a
// target of the engine (Target, Opaque).
package handler

import (
	"context"
	"slices"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/host"
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

// An Observer also looks without touching, and returns both sides in
// comparable form: parameters that are policy and not state appear on neither.
// After a successful Ensure the two are the same.
type Observer interface {
	Handler
	Observe(ctx context.Context, m Machine, params map[string]string) (declared, observed drift.State, err error)
}

// Param describes one parameter; help, docs, warnings and explain come from it.
// Kind is one of string, text, bool, int, duration, mode, path, user, list, enum:a|b|c.
type Param struct {
	Name, Kind, Default, Help string
	Required                  bool
}

// Described tells what a handler takes, and what on the machine it will own, the
// thing it is about first: "package:nginx"; "path:/etc/motd" is that name itself,
// "file:/etc/motd" the file it leads to. Two owners of one thing are refused.
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

// Machine is a machine that can only be looked at.
type Machine struct {
	Files *host.View
	Run   command.Runner // read-only, one Pass

	pass *command.Pass
}

// NewMachine looks at files, and asks run for queries only. Equal queries are
// asked once, until Forget.
func NewMachine(files *host.View, run command.Runner) Machine {
	pass := command.NewPass(run)
	return Machine{Files: files, Run: command.NewReadOnly(pass), pass: pass}
}

// Forget drops the answers that Run remembers: after anything was changed, and
// when a new pass begins.
func (m Machine) Forget() {
	if m.pass != nil {
		m.pass.Forget()
	}
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
