package nodetest

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync/atomic"

	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/core/host"
	"github.com/tlspu/keel/core/plugin"
)

// A Setting is a handler for tests: a file with a value.
type Setting struct {
	Fail  *error        // what Ensure ends with, after it changed something
	Looks *atomic.Int64 // how often Observe was called
	Calls *atomic.Int64 // how often Ensure was
	Hold  *func()       // what Ensure does before it changes anything
}

// NewSetting has done nothing yet.
func NewSetting() Setting {
	return Setting{new(error), new(atomic.Int64), new(atomic.Int64), new(func())}
}

// Name is "setting".
func (Setting) Name() string { return "setting" }

// Validate is of the handler.
func (Setting) Validate(params map[string]string) error {
	if path := params["path"]; !strings.HasPrefix(path, "/") && !strings.Contains(path, "{{") {
		return errors.New("params.path: must be absolute")
	}
	return nil
}

// Ensure is of the handler.
func (s Setting) Ensure(ctx context.Context, c handler.Call) (bool, error) {
	s.Calls.Add(1)
	if hold := *s.Hold; hold != nil {
		hold()
	}
	mode := fs.FileMode(0o644)
	changed, err := c.Tree.Put(ctx, c.Params["path"], strings.NewReader(c.Params["value"]), host.Attr{Mode: &mode, Parents: 0o755})
	return changed, errors.Join(err, *s.Fail)
}

// Observe is of the handler.
func (s Setting) Observe(_ context.Context, l handler.Look) (declared, observed drift.State, err error) {
	s.Looks.Add(1)
	path := drift.Path{"value"}
	declared = drift.State{{Path: path, Value: l.Params["value"]}}
	data, err := l.Files.Read(l.Params["path"], 1<<20)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return declared, drift.State{{Path: path}}, nil
	case err != nil:
		return declared, drift.State{{Path: path, Value: drift.Unread(err)}}, nil
	}
	return declared, drift.State{{Path: path, Value: string(data)}}, nil
}

// Params is of the handler.
func (Setting) Params() []handler.Param {
	return []handler.Param{{Name: "path"}, {Name: "value", Kind: "text"}}
}

// Claims is of the handler.
func (Setting) Claims(params map[string]string) []string { return []string{"path:" + params["path"]} }

// blind is the same handler for one that cannot look.
type blind struct{ Setting }

func (blind) Name() string { return "blind" }

func (b blind) Ensure(ctx context.Context, root string, params map[string]string) (changed bool, err error) {
	tree, err := host.OpenTree(root)
	if err != nil {
		return false, err
	}
	changed, err = b.Setting.Ensure(ctx, handler.Call{Look: handler.Look{Params: params}, Tree: tree})
	return changed, errors.Join(err, tree.Close())
}

// Handlers is a registry with s, and with "blind", the same for one that cannot look.
func Handlers(s Setting) *plugin.Registry[handler.Handler] {
	r := plugin.NewRegistry[handler.Handler]("handler")
	r.Register("setting", s)
	r.Register("blind", handler.Adapt(blind{s}))
	return r
}

// Doc is a NodeConfig of type setting.
func Doc(name, value string) string {
	return "---\napiVersion: keel.tlspu.io/v1alpha1\nkind: NodeConfig\nmetadata: {name: " + name + "}\n" +
		"spec: {type: setting, params: {path: /etc/" + name + ", value: " + value + "}}\n"
}
