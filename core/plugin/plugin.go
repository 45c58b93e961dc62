package plugin

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/handler"
)

// A Doc is one document of an operator: a file, or one part of a file that
// holds several.
type Doc struct {
	// Source names it in messages: "motd.yaml", "all.yaml document 2".
	Source string
	// Data is the document as YAML or JSON. Blank lines stand in front of it for
	// what precedes it in its file, so that a parser's line numbers are the file's.
	Data []byte
	// Tree is what the reader of the file made of Data already, a *yaml.Node as
	// package api/document gives it, or nil. It saves parsing again, and is not changed.
	Tree any
}

// A Kind is one kind of document a backend understands.
type Kind struct {
	Name string // "NodeConfig", "Jail", "Instance"
	// Data names kinds of document that this kind's documents refer to. They are
	// handed over with them; Targets makes one only of those that cannot be used.
	Data []string
	// Validate judges documents without looking at a machine. It returns one
	// entry a document, nil where it is fine; an entry may join several errors.
	// Warnings go to env.Log.
	Validate func(ctx context.Context, env Env, docs []Doc) []error
	// Targets turns documents, all of them at once, into targets on this machine,
	// in document order. A document that cannot be used becomes a target whose
	// Observe returns why, so that others go on; the error is for "none of them".
	Targets func(ctx context.Context, env Env, docs []Doc) ([]drift.Target, error)
	// Apply, when set, hands them to an agent or server instead of ensuring Targets.
	Apply func(ctx context.Context, env Env, docs []Doc) error
}

// A Role is a subcommand of a backend, as typed: "node-agent", "spec apply".
// Where two backends have one Role, --backend chooses, before flags are parsed,
// and only the chosen one's settings exist.
type Role struct {
	Name    string
	Summary string // one line of help, lower case, no full stop
	Long    string // the help's text, of lines of 80; empty: Summary
	Example string // command lines, each after two spaces
	// Args says what may follow the flags and is handed over in Env.Args, as in
	// the line of usage: "[FACT...]". Empty: nothing may, and what does is an error.
	Args string
	// Settings returns a pointer to a struct whose values are the defaults. Its
	// exported fields of type string, bool, int, time.Duration and []string with
	// tags make flags, environment variables and file keys:
	//
	//	Dir string `flag:"config-dir" usage:"read NodeConfigs from this folder"`
	//
	// Embedded structs are walked. A struct that reaches a machine is an
	// OnMachine. Nil: the Role has no settings.
	Settings func() any
	// Run does the work; settings is what Settings returned, filled in. When ctx
	// ends because the program was told to stop it finishes what it is writing,
	// and returns nil when everything is in order.
	Run func(ctx context.Context, env Env, settings any) error
}

// OnMachine is a settings struct of a Role that works on a machine: Env.Root,
// Env.Run and Env.Handlers are made from what it returns. An execMode of "" is
// "auto".
type OnMachine interface {
	Machine() (root, execMode string)
}

// A Backend is one kind of machine: kubernetes, jail, appliance. It is a
// description, put together in plugins/all from Roles and Kinds of several
// packages, so that help and docs come from the same place as the code.
type Backend struct {
	Name, Summary string
	Kinds         []Kind
	Roles         []Role
}

// Env is everything the outside world gives a backend.
type Env struct {
	Root     string // the machine's root folder, absolute; "/" is this machine
	Run      func(root string) command.Runner
	Handlers *Registry[handler.Handler]
	In       io.Reader
	// Out is standard output. The first error of a write ends the program with the exit
	// code for lost output, after Run: nobody else need look at it.
	Out, Err io.Writer
	Args     []string // what is left of the command line
	Version  string   // of the program
	Now      func() time.Time
	Log      *slog.Logger
	// Note is given one sentence on a target that an operator should know of and that
	// is no error; nil drops it.
	Note        func(target, sentence string)
	UID         int           // effective user
	LockTimeout time.Duration // how long to wait for the machine's lock
	Facts       string        // file of what the machine itself cannot know; empty: none
	// AllowUnknownParams accepts a parameter of a NodeConfig that looks like a typing
	// error of a known one.
	AllowUnknownParams bool
}

// A Set is the full content of one binary.
type Set struct {
	Backends *Registry[Backend]
	// Handlers makes the handlers once it is known how commands reach a root.
	Handlers func(run func(root string) command.Runner) *Registry[handler.Handler]
}

// AddHandler adds one handler to the set: how a private build brings its own.
// make is called when it is known how commands reach a root.
func (s *Set) AddHandler(make func(run func(root string) command.Runner) handler.Handler) {
	before := s.Handlers
	s.Handlers = func(run func(root string) command.Runner) *Registry[handler.Handler] {
		r := before(run)
		h := make(run)
		r.Register(h.Name(), h)
		return r
	}
}
