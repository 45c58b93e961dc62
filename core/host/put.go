package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// Put makes path hold exactly what r gives and reports whether it had to change
// anything. Content of any size is compared and written as a stream; where r is
// an io.Seeker, equal content is found out without writing anything.
//
// Equal content: only mode and owner are mended, in place. A file with several
// names (hard links), and a Private one, gets a new file instead, so that no
// other name changes and nobody keeps an old one open.
//
// New content goes to a temporary file that nobody else may read. It gets owner,
// ACL, mode, attributes and labels, in this order, is synced, takes its name by
// rename, and the folder is synced: whenever Keel is killed, path holds all of the
// old content or all of the new. No more people than asked for can read it at any
// instant. A new file takes no ACL from its folder.
//
// Of a file that is replaced, unless a says otherwise, owner, group, ACL, labels
// of SELinux and SMACK and user.* attributes are kept. With a mode, its group
// bits go to the owning group's entry of the ACL, and the others named there keep
// what they had. Set-id bits, capabilities, IMA and EVM vouched for the old
// content: they go, and are said by Noting, as are other names that keep the
// old content. On FreeBSD a file with an ACL is an error.
//
// What is no regular file is never replaced, only a link that a.Last leaves to be
// replaced. A link that is followed to nothing makes the file where it leads,
// but neither folders nor anything below /dev.
//
// The first Put in a folder takes away the temporary files that killed ones left
// there: the first of this Tree since Forget. On error the
// old file is whole, there are neither leftovers nor new directories, and changed
// still tells the truth. A cancelled ctx is heeded until the rename.
func (t *Tree) Put(ctx context.Context, path string, r io.Reader, a Attr) (changed bool, err error) {
	changed, err = t.put(ctx, path, r, a)
	return changed, failed("write", path, err)
}

