package host

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Tree is a View that can also be written. Everything is done through the
// descriptor of the folder in which it is done. Refused are a mount point as last
// component, for what is mounted there belongs to another file system, and
// anything on a file system of the kernel's own: proc, sysfs, cgroup, devpts and
// their like. Mounts on the way are normal. What a Tree reports as changed has
// reached the disk.
//
// Keel's own files, below /run/keel and /var/lib/keel, are refused by whatever name
// a path gives them: see Own.
//
// A Tree is safe for concurrent use, but only the machine's lock keeps two
// programs from undoing each other's work.
type Tree struct {
	View
	*writing
	own   bool // Keel's own files may be written
	notes func(note string)
}

// writing is what all Trees of one opening share.
type writing struct {
	random   io.Reader     // of temporary names
	patience time.Duration // until waiting for the lock is said

	mu sync.Mutex // of random
}

// OpenTree opens the machine at root for writing.
func OpenTree(root string) (*Tree, error) {
	v, err := OpenView(root)
	if err != nil {
		return nil, err
	}
	return &Tree{View: *v, writing: &writing{random: rand.Reader, patience: 2 * time.Second}}, nil
}

// Remove deletes a file, a link or an empty folder, and reports whether there
// was one. A link is not followed. A folder that holds something and a device
// are an error.
func (t *Tree) Remove(path string) (changed bool, err error) {
	changed, err = t.remove(path)
	return changed, failed("remove", path, err)
}

func (t *Tree) remove(path string) (bool, error) {
	p, err := t.removable(path, t.own)
	if p == nil {
		return false, err
	}
	defer p.close()
	flags := 0
	if p.info.IsDir() {
		flags = unix.AT_REMOVEDIR
	}
	dir, err := p.dir.reopen()
	if err != nil {
		return false, err
	}
	defer closeFD(dir)
	err = again(func() error { return unix.Unlinkat(p.dir.fd, p.name, flags) })
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST):
		return false, errors.New("is a directory that still holds something")
	case err != nil:
		return false, err
	}
	return true, syncFD(dir)
}

// reopen opens a walked folder so that it can be listed and synced.
func (f folder) reopen() (int, error) {
	fd, err := openat(f.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, fmt.Errorf("open its directory: %w", err)
	}
	return fd, nil
}

// Mkdir makes a folder and the missing ones above it, all with this mode, and
// reports whether it had to. A folder that is there stays as it is. In a user's
// folder the new one is that user's, or nobody could be led through it. On error
// those that were made are removed again.
func (t *Tree) Mkdir(path string, mode fs.FileMode) (changed bool, err error) {
	changed, err = t.mkdir(path, mode)
	return changed, failed("make directory", path, err)
}

func (t *Tree) mkdir(path string, mode fs.FileMode) (made bool, err error) {
	if err := (Attr{Mode: &mode}).valid(); err != nil {
		return false, err
	}
	var fresh newDirs
	p, err := t.walk(path+"/", walkOptions{mkdir: func(w *walk, name string) error {
		if !t.own {
			if err := w.notOwn(name, fileID{}); err != nil {
				return err
			}
		}
		return t.makeDir(&fresh, w.at, name, w.join(name), mode)
	}})
	if err != nil {
		return fresh.undo(&t.View), err
	}
	p.close()
	return len(fresh) > 0, nil
}

// newDirs are the directories that one call made, each before those in it.
type newDirs []newDir

type newDir struct {
	path string
	id   fileID
}

// undo removes them again, for the call failed. It reports whether one stays: it
// is in use by now, or cannot be removed.
func (n newDirs) undo(v *View) (stays bool) {
	for _, d := range slices.Backward(n) {
		p, err := v.walk(d.path, walkOptions{})
		if err != nil {
			return true
		}
		if p.there && p.info.id == d.id {
			err = unix.Unlinkat(p.dir.fd, p.name, unix.AT_REMOVEDIR) // only while it is empty
		}
		p.close()
		if err != nil {
			return true
		}
	}
	return false
}

