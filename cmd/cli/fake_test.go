package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/core/plugin"
)

// bench is a machine that lives in a map, a backend that keeps it, and the
// command line in front of both.
type bench struct {
	reach func(root string) command.Runner // what handlers were made with last
	t     *testing.T
	uid   int
	in    io.Reader
	dir   string // an empty folder: the root, and where documents are written
	ctx   context.Context
	mu    sync.Mutex
	have  map[string]string
	// settings of the last role that ran, and the Env it was given
	settings any
	env      plugin.Env
	during   func() // called within a step
	looking  func() // called within Observe
	judging  func() // called within Validate and Targets
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, in: strings.NewReader(""), dir: t.TempDir(), ctx: t.Context(), have: map[string]string{}}
	t.Setenv("KEEL_CONFIG", b.write("keel.conf", ""))
	return b
}

// write makes a file below the bench's folder and returns its path.
func (b *bench) write(name, content string) string {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// run executes one command line.
func (b *bench) run(args ...string) (code int, stdout, stderr string) {
	b.t.Helper()
	var out, errs safeBuffer
	code = b.app(&out, &errs, args...).run(b.ctx)
	return code, out.String(), errs.String()
}

func (b *bench) app(out, errs io.Writer, args ...string) *app {
	return &app{
		set: b.set(), args: args, in: b.in,
		out: &output{w: out}, err: errs,
		now: func() time.Time { return time.Unix(1, 0) }, uid: b.uid,
	}
}

// safeBuffer may be written by what a command left behind.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

func (b *bench) set() plugin.Set {
	backends := plugin.NewRegistry[plugin.Backend]("backend")
	backends.Register("notes", plugin.Backend{
		Name: "notes", Summary: "notes in a map",
		Kinds: []plugin.Kind{
			{Name: "Note", Validate: b.validate, Targets: b.targets},
			{Name: "Instance", Validate: b.validate, Targets: b.instance},
			{Name: "Order", Validate: b.validate, Apply: b.hand},
		},
		Roles: []plugin.Role{
			{Name: "note-agent", Summary: "keep notes", Args: "[NOTE...]", Settings: func() any { return &agentSettings{Dir: "/notes", Every: time.Minute, Count: 3, Root: b.dir} }, Run: b.role},
			{Name: "note apply", Summary: "apply a note", Args: "[NOTE...]", Run: b.role},
			{Name: "serve", Summary: "serve notes", Settings: func() any { return &noteServer{Port: 1} }, Run: b.role},
		},
	})
	backends.Register("sheets", plugin.Backend{
		Name: "sheets", Summary: "sheets of paper",
		Roles: []plugin.Role{{Name: "serve", Summary: "serve sheets", Settings: func() any { return &sheetServer{} }, Run: b.role}},
	})
	return plugin.Set{Backends: backends, Handlers: func(run func(string) command.Runner) *plugin.Registry[handler.Handler] {
		r := plugin.NewRegistry[handler.Handler]("handler")
		b.reach = run
		r.Register("stamp", handler.Adapt(stamp{}))
		return r
	}}
}

type common struct {
	Verbose bool `flag:"verbose" usage:"say more"`
}

type agentSettings struct {
	common
	Dir   string        `flag:"dir" usage:"read notes from here"`
	Every time.Duration `flag:"every" usage:"time between two passes"`
	Count int           `flag:"count" usage:"how many"`
	Tags  []string      `flag:"tag" usage:"only these"`
	Root  string        `flag:"root" usage:"the machine"`
	inner string        // without a tag: no setting
}

func (s *agentSettings) Machine() (root, execMode string) { return s.Root, "" }

type noteServer struct {
	Port int `flag:"port" usage:"listen here"`
}

type sheetServer struct {
	Paper string `flag:"paper" usage:"format" enum:"a4|letter"`
}

func (b *bench) role(_ context.Context, env plugin.Env, settings any) error {
	b.env, b.settings = env, settings
	env.Log.Info("ran", "args", env.Args)
	switch strings.Join(env.Args, " ") {
	case "fail":
		return &plugin.Exit{Code: 31, Err: errors.New("conflict")}
	case "give up":
		return fmt.Errorf("wait for a part of it: %w", context.Canceled)
	}
	return nil
}

// note is what a document of the bench holds.
type note struct {
	Kind    string
	Version int
	Name    string
	Want    *string // nil: not applied, only compared
	Invalid string
	Broken  string // an error of Observe
	Unknown string
	Skip    string // why it is not compared
	Remark  string // a note at the drift
	Fail    string
}

func parse(doc plugin.Doc) (n note, err error) {
	if err := yaml.Unmarshal(doc.Data, &n); err != nil {
		return n, &plugin.Exit{Code: 2, Err: err}
	}
	if n.Invalid != "" {
		var errs []error
		for text := range strings.SplitSeq(n.Invalid, ",") {
			errs = append(errs, errors.New(text))
		}
		return n, &plugin.Exit{Code: 3, Err: errors.Join(errs...)}
	}
	return n, nil
}

func (b *bench) validate(_ context.Context, env plugin.Env, docs []plugin.Doc) []error {
	if b.judging != nil {
		b.judging()
	}
	errs := make([]error, len(docs))
	for i, doc := range docs {
		n, err := parse(doc)
		errs[i] = err
		if n.Remark != "" {
			env.Log.Warn("remarkable", "source", doc.Source, "remark", n.Remark)
		}
	}
	return errs
}

func (b *bench) targets(_ context.Context, env plugin.Env, docs []plugin.Doc) ([]drift.Target, error) {
	b.env = env
	if b.judging != nil {
		b.judging()
	}
	var targets []drift.Target
	for _, doc := range docs {
		n, err := parse(doc)
		t := &noteTarget{b, n, err}
		if err != nil {
			n.Name = doc.Source
			targets = append(targets, bare{&noteTarget{b, n, err}})
			continue
		}
		if n.Want == nil {
			targets = append(targets, bare{t})
			continue
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// bare is a target that can only be compared.
type bare struct{ drift.Target }

func (b *bench) instance(_ context.Context, _ plugin.Env, docs []plugin.Doc) ([]drift.Target, error) {
	n, err := parse(docs[0])
	if err == nil && n.Version != 1 {
		err = &plugin.Exit{Code: 3, Err: errors.New("version: must be 1")}
	}
	if err != nil {
		return nil, err
	}
	n.Name = "instance"
	return []drift.Target{bare{&noteTarget{b, n, nil}}}, nil
}

func (b *bench) hand(_ context.Context, _ plugin.Env, docs []plugin.Doc) error {
	for _, doc := range docs {
		n, err := parse(doc)
		if err != nil {
			return err
		}
		b.have[n.Name] = "ordered"
	}
	return nil
}

type noteTarget struct {
	b   *bench
	n   note
	err error
}

func (t *noteTarget) ID() string { return t.n.Name }

func (t *noteTarget) Observe(context.Context) (declared, observed drift.State, err error) {
	if t.b.looking != nil {
		t.b.looking()
	}
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	if t.err != nil {
		return nil, nil, t.err
	}
	if t.n.Broken != "" {
		return nil, nil, errors.New(t.n.Broken)
	}
	var want any
	if t.n.Want != nil {
		want = *t.n.Want
	}
	path := drift.Path{t.n.Name, "text"}
	if t.n.Kind == "Note" {
		path = drift.Path{"text"}
	}
	if t.n.Skip != "" {
		want = drift.Skip{Reason: t.n.Skip}
	}
	declared = drift.State{{Path: path, Value: want}}
	var have any
	if text, ok := t.b.have[t.n.Name]; ok {
		have = text
	}
	if t.n.Unknown != "" {
		have = drift.Unknown{Kind: drift.Permission, Reason: t.n.Unknown}
	}
	return declared, drift.State{{Path: path, Value: have}}, nil
}

func (t *noteTarget) Compare(declared, observed drift.State) drift.Report {
	r := drift.Compare(declared, observed)
	for i := range r {
		if r[i].Verdict == drift.Drift {
			r[i].Note = t.n.Remark
		}
	}
	return r
}

func (t *noteTarget) Plan(context.Context, drift.Report) ([]drift.Step, error) {
	return []drift.Step{{
		Text:   fmt.Sprintf("write %s %q", t.n.Name, *t.n.Want),
		Writes: []drift.Path{{}},
		Do: func(ctx context.Context) (bool, error) {
			if t.b.during != nil {
				t.b.during()
			}
			if t.n.Fail != "" {
				return false, errors.New(t.n.Fail)
			}
			t.b.mu.Lock()
			defer t.b.mu.Unlock()
			t.b.have[t.n.Name] = *t.n.Want
			return true, ctx.Err()
		},
	}}, nil
}

type stamp struct{}

func (stamp) Name() string                                                    { return "stamp" }
func (stamp) Validate(map[string]string) error                                { return nil }
func (stamp) Ensure(context.Context, string, map[string]string) (bool, error) { return false, nil }
func (stamp) Claims(map[string]string) []string                               { return nil }
func (stamp) Params() []handler.Param {
	return []handler.Param{
		{Name: "path", Kind: "path", Required: true, Help: "where"},
		{Name: "ink", Kind: "enum:blue|black", Default: "blue", Help: "colour of the ink; either is kept dry, in the dark, and far away from whatever the pen may be"},
	}
}
