package host

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// private is Keel's own folder on a machine: nobody else may enter it, and it
// does not outlive a reboot.
const private = "/run/keel"

// privateDir opens it, and makes it if it is missing.
func (t *Tree) privateDir() (*place, error) {
	if _, err := t.Mkdir("/run", 0o755); err != nil {
		return nil, err
	}
	if _, err := t.Own().Mkdir(private, 0o700); err != nil {
		return nil, err
	}
	p, err := t.walk(private+"/.", walkOptions{})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", private, err)
	}
	if err := t.ownPrivate(p); err != nil {
		p.close()
		return nil, fmt.Errorf("open %s: %w", private, err)
	}
	return p, nil
}

// ownPrivate makes sure of who may enter it.
func (t *Tree) ownPrivate(p *place) error {
	if !t.trusts(p.info.UID) {
		return fmt.Errorf("belongs to user %d: remove it", p.info.UID)
	}
	if p.info.mode.Perm() == 0o700 {
		return nil
	}
	fd, err := p.dir.reopen()
	if err != nil {
		return err
	}
	defer closeFD(fd)
	return setAccess(fd, nil, 0o700)
}

// check shows a private copy of an open file, under its true name, to f.
func (t *Tree) check(ctx context.Context, fd int, name string, f func(ctx context.Context, path string) error) error {
	p, err := t.privateDir()
	if err != nil {
		return err
	}
	defer p.close()
	if err := t.sweeper.sweep(p.dir, true); err != nil {
		return err
	}
	tmp, err := t.tempDir(p.dir)
	if err != nil {
		return err
	}
	defer tmp.discard()
	defer empty(tmp.fd)                                   // of what f put there
	defer func() { _ = unix.Unlinkat(tmp.fd, name, 0) }() // the copy goes also when no file can be opened any more
	if err := copyTo(ctx, tmp.fd, name, fd); err != nil {
		return fmt.Errorf("copy it to %s to be checked: %w", private, err)
	}
	if err := f(ctx, private+"/"+tmp.name+"/"+name); err != nil {
		return fmt.Errorf("the new content was refused: %w", err)
	}
	return nil
}

// copyTo copies an open file to name in the folder dir.
func copyTo(ctx context.Context, dir int, name string, from int) error {
	to, err := openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	err = unix.Fchmod(to, 0o600) // whatever the umask
	return errors.Join(err, copyAll(ctx, to, all(from)), unix.Close(to))
}
