package host

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// IsNoSpace reports that a disk or a quota is full.
func IsNoSpace(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// IsReadOnly reports that a file system cannot be written to.
func IsReadOnly(err error) bool { return errors.Is(err, unix.EROFS) }

// IsBusy reports that something is mounted there or is in use.
func IsBusy(err error) bool {
	return errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ETXTBSY)
}

// failed says what was tried on which path, why it could not be done, and what
// to do about it, unless err says that already. It is nil for nil.
func failed(verb, path string, err error) error {
	var advice string
	switch said := (*advised)(nil); {
	case err == nil:
		return nil
	case errors.As(err, &said):
	case IsNoSpace(err):
		advice = "free some space, then run again"
	case IsReadOnly(err):
		advice = "remount it writable, then run again"
	case IsBusy(err):
		advice = "unmount or stop what uses it"
	}
	if advice == "" {
		return fmt.Errorf("%s %s: %w", verb, path, err)
	}
	return &advised{fmt.Errorf("%s %s: %w: %s", verb, path, err, advice)}
}

// advised is an error that says what to do about it.
type advised struct{ error }

func (a *advised) Unwrap() error { return a.error }

// ownerError says which owner could not be given.
func ownerError(uid, gid int, err error) error {
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("give it to %d:%d, which only root can: %w", uid, gid, err)
	}
	if err != nil {
		return fmt.Errorf("give it to %d:%d: %w", uid, gid, err)
	}
	return nil
}

// IsMissing reports that a path names nothing, for sure: nobody has that name, or
// a folder on the way is none.
func IsMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}
