package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// CanPut says why Put would be refused, in its words, and is nil when nothing
// speaks against it. It makes the checks of a Put up to its first write: links,
// owners, kinds of files, mount points, read-only file systems, and flags such as
// immutable. It runs no a.Check. Neither room on the disk nor the rights of a user
// who is not root are looked at, so that what it lets pass may still fail.
func (v *View) CanPut(path string, content []byte, a Attr) error {
	return failed("write", path, v.canPut(path, content, a))
}

func (v *View) canPut(path string, content []byte, a Attr) error {
	if err := a.valid(); err != nil {
		return err
	}
	possible := errors.New("the directory would be new and empty")
	w, err := v.prepare(path, a, func(f folder, _, _ string) error {
		if err := f.mayHold(); err != nil {
			return err
		}
		return possible
	})
	if errors.Is(err, possible) {
		return nil
	}
	if err != nil {
		return err
	}
	defer w.close()
	needs := newFile
	if w.old != nil {
		same, err := w.sameAs(bytes.NewReader(content), 0)
		if err != nil {
			return err
		}
		if same {
			needs = w.needs()
		}
	}
	switch needs {
	case mending:
		return w.place.mayMend()
	case newFile:
		_, done, err := w.home()
		if err != nil {
			return err
		}
		done()
		return w.place.mayReplace()
	}
	return nil
}

// CanRemove says why Remove would be refused, in its words, and is nil when
// nothing speaks against it. It does not look into folders.
func (v *View) CanRemove(path string) error {
	p, err := v.removable(path, false)
	if p != nil {
		p.close()
	}
	return failed("remove", path, err)
}

// removable finds what is to be taken away; p is nil when there is nothing, or
// on error.
func (v *View) removable(path string, own bool) (p *place, err error) {
	p, err = v.locate(path, Attr{own: own}, nil)
	if IsMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	switch {
	case !p.there:
	case p.info.mode&fs.ModeDevice != 0:
		err = errors.New("is a device")
	default:
		err = p.mayReplace()
	}
	if !p.there || err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// locate finds the place that is to be changed and refuses those that must not
// be. Where a.Parents is set, mkdir is called for a missing parent.
func (v *View) locate(path string, a Attr, mkdir func(f folder, name, path string) error) (*place, error) {
	o := walkOptions{follow: a.Last == Follow, noLinks: a.NoLinks}
	if a.Parents != 0 {
		o.mkdir = func(w *walk, name string) (err error) {
			path := w.join(name)
			if !a.own {
				err = w.notOwn(name, fileID{})
			}
			if err == nil {
				err = w.locked(name, mkdir(w.at, name, path))
			}
			if err != nil {
				return fmt.Errorf("make directory %s: %w", path, err)
			}
			return nil
		}
	}
	p, err := v.walk(path, o)
	if err != nil {
		return nil, err
	}
	err = p.changeable(a.Last)
	if err == nil && !a.own {
		err = p.w.notOwn(p.name, p.info.id)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// changeable refuses places at which nothing may be put or taken away.
func (p *place) changeable(last Link) error {
	if p.name == "." {
		return errors.New("names a directory by its end, not by its name")
	}
	if last == Refuse && p.there && p.info.mode.Type() == linkType {
		return errors.New("is a symlink, and none is allowed here")
	}
	kind, err := kernelFS(p.dir)
	if err != nil {
		return err
	}
	if kind != "" {
		return fmt.Errorf("is on %s, whose files are the kernel's own", kind)
	}
	if !p.there {
		if p.linked && strings.HasPrefix(p.path, "/dev/") {
			return fmt.Errorf("leads to %s, a device that is not there", p.path)
		}
		return nil
	}
	mounted, err := mountPoint(p)
	if err != nil {
		return err
	}
	if mounted {
		return fmt.Errorf("is a mount point: unmount %s, or name what is mounted there", p.path)
	}
	return nil
}

// mayMend says why a changeable file cannot be changed in place.
func (p *place) mayMend() error {
	if err := p.dir.writable(); err != nil {
		return p.w.locked(p.name, err)
	}
	return p.frozen(false)
}

// mayReplace says why nothing can take the place of what is at a changeable place,
// or be put there.
func (p *place) mayReplace() error {
	if err := p.frozen(true); err != nil {
		return err
	}
	return p.mayHold()
}

// mayHold says why nothing can be made beside a changeable place.
func (p *place) mayHold() error { return p.w.locked(p.name, p.dir.mayHold()) }

func (p *place) frozen(replaced bool) error {
	if why := frozen(p.dir.fd, p.name, replaced); why != "" {
		return isFrozen("", why)
	}
	return nil
}

// errFrozen is what a flag such as immutable forbids, to root too.
var errFrozen = fmt.Errorf("%w", unix.EPERM)

func isFrozen(what, why string) error { return fmt.Errorf("%sis %s: %w", what, why, errFrozen) }

// mayHold says why nothing can be made in a folder, or taken out of it again.
func (f folder) mayHold() error {
	kind, err := kernelFS(f)
	if err != nil {
		return err
	}
	if kind != "" {
		return fmt.Errorf("it is on %s, whose files are the kernel's own", kind)
	}
	if err := f.writable(); err != nil {
		return err
	}
	if why := frozen(f.fd, ".", false); why != "" {
		return isFrozen("its directory ", why)
	}
	return nil
}

func (f folder) writable() error {
	locked, err := readOnly(f)
	if err == nil && locked {
		err = unix.EROFS
	}
	return err
}
