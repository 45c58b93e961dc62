package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// lockPoll is how often a lock that is held is tried again.
const lockPoll = 50 * time.Millisecond

// Held is the error of Lock when ctx ended, which Cause says, while somebody else
// had the lock.
type Held struct {
	By    string // "process 12 (keel apply)"
	Cause error
}

func (h *Held) Error() string { return fmt.Sprintf("held by %s: %v", h.By, h.Cause) }

// Unwrap gives the end of the context.
func (h *Held) Unwrap() error { return h.Cause }

// Lock takes the machine's lock for one visit and waits for it until ctx ends;
// the error is then a *Held. After 2 s of waiting that is also said by
// Noting. who is what others are told: the command, without secrets.
//
// The lock is flock on run/keel/lock below the root: the system lets go of it when
// its holder dies, and a file that a dead one left means nothing. It is not
// re-entrant, not even in one process: the driver of a visit takes it, handlers
// and Put never.
func (t *Tree) Lock(ctx context.Context, who string) (unlock func(), err error) {
	unlock, err = t.lock(ctx, who)
	if t.uid != 0 && errors.Is(err, fs.ErrPermission) && !errors.Is(err, errFrozen) {
		return nil, fmt.Errorf("root %s: lock %s/lock: %w: run keel as root, or as the owner of the root", t.root.Name(), private, err)
	}
	return unlock, failed("lock", private+"/lock", err)
}

func (t *Tree) lock(ctx context.Context, who string) (func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p, err := t.privateDir()
	if err != nil {
		return nil, err
	}
	defer p.close()
	poll := time.NewTicker(lockPoll)
	defer poll.Stop()
	patience := time.NewTimer(t.patience)
	defer patience.Stop()
	for {
		fd, holder, err := tryLock(p.dir.fd)
		if err != nil {
			return nil, err
		}
		if fd >= 0 {
			text := fmt.Sprintf("%d %s\n", os.Getpid(), strings.ReplaceAll(who, "\n", " "))
			t.inherit(ctx, p.dir, fd, text)
			if err := errors.Join(unix.Ftruncate(fd, 0), writeFD(fd, []byte(text))); err != nil {
				closeFD(fd) // and with it the lock
				return nil, err
			}
			return sync.OnceFunc(func() { closeFD(fd) }), nil
		}
		select {
		case <-ctx.Done():
			return nil, &Held{holder, ctx.Err()}
		case <-patience.C:
			t.note("waiting for the lock of this machine, held by %s", holder)
		case <-poll.C:
		}
	}
}

// inherit looks after what a killed holder of the lock may have left: in Keel's own
// directory at once, elsewhere where this run looks again.
func (t *Tree) inherit(ctx context.Context, dir folder, fd int, text string) {
	if last := holderIn(fd); last != describe(text) {
		t.Forget()
	}
	_ = t.sweeper.sweep(dir, true) // what stays goes with the next lock
}

// tryLock takes the lock in an open folder. fd is -1 when somebody else holds it.
func tryLock(dir int) (fd int, holder string, err error) {
	if info, err := lstatat(dir, "lock"); err == nil && info.mode.Type() != 0 {
		return -1, "", fmt.Errorf("is %s, not a regular file: remove it, then run again", info.Kind())
	}
	fd, err = openLock(dir)
	if err != nil {
		return -1, "", err
	}
	err = lockFD(fd)
	if err == nil {
		return fd, "", nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		holder, err = holderIn(fd), nil
	}
	closeFD(fd)
	return -1, holder, err
}

// openLock opens the lock file, and makes it if it is missing. Whatever the umask,
// its owner can open it: a mode without rights would lock out every later run of
// a user who is not root.
func openLock(dir int) (fd int, err error) {
	open := func() (int, error) {
		return openat(dir, "lock", unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	}
	fd, err = open()
	if errors.Is(err, unix.EACCES) && unix.Fchmodat(dir, "lock", 0o600, 0) == nil { // killed before Fchmod below
		fd, err = open()
	}
	if err != nil {
		if why := frozen(dir, "lock", false); why != "" {
			err = isFrozen("", why)
		}
		return -1, err
	}
	info, err := fstat(fd, "lock")
	if err == nil && info.mode.Perm() != 0o600 {
		err = unix.Fchmod(fd, 0o600)
	}
	if err != nil {
		closeFD(fd)
		return -1, err
	}
	return fd, nil
}

// holderIn reads who holds the lock, or held it last.
func holderIn(fd int) string {
	var buf [512]byte
	n, err := readerAt(fd).ReadAt(buf[:], 0)
	if err != nil && !atEnd(err) {
		n = 0
	}
	return describe(string(buf[:n]))
}

// describe says who wrote the text of a lock file.
func describe(text string) string {
	pid, who, ok := strings.Cut(strings.TrimSpace(text), " ")
	if !ok {
		return "another process"
	}
	return fmt.Sprintf("process %s (%s)", pid, who)
}
