// Package example is a handler to copy. It manages one symlink, is compiled
// and tested like any other, and is in no binary. docs/develop/adding-a-type.md
// walks through it.
package example

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/handler"
)

// Handler manages a symlink.
type Handler struct{}

// New returns the handler.
func New() Handler { return Handler{} }

// Name is "symlink".
func (Handler) Name() string { return "symlink" }

// Params describes what the handler takes.
func (Handler) Params() []handler.Param {
	return []handler.Param{
		{Name: "path", Kind: "path", Required: true, Help: "Where the symlink is."},
		{Name: "target", Kind: "string", Required: true, Help: "What the symlink says, as it is: nothing has to be there."},
	}
}

// Claims is the path.
func (Handler) Claims(params map[string]string) []string { return []string{"path:" + params["path"]} }

// Validate names what is missing or wrong, without looking at a machine. A value
// that is still a template is not judged; Observe and Ensure judge them all.
func (Handler) Validate(params map[string]string) error {
	return judge(params, func(value string) bool { return strings.Contains(value, "{{") })
}

func judge(params map[string]string, skip func(value string) bool) error {
	var errs []error
	if p := params["path"]; !skip(p) && (!path.IsAbs(p) || path.Clean(p) != p) {
		errs = append(errs, fmt.Errorf(`path: %q must be absolute and in its shortest form, as in "/etc/localtime"`, p))
	}
	if t := params["target"]; t == "" {
		errs = append(errs, errors.New("target: is missing: say what the symlink leads to"))
	}
	return errors.Join(errs...)
}

func rendered(string) bool { return false }

// Observe looks and changes nothing. What cannot be read is unknown, never absent.
func (Handler) Observe(_ context.Context, l handler.Look) (declared, observed drift.State, err error) {
	if err := judge(l.Params, rendered); err != nil {
		return nil, nil, err
	}
	var found any
	text, err := l.Files.Readlink(l.Params["path"])
	info, statErr := l.Files.Lstat(l.Params["path"])
	switch {
	case err == nil:
		found = text
	case errors.Is(statErr, fs.ErrNotExist): // nil says that there is none
	case statErr == nil && info.Mode().Type() != fs.ModeSymlink:
		found = "no link"
	default:
		found = drift.Unread(err)
	}
	leaf := drift.Path{"target"}
	return drift.State{{Path: leaf, Value: l.Params["target"]}}, drift.State{{Path: leaf, Value: found}}, nil
}

// Ensure makes it so and says whether it had to.
func (Handler) Ensure(ctx context.Context, c handler.Call) (changed bool, err error) {
	if err := errors.Join(judge(c.Params, rendered), ctx.Err()); err != nil {
		return false, err
	}
	return c.Tree.Symlink(c.Params["target"], c.Params["path"])
}
