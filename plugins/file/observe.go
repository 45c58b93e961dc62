package file

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"

	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/core/host"
)

// maxRead is how much of a file is read to tell what it holds. What is larger,
// and of another size than it should be, differs without being read.
const maxRead = 64 << 20

// Observe gives the leaf "content", and "mode", "owner" and "group" where they
// are named; a sensitive call gives them all, and "acl". Without a mode, content
// that is going to be replaced gives the mode that changes with it. Content is shown by
// digest and size, and withheld when sensitive. What is nil is not there. Where
// Ensure would be refused at once, the first leaf that differs has the reason for
// its Note.
func (Handler) Observe(ctx context.Context, c handler.Look) (declared, observed drift.State, err error) {
	w, err := parse(c)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, nil, err
	}
	l := look{files: c.Files, want: w, sensitive: c.Sensitive}
	if w.absent {
		l.absent()
	} else {
		l.present()
	}
	l.foretell()
	l.leftovers()
	return l.declared, l.observed, nil
}

// look collects both sides.
type look struct {
	files              *host.View
	want               want
	sensitive          bool
	declared, observed drift.State
	info               host.Info // of what is at the path; zero when there is nothing
}

// content is how content is shown and compared.
func (l *look) content(b []byte) any {
	if l.sensitive {
		return drift.NewSecret(b)
	}
	return digest(b)
}

func digest(b []byte) string { return fmt.Sprintf("sha256:%x (%d bytes)", sha256.Sum256(b), len(b)) }

func (l *look) leaf(name string, declared, observed any) {
	p := drift.Path{name}
	l.declared = append(l.declared, drift.Leaf{Path: p, Value: declared})
	l.observed = append(l.observed, drift.Leaf{Path: p, Value: observed})
}

// leftovers adds a leaf where a killed run left temporary files, in which a secret
// may stand: then there is something to do even where the file is right.
func (l *look) leftovers() {
	if _, unknown := l.observed[0].Value.(drift.Unknown); unknown {
		return // for what may be the same reason; nothing is written then
	}
	n, err := l.files.Leftovers(l.want.path, l.want.last(), l.info)
	if err != nil {
		l.leaf("leftovers", nil, drift.Unread(err))
	} else if n > 0 {
		l.leaf("leftovers", nil, fmt.Sprintf("%d temporary file(s) of a killed run", n))
	}
}

// foretell asks why what differs could not be mended, unless that is known.
func (l *look) foretell() {
	for i, leaf := range l.observed {
		_, unknown := leaf.Value.(drift.Unknown)
		if leaf.Note != "" || unknown {
			return // refused for this
		}
		if leaf.Value == l.declared[i].Value {
			continue
		}
		if err := l.refusal(); err != nil {
			l.observed[i].Note = err.Error()
		}
		return
	}
}

// refusal is the error that Ensure would meet before it writes anything.
func (l *look) refusal() error {
	if l.want.absent {
		return l.files.CanRemove(l.want.path)
	}
	a, err := l.want.attr(l.files, l.sensitive)
	if err != nil {
		return err
	}
	return l.want.advise(l.files, l.files.CanPut(l.want.path, l.want.content, a))
}

// other is the leaf for what is there and no file. Unless it is a link that may
// be removed or replaced, it carries the reason why it stays.
func (l *look) other(declared any, info host.Info) {
	what, note := info.Kind(), "it is no file: remove it by hand, or name another path"
	own, err := l.files.Lstat(l.want.path)
	switch {
	case err != nil:
		l.leaf("content", declared, drift.Unread(err))
		return
	case own.Mode().Type() == fs.ModeSymlink:
		text, err := l.files.Readlink(l.want.path)
		if err != nil {
			l.leaf("content", declared, drift.Unread(err))
			return
		}
		what, note = "a symlink to "+text, ""
		switch {
		case l.want.link == host.Refuse:
			note = "it is a symlink, and link: refuse forbids to touch it"
		case info.Mode().Type() != fs.ModeSymlink:
			what += ", " + info.Kind()
			note = "what the symlink leads to is no file: write link: replace to put a file in the symlink's place"
		}
	}
	l.leaf("content", declared, what)
	l.observed[len(l.observed)-1].Note = note
}

// absent needs no content to tell what is there.
func (l *look) absent() {
	info, err := l.files.Lstat(l.want.path)
	l.info = info
	switch {
	case host.IsMissing(err):
		l.leaf("content", nil, nil)
	case err != nil:
		l.leaf("content", nil, drift.Unread(err))
	case info.Mode().IsRegular():
		l.leaf("content", nil, fmt.Sprintf("a file (%d bytes)", info.Size()))
	default:
		l.other(nil, info)
	}
}

func (l *look) present() {
	w, follow := l.want, l.want.link == host.Follow
	info, data, err := l.files.Load(w.path, follow, max(maxRead, int64(len(w.content))))
	l.info = info
	expected := l.content(w.content)
	switch {
	case host.IsMissing(err):
		l.leaf("content", expected, nil)
	case err != nil:
		l.leaf("content", expected, drift.Unread(err))
	case bytes.Equal(data, w.content) && data != nil:
		l.leaf("content", expected, expected)
	case data != nil:
		l.leaf("content", expected, l.content(data))
	case info.Mode().IsRegular():
		l.leaf("content", expected, fmt.Sprintf("other content (%d bytes)", info.Size()))
	default:
		l.other(expected, info)
	}
	replaced := err == nil && info.Mode().IsRegular() && (data == nil || !bytes.Equal(data, w.content))
	if errors.Is(err, fs.ErrPermission) { // mode and owner can be told all the same
		info, err = l.stat(follow)
	}
	attribute := func(name string, declared any, value func() any) {
		switch {
		case host.IsMissing(err):
			l.leaf(name, declared, nil)
		case err != nil:
			l.leaf(name, declared, drift.Unread(err))
		default:
			l.leaf(name, declared, value())
		}
	}
	switch {
	case w.mode != nil:
		attribute("mode", octal(*w.mode), func() any { return octal(info.Mode()) })
	case replaced && info.Mode() != freshMode:
		l.leaf("mode", fmt.Sprintf("%s (no mode is given; to keep the file's, write mode: %q)", octal(freshMode), octal(info.Mode().Perm())), octal(info.Mode()))
	}
	if w.owner.named() {
		attribute("owner", w.owner.text, func() any { return w.owner.observed(l.files, info.UID) })
	}
	if w.group.named() {
		attribute("group", w.group.text, func() any { return w.group.observed(l.files, info.GID) })
	}
	if l.sensitive {
		attribute("acl", nil, func() any { return shared(info) })
	}
}

func (l *look) stat(follow bool) (host.Info, error) {
	if follow {
		return l.files.Stat(l.want.path)
	}
	return l.files.Lstat(l.want.path)
}

// shared is the leaf of a file's access list: there must be none on a secret.
func shared(info host.Info) any {
	if info.ACL {
		return "others have access"
	}
	return nil
}

// octal is a mode as chmod(1) takes it, special bits included.
func octal(m fs.FileMode) string {
	n := m.Perm()
	for bit, value := range map[fs.FileMode]fs.FileMode{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if m&bit != 0 {
			n |= value
		}
	}
	return fmt.Sprintf("%04o", n)
}
