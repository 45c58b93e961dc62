package host

import (
	"errors"

	"golang.org/x/sys/unix"
)

// again repeats a call that a signal interrupted.
func again(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// openat opens name in the folder dir; the descriptor is not inherited.
func openat(dir int, name string, flags int, perm uint32) (fd int, err error) {
	err = again(func() error {
		fd, err = unix.Openat(dir, name, flags|unix.O_CLOEXEC, perm)
		return err
	})
	return fd, err
}

// fstat describes an open file.
func fstat(fd int, name string) (Info, error) {
	var st unix.Stat_t
	if err := again(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return Info{}, err
	}
	return infoOf(name, &st), nil
}

// lstatat describes name in the folder dir and follows no link.
func lstatat(dir int, name string) (Info, error) {
	var st unix.Stat_t
	err := again(func() error { return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	if err != nil {
		return Info{}, err
	}
	return infoOf(name, &st), nil
}

// readlinkat returns the text of a link, however long.
func readlinkat(dir int, name string) (string, error) {
	for size := 256; ; size *= 2 {
		buf := make([]byte, size)
		n, err := unix.Readlinkat(dir, name, buf)
		if err != nil {
			return "", err
		}
		if n < size {
			return string(buf[:n]), nil
		}
	}
}

// readFD reads from the descriptor's position; n is 0 at the end.
func readFD(fd int, buf []byte) (n int, err error) {
	err = again(func() error {
		n, err = unix.Read(fd, buf)
		return err
	})
	return max(n, 0), err
}

// writeFD writes all of buf.
func writeFD(fd int, buf []byte) error {
	for len(buf) > 0 {
		n, err := 0, error(nil)
		if err := again(func() error {
			n, err = unix.Write(fd, buf)
			return err
		}); err != nil {
			return err
		}
		buf = buf[n:]
	}
	return nil
}

// syncFD brings a file or folder to the disk. A file system that cannot do
// this for a folder says EINVAL; there is nothing more to be had from it.
func syncFD(fd int) error {
	err := again(func() error { return unix.Fsync(fd) })
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}

// closeFD closes what was only read, or was synced before: there is nothing left
// that could fail.
func closeFD(fd int) { _ = unix.Close(fd) }

// renameUnlessThere looks before it renames. Who makes the name in between loses
// it if it is an empty folder.
func renameUnlessThere(oldDir int, oldName string, newDir int, newName string) error {
	switch _, err := lstatat(newDir, newName); {
	case err == nil:
		return unix.EEXIST
	case !errors.Is(err, unix.ENOENT):
		return err
	}
	return unix.Renameat(oldDir, oldName, newDir, newName)
}