// makeDir makes one directory and adds it to made. It has its owner and mode
// before it has its name.
func (t *Tree) makeDir(made *newDirs, f folder, name, path string, mode fs.FileMode) error {
	if err := f.mayHold(); err != nil {
		return err
	}
	dir, err := f.reopen()
	if err != nil {
		return err
	}
	defer closeFD(dir)
	tmp, err := t.tempDir(f)
	if err != nil {
		return err
	}
	defer tmp.discard()
	if !t.trusts(f.uid) {
		if err := tmp.giveAway(f.uid, f.gid); err != nil {
			return err
		}
	}
	info, err := fstat(tmp.fd, name)
	if err != nil {
		return err
	}
	mode |= info.mode & fs.ModeSetgid // from a folder that hands its group on
	if err := unix.Fchmod(tmp.fd, sysMode(mode)); err != nil {
		return err
	}
	if err := syncFD(tmp.fd); err != nil {
		return err
	}
	switch err := tmp.renameNew(f, name); {
	case errors.Is(err, unix.EEXIST):
		return nil // somebody else was faster; the walk looks at what he made
	case err != nil:
		return err
	}
	*made = append(*made, newDir{path, info.id})
	return syncFD(dir)
}

// Symlink makes path a link that holds text, in the place of a file or another
// link, and reports whether it had to. A folder or a device is not replaced.
func (t *Tree) Symlink(text, path string) (changed bool, err error) {
	changed, err = t.symlink(text, path)
	return changed, failed("link", path, err)
}

func (t *Tree) symlink(text, path string) (bool, error) {
	p, err := t.locate(path, Attr{own: t.own}, nil)
	if err != nil {
		return false, err
	}
	defer p.close()
	if p.there {
		switch {
		case p.info.mode.Type() == linkType:
			old, _, err := readLink(p.dir.fd, p.name)
			if err == nil && old == text {
				return false, nil
			}
		case !p.info.mode.IsRegular():
			return false, p.wrongKind(p.info, "a symlink or a regular file")
		}
	}
	if err := p.mayReplace(); err != nil {
		return false, err
	}
	dir, err := p.dir.reopen()
	if err != nil {
		return false, err
	}
	defer closeFD(dir)
	tmp, err := t.tempLink(p.dir, text)
	if err != nil {
		return false, err
	}
	defer tmp.discard()
	if err := tmp.rename(p.dir, p.name); err != nil {
		return false, err
	}
	return true, syncFD(dir)
}

// Chattr brings owner and mode of a file or folder that is there to a's, and
// reports whether it had to. Beside Mode, UID and GID only Last and NoLinks count.
func (t *Tree) Chattr(path string, a Attr) (changed bool, err error) {
	changed, err = t.chattr(path, a)
	return changed, failed("change attributes of", path, err)
}

func (t *Tree) chattr(path string, a Attr) (bool, error) {
	a = Attr{Mode: a.Mode, UID: a.UID, GID: a.GID, Last: a.Last, NoLinks: a.NoLinks, own: t.own}
	if err := a.valid(); err != nil {
		return false, err
	}
	p, err := t.locate(path, a, nil)
	if err != nil {
		return false, err
	}
	defer p.close()
	var f *file
	if p.there && p.info.IsDir() {
		f, err = p.openFolder()
	} else {
		f, err = p.open()
	}
	if err != nil {
		return false, err
	}
	defer f.close()
	if err := f.look(); err != nil {
		return false, err
	}
	m := t.meant(a, f)
	if !m.differs(f) {
		return false, nil
	}
	if f.info.Links > 1 && !f.info.IsDir() {
		return false, fmt.Errorf("has %d hard links, which would all change", f.info.Links)
	}
	if err := p.mayMend(); err != nil {
		return false, err
	}
	return m.apply(f)
}