func (t *Tree) put(ctx context.Context, path string, r io.Reader, a Attr) (bool, error) {
	if err := a.valid(); err != nil {
		return false, err
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	a.own = t.own
	var made newDirs
	w, err := t.prepare(path, a, func(f folder, name, path string) error {
		return t.makeDir(&made, f, name, path, a.Parents)
	})
	if err != nil {
		return made.undo(&t.View), err
	}
	defer w.close()
	changed, err := w.run(ctx, t, r)
	if err != nil {
		return made.undo(&t.View) || changed, err
	}
	return len(made) > 0 || changed, nil
}

// A write is one Put that knows its place.
type write struct {
	view    *View
	place   *place
	attr    Attr
	old     *file // nil: there is none, or a link
	meaning meaning
}

// prepare finds out what is to be written where, and refuses what must not be
// replaced. mkdir makes a missing parent.
func (v *View) prepare(path string, a Attr, mkdir func(f folder, name, path string) error) (*write, error) {
	p, err := v.locate(path, a, mkdir)
	if err != nil {
		return nil, err
	}
	w := &write{view: v, place: p, attr: a}
	if p.there && p.info.mode.Type() != linkType {
		if w.old, err = p.open(); err == nil {
			err = w.old.look()
		}
	}
	if err != nil {
		w.close()
		return nil, err
	}
	w.meaning = v.meant(a, w.old)
	return w, nil
}

func (w *write) close() {
	if w.old != nil {
		w.old.close()
	}
	w.place.close()
}

func (w *write) run(ctx context.Context, t *Tree, r io.Reader) (changed bool, err error) {
	s, start, ok := seekable(r)
	if w.old != nil && ok {
		same, err := w.sameAs(s, start)
		if err != nil {
			return false, err
		}
		if same {
			if done, changed, err := w.mend(t); done || err != nil {
				return changed, err
			}
		}
	}
	home, done, err := w.home()
	if err != nil {
		return false, err
	}
	defer done()
	tmp, err := t.tempFile(home)
	if err != nil {
		return false, err
	}
	defer tmp.discard()
	if err := copyAll(ctx, tmp.fd, r); err != nil {
		return false, err
	}
	if w.old != nil && !ok {
		same, err := equal(w.old, all(tmp.fd))
		if err != nil {
			return false, err
		}
		if same {
			if done, changed, err := w.mend(t); done || err != nil {
				return changed, err
			}
		}
	}
	return w.replace(ctx, t, tmp)
}

// A need is what a file still needs when its content is right.
type need int

const (
	nothing need = iota
	mending      // of owner and mode, in place
	newFile
)

func (w *write) needs() need {
	f := w.old
	leaky := w.attr.Private && (f.acl != nil || w.attr.Mode == nil && f.info.mode&0o077 != 0)
	switch {
	case !leaky && !w.meaning.differs(f):
		return nothing
	case w.attr.Private || f.info.Links > 1:
		return newFile
	}
	return mending
}

// mend brings owner and mode of equal content to their meaning. done is false
// when that takes a new file.
func (w *write) mend(t *Tree) (done, changed bool, err error) {
	if n := w.needs(); n != mending {
		return n == nothing, false, nil
	}
	if err := w.place.mayMend(); err != nil {
		return true, false, err
	}
	f := w.old
	lost := w.meaning.owner(f) && w.meaning.mode == nil && (f.info.mode&special != 0 || capable(f.fd))
	changed, err = w.meaning.apply(f)
	if lost && err == nil {
		t.note("%s: set-id bits and capabilities went with the old owner", w.place.path)
	}
	return true, changed, err
}

// home is the folder of the temporary file; done closes it.
func (w *write) home() (f folder, done func(), err error) {
	name := w.attr.Temp
	if name == "" {
		return w.place.dir, func() {}, w.place.mayHold()
	}
	p, err := w.view.walk(name+"/.", walkOptions{noLinks: w.attr.NoLinks})
	if err != nil {
		return folder{}, nil, fmt.Errorf("temporary directory %s: %w", name, err)
	}
	// Whoever may rename in it chooses what the file will be.
	shared := p.info.mode&0o002 != 0 && p.info.mode&fs.ModeSticky == 0
	if shared || !w.view.trusts(p.dir.uid) && p.dir.uid != w.place.dir.uid {
		p.close()
		return folder{}, nil, fmt.Errorf("temporary directory %s: others may replace files in it", name)
	}
	return p.dir, p.close, nil
}

// replace makes the temporary file what it must be and gives it its name.
func (w *write) replace(ctx context.Context, t *Tree, tmp *temp) (changed bool, err error) {
	if err := w.place.mayReplace(); err != nil {
		return false, err
	}
	dir, err := w.place.dir.reopen()
	if err != nil {
		return false, err
	}
	defer closeFD(dir)
	left, err := w.dress(tmp.fd)
	if err != nil {
		return false, err
	}
	if err := syncFD(tmp.fd); err != nil {
		return false, err
	}
	if w.attr.Check != nil {
		if err := t.check(ctx, tmp.fd, w.place.name, w.attr.Check); err != nil {
			return false, err
		}
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	mine, err := fstat(tmp.fd, tmp.name)
	if err != nil {
		return false, err
	}
	err = tmp.rename(w.place.dir, w.place.name)
	if errors.Is(err, unix.EXDEV) {
		return false, fmt.Errorf("temporary directory %s is on another file system: %w", w.attr.Temp, err)
	}
	if err != nil {
		return false, err
	}
	now, err := lstatat(w.place.dir.fd, w.place.name)
	if err != nil || now.id != mine.id {
		return true, errors.New("somebody else replaced it at the same time")
	}
	if err := syncFD(dir); err != nil {
		return true, err
	}
	w.say(ctx, t, left)
	return true, nil
}

// dress gives a new file owner, ACL, mode, attributes and labels, in this order,
// and names the attributes of the old file that it does not get.
func (w *write) dress(fd int) (left []string, err error) {
	if m := w.meaning; m.uid >= 0 || m.gid >= 0 {
		if err := ownerError(m.uid, m.gid, unix.Fchown(fd, m.uid, m.gid)); err != nil {
			return nil, err
		}
	}
	a, mode := w.access()
	if err := setAccess(fd, a, mode); err != nil {
		return nil, err
	}
	if w.old == nil {
		return nil, nil
	}
	return carryAttrs(w.old.fd, fd)
}

// access is the ACL and the mode of new content.
func (w *write) access() (acl, fs.FileMode) {
	var mode fs.FileMode
	switch {
	case w.attr.Mode != nil:
		mode = *w.attr.Mode
	case w.old == nil && (w.attr.Private || w.attr.Fresh == 0):
		mode = 0o600
	case w.attr.Private:
		mode = w.old.info.mode & 0o600
	case w.attr.Fresh != 0:
		mode = w.attr.Fresh
	default:
		return w.old.acl, w.old.info.mode & fs.ModePerm
	}
	if w.attr.Private || w.old == nil || w.old.acl == nil {
		return nil, mode
	}
	return w.old.acl.with(mode), mode
}

// say tells what the old file had and the new one has not.
func (w *write) say(ctx context.Context, t *Tree, left []string) {
	if w.old == nil {
		return
	}
	if was := w.old.info.mode & fs.ModePerm; w.attr.Mode == nil && w.attr.Fresh != 0 && !w.attr.Private && was != w.attr.Fresh {
		t.note("%s: its mode was %04o and is %04o now, for no mode is given: to keep it, write mode: %q",
			w.place.path, was, w.attr.Fresh, fmt.Sprintf("%04o", was))
	}
	if w.old.info.mode&special != 0 {
		left = append([]string{"set-id bits"}, left...)
	}
	if len(left) > 0 {
		t.note("%s: the new content does not have the old one's %s", w.place.path, strings.Join(left, ", "))
	}
	if n := w.old.info.Links - 1; n > 0 {
		t.note("%s: the old content stays in %d other hard link(s)", w.place.path, n)
	}
	if where := bound(ctx, w.place.dir, w.place.name); where != "" {
		t.note("%s: %s, still show the previous content: restart what uses them", w.place.path, where)
	}
}
