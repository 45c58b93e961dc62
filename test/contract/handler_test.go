package contract

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/core/host"
)

// tool is a handler that keeps to the contract, but for what a test changes: it
// installs a tool by a command and gives it a settings file.
type tool struct {
	params   []handler.Param
	claims   []string
	validate func(params map[string]string) error
	ensure   func(h *tool, ctx context.Context, c handler.Call) (changed bool, err error)
	observe  func(h *tool, ctx context.Context, l handler.Look) (declared, observed drift.State, err error)
}

func newTool() *tool {
	return &tool{
		params: []handler.Param{
			{Name: "name", Kind: "string", Required: true, Help: "The tool."},
			{Name: "settings", Kind: "text", Help: "What its settings file holds."},
		},
		claims:   []string{"tool:x", "path:/etc/tool"},
		validate: judgeTool,
		ensure:   (*tool).install,
		observe:  (*tool).look,
	}
}

func (*tool) Name() string                              { return "tool" }
func (h *tool) Params() []handler.Param                 { return h.params }
func (h *tool) Claims(map[string]string) []string       { return h.claims }
func (h *tool) Validate(params map[string]string) error { return h.validate(params) }
func (h *tool) Ensure(ctx context.Context, c handler.Call) (bool, error) {
	return h.ensure(h, ctx, c)
}

func (h *tool) Observe(ctx context.Context, l handler.Look) (declared, observed drift.State, err error) {
	return h.observe(h, ctx, l)
}

func judgeTool(params map[string]string) error {
	if params["name"] == "" {
		return errors.New("name: is missing")
	}
	return nil
}

// has asks the machine; only exit code 1 means that it has not.
func has(ctx context.Context, run command.Runner, name string) (bool, error) {
	_, err := run.Run(ctx, command.Cmd{Argv: []string{"has", name}, Query: true})
	exit := new(command.ExitError)
	if errors.As(err, &exit) && exit.Code == 1 {
		return false, nil
	}
	return err == nil, err
}

func (h *tool) look(ctx context.Context, l handler.Look) (declared, observed drift.State, err error) {
	if err := h.validate(l.Params); err != nil {
		return nil, nil, err
	}
	installed, err := has(ctx, l.Query, l.Params["name"])
	if err != nil {
		return nil, nil, err
	}
	text, err := l.Files.Read("/etc/tool", 1<<20)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, err
	}
	return drift.State{leaf(true, "installed"), leaf(drift.NewSecret([]byte(l.Params["settings"])), "settings")},
		drift.State{leaf(installed, "installed"), leaf(drift.NewSecret(text), "settings")}, nil
}

func (h *tool) install(ctx context.Context, c handler.Call) (changed bool, err error) {
	if err := errors.Join(h.validate(c.Params), ctx.Err()); err != nil {
		return false, err
	}
	installed, err := has(ctx, c.Run, c.Params["name"])
	if err != nil {
		return false, err
	}
	changed, err = c.Tree.Put(ctx, "/etc/tool", strings.NewReader(c.Params["settings"]), host.Attr{Parents: 0o755})
	if err != nil || installed {
		return changed, err
	}
	if _, err := c.Run.Run(ctx, command.Cmd{Argv: []string{"add", c.Params["name"]}}); err != nil {
		return changed, err
	}
	return true, nil
}

// toolMachine keeps what is installed as files below root.
type toolMachine struct{ root string }

func (m toolMachine) Run(ctx context.Context, c command.Cmd) ([]byte, error) {
	path := filepath.Join(m.root, "lib/tools", c.Argv[1])
	switch c.Argv[0] {
	case "has":
		if _, err := os.Stat(path); err != nil {
			return nil, &command.ExitError{Cmd: c, Code: 1}
		}
		return nil, nil
	case "add":
		return nil, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644))
	}
	return nil, fmt.Errorf("run %s: no such command", c)
}

