// Package file keeps whole files: content byte for byte, mode, owner and group,
// or that there is no such file.
package file

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/core/host"
)

const (
	freshMode   fs.FileMode = 0o644 // of new content when no mode is named
	privateMode fs.FileMode = 0o600 // the same for sensitive content
	parentMode  fs.FileMode = 0o755 // of folders that are missing on the way
)

// Handler keeps one file. It runs no commands and keeps nothing between calls.
type Handler struct{}

// New returns the handler.
func New() Handler { return Handler{} }

// Name is "file".
func (Handler) Name() string { return "file" }

// Params describes what the handler takes.
func (Handler) Params() []handler.Param {
	return []handler.Param{
		{Name: "path", Kind: "path", Required: true,
			Help: `The file: an absolute path in its shortest form, of less than 4096 bytes.`},
		{Name: "content", Kind: "text",
			Help: `What the file holds, byte for byte: no newline is added or taken, and "" makes an empty file. A present file needs either content or contentBase64, an absent one takes neither.`},
		{Name: "contentBase64", Kind: "text",
			Help: `The content in base64 (standard alphabet, with padding), for bytes that YAML cannot hold.`},
		{Name: "mode", Kind: "mode",
			Help: `Permissions in octal, as in "0644", without special bits. Left out, new and replaced content gets 0644 (0600 when it is sensitive), and a file whose content is right keeps its mode.`},
		{Name: "owner", Kind: "user",
			Help: `The owner by name, from the machine's own etc/passwd, or by number. Left out, a replaced file keeps its owner.`},
		{Name: "group", Kind: "string",
			Help: `The group by name, from the machine's own etc/group, or by number. Left out, a replaced file keeps its group.`},
		{Name: "ensure", Kind: "enum:present|absent", Default: "present",
			Help: `Whether the file is there. With absent a symlink is removed itself, not what it leads to.`},
		{Name: "link", Kind: "enum:follow|replace|refuse", Default: "follow",
			Help: `What is done when path is a symlink: keep the file it leads to, put a file in its place, or refuse.`},
	}
}

// Claims is the path, and the file it leads to where a link is followed.
func (Handler) Claims(params map[string]string) []string {
	claims := []string{"path:" + params["path"]}
	if cmp.Or(params["ensure"], "present") == "present" && cmp.Or(params["link"], "follow") == "follow" {
		claims = append(claims, "file:"+params["path"])
	}
	return claims
}

// Validate names every parameter that is missing or wrong.
func (Handler) Validate(values map[string]string) error {
	p := &params{values: values, raw: true}
	p.read()
	return errors.Join(p.errs...)
}

// Ensure writes or removes the file, or corrects its mode and owner, and removes
// temporary files that a killed run left beside it, which is no change of the file.
// An error leaves the previous file whole.
func (Handler) Ensure(ctx context.Context, c handler.Call) (changed bool, err error) {
	w, err := parse(c.Look)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return false, err
	}
	if w.absent {
		changed, err = remove(c.Tree, w)
	} else {
		changed, err = put(ctx, c, w)
	}
	if err == nil {
		err = c.Tree.Sweep(w.path, w.last())
	}
	return changed, err
}

func put(ctx context.Context, c handler.Call, w want) (changed bool, err error) {
	a, err := w.attr(c.Files, c.Sensitive)
	if err != nil {
		return false, err
	}
	changed, err = c.Tree.Put(ctx, w.path, bytes.NewReader(w.content), a)
	return changed, w.advise(c.Files, err)
}

// advise adds to an error what the parameters can do about it.
func (w want) advise(files *host.View, err error) error {
	if !host.IsReadOnly(err) || w.link != host.Follow {
		return err
	}
	if info, e := files.Lstat(w.path); e == nil && info.Mode().Type() == fs.ModeSymlink {
		return fmt.Errorf("%w, or write link: replace to put a file in the symlink's place", err)
	}
	return err
}

// attr is what a present file is put with.
func (w want) attr(files *host.View, sensitive bool) (a host.Attr, err error) {
	a = host.Attr{
		Mode: w.mode, Fresh: freshMode,
		Last: w.link, Parents: parentMode,
		Private: sensitive,
	}
	if a.UID, err = w.owner.id(files); err != nil {
		return a, err
	}
	a.GID, err = w.group.id(files)
	return a, err
}

// last is what a symlink as last component means: one that is to be absent is
// never followed.
func (w want) last() host.Link {
	if w.absent {
		return host.Replace
	}
	return w.link
}

// remove takes away a file or a link, and nothing else.
func remove(tree *host.Tree, w want) (changed bool, err error) {
	info, err := tree.Lstat(w.path)
	switch {
	case host.IsMissing(err):
		return false, nil
	case err != nil:
		return false, err
	case info.Mode().Type() == fs.ModeSymlink && w.link == host.Refuse:
		return false, fmt.Errorf("remove %s: it is a symlink, and link: refuse forbids to touch it", w.path)
	case info.Mode().Type() != fs.ModeSymlink && !info.Mode().IsRegular():
		return false, fmt.Errorf("remove %s: it is %s, and only files and symlinks are removed: remove it by hand, or name another path",
			w.path, info.Kind())
	}
	return tree.Remove(w.path)
}
