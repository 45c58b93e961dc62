package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// View is the file system of the machine rooted at a folder, to look at. Paths
// are the machine's own; a relative one starts at the root too.
//
// Every path is walked component by component, each by the descriptor of the
// folder before it. Links resolve inside the root, absolute ones from the root;
// ".." never leaves it; after 40 links a path is refused. Magic links of proc
// are refused; files of proc and sysfs can be read.
//
// The owner rule keeps a user of the machine from leading Keel to what is not
// his. Trusted are root, the user Keel runs as, and the owner of the root folder,
// who can replace everything below it and is root in a container; for everybody
// else,
//
//   - a folder leads to no folder of somebody else: whoever owns it could have
//     renamed that folder into it;
//   - a link leads only to what its owner owns, and a link in a user's folder
//     only to what the folder's owner owns. What counts is where the link's text
//     ends, not the folders it passes. Where nothing is there yet, it is the
//     folder in which it would be made.
//
// A trusted folder leads anywhere, also when others may write to it: in a
// sticky one such as /tmp they can only add what they own, and nobody can move
// a folder that he may not write to out of another. What lies in a user's
// folder and is no folder may belong to anybody. On proc, which names nothing
// that a user chose, only the rule for links holds.
//
// This is the unsafe path transition of systemd-tmpfiles (CHASE_SAFE) with two
// differences: a link's text may pass through folders of root, so that a user's
// absolute links within his own files work, and a link answers for the folder
// it lies in too. The kernel's protected_symlinks follows the same idea, in
// sticky folders only.
//
// A View is safe for concurrent use.
type View struct {
	root    *os.File
	id      fileID
	mount   uint64 // that the root is on; 0 where the system does not tell
	owner   int    // of the root
	group   int    // of the root
	uid     int    // Keel's
	sweeper *sweeper
}

// OpenView opens the machine at root. Links in root itself are followed.
func OpenView(root string) (*View, error) {
	fd, err := openat(unix.AT_FDCWD, root, openTop, 0)
	if err != nil {
		return nil, fmt.Errorf("open root %s: %w", root, err)
	}
	info, err := fstat(fd, root)
	if err != nil {
		closeFD(fd)
		return nil, fmt.Errorf("open root %s: %w", root, err)
	}
	return &View{root: os.NewFile(uintptr(fd), root), id: info.id, mount: mountOf(fd), owner: info.UID, group: info.GID, uid: os.Geteuid(), sweeper: new(sweeper)}, nil
}

// Close lets go of the root. No other call may come after it.
func (v *View) Close() error { return v.root.Close() }

// Replaced reports whether the root's path leads to another folder than the one
// that is open: that one was moved, or something was mounted over it. That there
// is no folder to be opened is an error.
func (v *View) Replaced() (bool, error) {
	now, err := OpenView(v.root.Name())
	if err != nil {
		return false, err
	}
	replaced := now.id != v.id || now.mount != v.mount
	return replaced, now.Close()
}

// top is the root as a folder to walk from.
func (v *View) top() folder {
	return folder{fd: int(v.root.Fd()), uid: v.owner, gid: v.group, id: v.id, view: v}
}

// trusts reports that a user may lead Keel anywhere.
func (v *View) trusts(uid int) bool { return uid == 0 || uid == v.uid || uid == v.owner }

// Read returns the content of a regular file. One of more than max bytes is an
// error, and so is anything that is no regular file; it never blocks.
func (v *View) Read(path string, max int64) ([]byte, error) {
	data, err := v.read(path, max)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data, nil
}

func (v *View) read(path string, max int64) ([]byte, error) {
	p, err := v.walk(path, walkOptions{follow: true})
	if err != nil {
		return nil, err
	}
	defer p.close()
	f, err := p.open()
	if err != nil {
		return nil, err
	}
	defer f.close()
	data, err := f.content(max)
	if err == nil && int64(len(data)) > max {
		return nil, fmt.Errorf("holds more than the %d bytes that are read", max)
	}
	return data, err
}

// Stat describes what path names, at the end of its links.
func (v *View) Stat(path string) (Info, error) { return v.stat(path, true) }

// Lstat describes what path names; a link as last component is described
// itself.
func (v *View) Lstat(path string) (Info, error) { return v.stat(path, false) }

