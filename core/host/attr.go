package host

import (
	"context"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Link says what a last component that is a link means.
type Link uint8

// The meanings of a last component that is a link.
const (
	Replace Link = iota // the link itself is what gets replaced
	Follow              // what it leads to is meant
	Refuse              // it is an error
)

// Attr is what a file must have beside its content.
type Attr struct {
	Mode     *fs.FileMode // no special bits; nil: see Fresh
	Fresh    fs.FileMode  // mode of new or replaced content when Mode is nil; 0: keep, a new file 0600
	UID, GID *int         // nil: keep
	Last     Link
	NoLinks  bool        // refuse links everywhere on the path
	Parents  fs.FileMode // make missing parents with this mode; 0: they are an error
	Temp     string      // folder of the temporary file, on the same file system; empty: the file's own
	Private  bool        // keep no foreign owner or ACL, and no mode wider than 0600 unless Mode says so
	// Check sees a private copy under the file's true name, at a path of the
	// machine, before anything is replaced; its error leaves the old file as it was.
	Check func(ctx context.Context, path string) error

	own bool // Keel's own files may be written
}

// valid refuses what is no mode.
func (a Attr) valid() error {
	modes := []fs.FileMode{a.Fresh, a.Parents}
	if a.Mode != nil {
		modes = append(modes, *a.Mode)
	}
	for _, m := range modes {
		if m&^fs.ModePerm != 0 {
			return fmt.Errorf("mode %#o has more than permission bits", uint32(m))
		}
	}
	return nil
}

// look reads what fstat does not say. The mode's group bits become the owning
// group's own.
func (f *file) look() (err error) {
	if f.acl, err = aclOf(f.fd); err != nil {
		return err
	}
	if f.acl != nil {
		f.info.mode = f.info.mode&^fs.ModePerm | f.acl.perm()
	}
	return nil
}

// special are the mode bits beyond permissions.
const special = fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// meaning is what an Attr means for one file: its owner, -1 to leave it, and its
// mode, nil to leave it.
type meaning struct {
	uid, gid int
	mode     *fs.FileMode
}

// meant says what a means where old is there; old is nil for a new file.
func (v *View) meant(a Attr, old *file) meaning {
	m := meaning{uid: -1, gid: -1, mode: a.Mode}
	switch {
	case a.Private:
		m.uid, m.gid = v.uid, os.Getegid()
	case old != nil:
		m.uid, m.gid = old.info.UID, old.info.GID
	}
	if a.UID != nil {
		m.uid = *a.UID
	}
	if a.GID != nil {
		m.gid = *a.GID
	}
	return m
}

// differs reports that a file does not have the meaning yet.
func (m meaning) differs(f *file) bool {
	mode := f.info.mode & (fs.ModePerm | special)
	if f.info.IsDir() {
		mode &= fs.ModePerm // set-id and sticky bits of folders stay
	}
	return m.owner(f) || m.mode != nil && *m.mode != mode
}

func (m meaning) owner(f *file) bool {
	return m.uid >= 0 && m.uid != f.info.UID || m.gid >= 0 && m.gid != f.info.GID
}

// apply gives a file its owner and mode, in place. A file that changes hands
// keeps no set-id bits: not every system takes them.
func (m meaning) apply(f *file) (changed bool, err error) {
	mode := m.mode
	if m.owner(f) {
		if err := ownerError(m.uid, m.gid, unix.Fchown(f.fd, m.uid, m.gid)); err != nil {
			return false, err
		}
		changed = true
		if mode == nil && f.info.mode&special != 0 && !f.info.IsDir() {
			plain := f.info.mode & fs.ModePerm
			mode = &plain
		}
	}
	if mode != nil {
		bits, a := *mode, f.acl
		if f.info.IsDir() {
			bits |= f.info.mode & special
		}
		if a != nil {
			a = a.with(bits & fs.ModePerm)
		}
		if err := setAccess(f.fd, a, bits); err != nil {
			return changed, err
		}
	}
	return true, syncFD(f.fd)
}

// setAccess sets an ACL, or takes one away with nil, and then a mode, in which an
// ACL's own rights come before the mode's.
func setAccess(fd int, a acl, mode fs.FileMode) error {
	if err := setACL(fd, a); err != nil {
		return fmt.Errorf("set ACL: %w", err)
	}
	if a != nil {
		mode = mode&special | a.shown()
	}
	return unix.Fchmod(fd, sysMode(mode))
}

// sysMode is a mode as the system takes it.
func sysMode(mode fs.FileMode) uint32 {
	bits := uint32(mode & fs.ModePerm)
	if mode&fs.ModeSetuid != 0 {
		bits |= unix.S_ISUID
	}
	if mode&fs.ModeSetgid != 0 {
		bits |= unix.S_ISGID
	}
	if mode&fs.ModeSticky != 0 {
		bits |= unix.S_ISVTX
	}
	return bits
}
