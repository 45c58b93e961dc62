package host

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sys/unix"
)

// A temp is something new that has no name of its own yet. Whoever made it holds
// a lock on it, so that it is not taken for a leftover.
type temp struct {
	fd   int // -1 for a link
	dir  folder
	name string // empty: it was renamed
	flag int    // how to unlink it
}

// rename gives it its name, in the place of what has it.
func (tmp *temp) rename(dir folder, name string) error {
	err := again(func() error { return unix.Renameat(tmp.dir.fd, tmp.name, dir.fd, name) })
	if err == nil {
		tmp.name = ""
	}
	return err
}

// renameNew gives it its name unless something has that name: EEXIST. A plain
// rename would put a folder in the place of an empty one that is in use.
func (tmp *temp) renameNew(dir folder, name string) error {
	err := again(func() error { return renameNew(tmp.dir.fd, tmp.name, dir.fd, name) })
	if err == nil {
		tmp.name = ""
	}
	return err
}

// discard takes it away, unless it was renamed, and closes it.
func (tmp *temp) discard() {
	if tmp.name != "" {
		_ = unix.Unlinkat(tmp.dir.fd, tmp.name, tmp.flag) // what stays goes with the next sweep
	}
	if tmp.fd >= 0 {
		closeFD(tmp.fd)
	}
}

// giveAway gives a folder just made to a user. In his own folder he may have
// put another under its name; only an empty one is given.
func (tmp *temp) giveAway(uid, gid int) error {
	fd, err := openat(tmp.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	names, err := namesIn(fd)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		return errors.New("somebody else replaced it while it was made")
	}
	return ownerError(uid, gid, unix.Fchown(tmp.fd, uid, gid))
}

const tempPrefix, tempSuffix, tempDigits = ".keel-", ".tmp", 16

// isTemp reports a name that only Keel gives.
func isTemp(name string) bool {
	hex, ok := strings.CutPrefix(name, tempPrefix)
	hex, ok2 := strings.CutSuffix(hex, tempSuffix)
	return ok && ok2 && len(hex) == tempDigits && strings.Trim(hex, "0123456789abcdef") == ""
}

// newTemp makes something under a temporary name in a directory that is swept. A
// name that is taken, or that a sweep takes away at once, makes it try another.
func (t *Tree) newTemp(f folder, flag int, create func(name string) (fd int, err error)) (*temp, error) {
	if err := t.sweeper.sweep(f, false); err != nil {
		return nil, err
	}
	for range 100 {
		var id [tempDigits / 2]byte
		t.mu.Lock()
		_, err := io.ReadFull(t.random, id[:])
		t.mu.Unlock()
		if err != nil {
			return nil, fmt.Errorf("make a temporary name: %w", err)
		}
		name := fmt.Sprintf("%s%x%s", tempPrefix, id, tempSuffix)
		fd, err := create(name)
		if errors.Is(err, unix.EEXIST) {
			continue
		}
		if err != nil {
			return nil, err
		}
		tmp := &temp{fd: fd, dir: f, name: name, flag: flag}
		if fd < 0 || tmp.claim() {
			return tmp, nil
		}
		tmp.discard()
	}
	return nil, fmt.Errorf("make a temporary name: %w", unix.EEXIST)
}

// claim locks it, and reports that no sweep was faster. A file system without
// locks leaves only the machine's lock to keep others away.
func (tmp *temp) claim() bool {
	if err := lockFD(tmp.fd); errors.Is(err, unix.EWOULDBLOCK) {
		return false
	}
	info, err := fstat(tmp.fd, tmp.name)
	return err == nil && info.Links > 0
}

// lockFD takes the lock on an open file unless somebody else has it.
func lockFD(fd int) error {
	return again(func() error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
}

// tempFile makes an empty file that only its owner may read.
func (t *Tree) tempFile(f folder) (*temp, error) {
	return t.newTemp(f, 0, func(name string) (int, error) {
		return openat(f.fd, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600)
	})
}

// tempDir makes an empty folder that only its owner may enter.
func (t *Tree) tempDir(f folder) (*temp, error) {
	return t.newTemp(f, unix.AT_REMOVEDIR, func(name string) (int, error) {
		if err := unix.Mkdirat(f.fd, name, 0o700); err != nil {
			return -1, err
		}
		open := func() (int, error) {
			return openat(f.fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		}
		fd, err := open()
		if errors.Is(err, unix.EACCES) && unix.Fchmodat(f.fd, name, 0o700, 0) == nil { // the umask took it
			fd, err = open()
		}
		if errors.Is(err, unix.ENOENT) {
			return -1, unix.EEXIST // swept away: try another name
		}
		if err != nil {
			_ = unix.Unlinkat(f.fd, name, unix.AT_REMOVEDIR) // what stays goes with the next sweep
		}
		return fd, err
	})
}

// tempLink makes a link.
func (t *Tree) tempLink(f folder, text string) (*temp, error) {
	return t.newTemp(f, 0, func(name string) (int, error) {
		return -1, unix.Symlinkat(text, f.fd, name)
	})
}