func brokenHandlers() map[string]struct {
	change func(h *tool)
	want   string // in the suite's output; empty: the suite passes
} {
	return map[string]struct {
		change func(h *tool)
		want   string
	}{
		"good": {func(*tool) {}, ""},
		"says changed each time": {func(h *tool) {
			h.ensure = func(h *tool, ctx context.Context, c handler.Call) (bool, error) {
				_, err := h.install(ctx, c)
				return err == nil, err
			}
		}, "call 2: got true"},
		"says unchanged each time": {func(h *tool) {
			h.ensure = func(h *tool, ctx context.Context, c handler.Call) (bool, error) {
				_, err := h.install(ctx, c)
				return false, err
			}
		}, "call 1: got false"},
		"names no key": {func(h *tool) {
			h.validate = func(params map[string]string) error {
				if judgeTool(params) != nil {
					return errors.New("it is not good")
				}
				return nil
			}
		}, "want one that names name"},
		"accepts what is missing": {func(h *tool) { h.validate = func(map[string]string) error { return nil } }, "want one that names name"},
		"refuses extra keys": {func(h *tool) {
			h.validate = func(params map[string]string) error {
				if len(params) > 2 {
					return errors.New("noSuchKey: is not known")
				}
				return judgeTool(params)
			}
		}, "with an extra key"},
		"judges templates": {func(h *tool) {
			h.validate = func(params map[string]string) error {
				if strings.Contains(params["name"], "{{") {
					return errors.New("name: is strange")
				}
				return judgeTool(params)
			}
		}, "not rendered yet"},
		"describes no settings":      {func(h *tool) { h.params = h.params[:1] }, "which Params does not describe"},
		"describes what nobody uses": {func(h *tool) { h.params = append(h.params, handler.Param{Name: "colour", Kind: "string", Help: "x"}) }, "used by no good case"},
		"has an odd kind":            {func(h *tool) { h.params[0].Kind = "colour" }, "of no known kind"},
		"has no help":                {func(h *tool) { h.params[0].Help = "" }, "needs help"},
		"claims nothing":             {func(h *tool) { h.claims = nil }, "it claims nothing"},
		"claims too little":          {func(h *tool) { h.claims = h.claims[:1] }, "/etc/tool changed and is claimed by none"},
		"claims in no form":          {func(h *tool) { h.claims = append(h.claims, "tool") }, "has not the form"},
		"writes outside of root": {func(h *tool) {
			h.ensure = func(h *tool, ctx context.Context, c handler.Call) (bool, error) {
				changed, err := h.install(ctx, c)
				_, outside := c.Run.Run(ctx, command.Cmd{Argv: []string{"add", "../../../etc/tool"}})
				return changed, errors.Join(err, outside)
			}
		}, "outside of root: /etc"},
		"takes a failed question for an answer": {func(h *tool) {
			h.observe = func(h *tool, ctx context.Context, l handler.Look) (declared, observed drift.State, err error) {
				declared, observed, err = h.look(ctx, l)
				if err != nil && h.validate(l.Params) == nil && ctx.Err() == nil {
					declared = drift.State{leaf(true, "installed")}
					return declared, declared, nil
				}
				return declared, observed, err
			}
		}, "query 1 failed and installed is"},
		"forgets a failed command": {func(h *tool) {
			h.ensure = func(h *tool, ctx context.Context, c handler.Call) (bool, error) {
				changed, err := h.install(ctx, c)
				if changed {
					return changed, nil
				}
				return changed, err
			}
		}, "command 2 failed and Ensure did not"},
		"forgets a change when a command fails": {func(h *tool) {
			h.ensure = func(h *tool, ctx context.Context, c handler.Call) (bool, error) {
				changed, err := h.install(ctx, c)
				return changed && err == nil, err
			}
		}, "changed is false, want true"},
		"does not hear of cancel": {func(h *tool) {
			h.ensure = func(h *tool, ctx context.Context, c handler.Call) (bool, error) {
				return h.install(context.WithoutCancel(ctx), c)
			}
		}, "want false and the context's error"},
		"shows what it looks at": {func(h *tool) {
			h.observe = func(h *tool, ctx context.Context, l handler.Look) (declared, observed drift.State, err error) {
				declared, observed, err = h.look(ctx, l)
				if err == nil {
					declared[1].Value = l.Params["settings"]
				}
				return declared, observed, err
			}
		}, "the value of settings shows"},
		"does not do what it says": {func(h *tool) {
			h.ensure = func(h *tool, ctx context.Context, c handler.Call) (bool, error) {
				c.Params = map[string]string{"name": c.Params["name"], "settings": "something else"}
				return h.install(ctx, c)
			}
		}, "after Ensure not all is the same"},
		"changes what it was given": {func(h *tool) {
			h.ensure = func(h *tool, ctx context.Context, c handler.Call) (bool, error) {
				c.Params["seen"] = "yes"
				return h.install(ctx, c)
			}
		}, "Ensure wrote to the params"},
	}
}

// TestHandler_catches runs the suite in a process of its own on handlers that
// break one rule each.
func TestHandler_catches(t *testing.T) {
	for name, b := range brokenHandlers() {
		t.Run(name, func(t *testing.T) {
			if os.Getenv("KEEL_TEST_BROKEN") == name {
				toolSuite(t, b.change)
				return
			}
			out, err := child(t, name)
			switch {
			case b.want == "" && err != nil:
				t.Errorf("the suite fails: %v\n%s", err, out)
			case b.want != "" && err == nil:
				t.Errorf("the suite passes, want %q", b.want)
			case !strings.Contains(out, b.want):
				t.Errorf("the suite does not say %q:\n%s", b.want, out)
			}
		})
	}
}

func toolSuite(t *testing.T, change func(*tool)) {
	page := filepath.Join(t.TempDir(), "page.md")
	h := newTool()
	change(h)
	if err := os.WriteFile(page, []byte(Table(h.params)), 0o600); err != nil {
		t.Fatal(err)
	}
	Handler(t, Handlers{
		New: func() handler.Handler {
			h := newTool()
			change(h)
			return h
		},
		Machine: func(_ testing.TB, root string) command.Runner { return toolMachine{root} },
		Doc:     page,
		May:     []string{"/lib/tools"},
		Good: []Good{
			{Name: "new", Params: map[string]string{"name": "x", "settings": "colour = blue\n"}},
			{Name: "sensitive", Params: map[string]string{"name": "x", "settings": "token = 1234\n"}, Sensitive: true},
		},
		Bad: []Bad{{Name: "no name", Key: "name", Params: map[string]string{"settings": "x"}}},
	})
}