func (v *View) stat(name string, follow bool) (Info, error) {
	p, err := v.walk(name, walkOptions{follow: follow})
	if err == nil {
		defer p.close()
		if !p.there {
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		return Info{}, fmt.Errorf("stat %s: %w", name, err)
	}
	if err := p.ownGroup(); err != nil {
		return Info{}, fmt.Errorf("stat %s: %w", name, err)
	}
	p.info.name, p.info.dir = path.Base(name), p.dir.id
	return p.info, nil
}

// ownGroup replaces the mask of an ACL in a mode by what the owning group may do.
func (p *place) ownGroup() error {
	if t := p.info.mode.Type(); t != 0 && t != fs.ModeDir || p.info.mode&0o070 == 0 {
		return nil
	}
	a, err := aclAt(p.dir.fd, p.name)
	if err != nil {
		return fmt.Errorf("read ACL: %w", err)
	}
	if a != nil {
		p.info.ACL = true
		p.info.mode = p.info.mode&^0o070 | a.perm()&0o070
	}
	return nil
}

// List returns the names in a folder, sorted.
func (v *View) List(path string) ([]string, error) {
	names, err := v.list(path)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", path, err)
	}
	return names, nil
}

func (v *View) list(path string) ([]string, error) {
	p, err := v.walk(path, walkOptions{follow: true})
	if err != nil {
		return nil, err
	}
	defer p.close()
	f, err := p.openFolder()
	if err != nil {
		return nil, err
	}
	return namesIn(f.fd)
}

// namesIn returns the names in an open folder, sorted, and closes it.
func namesIn(fd int) ([]string, error) {
	dir := os.NewFile(uintptr(fd), "directory")
	names, err := dir.Readdirnames(-1)
	if err := errors.Join(err, dir.Close()); err != nil {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

// Readlink returns the text of a link as it stands there.
func (v *View) Readlink(path string) (string, error) {
	p, err := v.walk(path, walkOptions{})
	if err != nil {
		return "", fmt.Errorf("readlink %s: %w", path, err)
	}
	defer p.close()
	text, _, err := readLink(p.dir.fd, p.name)
	if err != nil {
		return "", fmt.Errorf("readlink %s: %w", path, err)
	}
	return text, nil
}

// Resolve returns the path without links of what path names. The last component
// may be missing.
func (v *View) Resolve(path string) (string, error) {
	p, err := v.walk(path, walkOptions{follow: true})
	if err != nil {
		return "", fmt.Errorf("resolve %s: %w", path, err)
	}
	defer p.close()
	return p.path, nil
}

// An Identity tells a folder from every other that is there at the same time.
type Identity struct{ id fileID }

// A Place is a name in a folder. Paths that end in the same Place name one file,
// whatever links and mounts they go through.
type Place struct {
	Folder Identity
	Name   string // "." for the folder itself
}

// Place returns where a path ends, behind all of its links. The last component
// may be missing; with a slash behind it, it must be a folder, and is the
// Place's.
func (v *View) Place(path string) (Place, error) {
	p, err := v.walk(path, walkOptions{follow: true})
	if err != nil {
		return Place{}, fmt.Errorf("resolve %s: %w", path, err)
	}
	defer p.close()
	return Place{Identity{p.dir.id}, p.name}, nil
}

// A file is an open regular file or folder and what is known about it.
type file struct {
	fd   int
	info Info
	acl  acl // after look
}

func (f *file) close() { closeFD(f.fd) } // what was written was synced before

// open opens a place's regular file to be read.
func (p *place) open() (*file, error) {
	switch {
	case !p.there:
		return nil, fs.ErrNotExist
	case !p.info.mode.IsRegular():
		return nil, p.wrongKind(p.info, "a regular file")
	}
	return p.openAs(0)
}

// openFolder opens a place's folder to be listed, changed or synced.
func (p *place) openFolder() (*file, error) {
	switch {
	case !p.there:
		return nil, fs.ErrNotExist
	case !p.info.IsDir():
		return nil, p.wrongKind(p.info, "a directory")
	}
	return p.openAs(unix.O_DIRECTORY)
}

// openAs opens what the place names and asks the owner rule about it.
func (p *place) openAs(flags int) (*file, error) {
	// Whatever takes the file's place now, neither a pipe nor a terminal can
	// make this wait or have an effect on this process.
	fd, err := openat(p.dir.fd, p.name, flags|unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	info, err := fstat(fd, p.name)
	if err == nil && info.mode.Type() != p.info.mode.Type() {
		err = p.wrongKind(info, p.info.Kind())
	}
	if err == nil {
		err = p.admits(info)
	}
	if err != nil {
		closeFD(fd)
		return nil, err
	}
	return &file{fd: fd, info: info}, nil
}

// wrongKind says what is there instead of what was wanted.
func (p *place) wrongKind(info Info, want string) error {
	if p.linked {
		return fmt.Errorf("leads to %s, which is %s, not %s", p.path, info.Kind(), want)
	}
	return fmt.Errorf("is %s, not %s", info.Kind(), want)
}
