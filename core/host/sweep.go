package host

import (
	"context"
	"io/fs"
	"sync"

	"golang.org/x/sys/unix"
)

// A Sweeper takes away what Puts left in folders when they were killed, and
// remembers where it did. The zero value is ready. Safe for concurrent use.
type Sweeper struct {
	mu    sync.Mutex
	swept map[fileID]bool // folders without leftovers
}

// Forget makes it look again everywhere.
func (s *Sweeper) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swept = nil
}

type sweeperKey struct{}

// WithSweeper marks the calls of one run: its first Put in a folder looks for
// leftovers, and no later one, however many Trees there are. Without it each Tree
// looks for itself, which lists a folder of n files n times when a handler opens
// the machine for each of them. What a killed process leaves in the middle of a
// run waits for the next one: who keeps a machine calls Forget before each pass.
func WithSweeper(ctx context.Context, s *Sweeper) context.Context {
	return context.WithValue(ctx, sweeperKey{}, s)
}

// sweeperOf is the run's, or the Tree's own.
func (t *Tree) sweeperOf(ctx context.Context) *Sweeper {
	if s, ok := ctx.Value(sweeperKey{}).(*Sweeper); ok {
		return s
	}
	return &t.sweeper
}

// sweep looks for leftovers once for each folder. With deep it also empties
// folders left there. What a living call still holds stays, and so does what
// cannot be judged.
func (s *Sweeper) sweep(f folder, deep bool) error {
	s.mu.Lock()
	done := s.swept[f.id]
	s.mu.Unlock()
	if done {
		return nil
	}
	fd, err := f.reopen()
	if err != nil {
		return err
	}
	names, err := namesIn(fd)
	if err != nil {
		return err
	}
	for _, name := range names {
		if isTemp(name) {
			f.drop(name, deep)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.swept == nil {
		s.swept = map[fileID]bool{}
	}
	s.swept[f.id] = true
	return nil
}

// drop removes one leftover. It is tried again in the next call's sweep.
func (f folder) drop(name string, deep bool) {
	info, err := lstatat(f.fd, name)
	if err != nil {
		return
	}
	flags, unlink := unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0
	switch info.mode.Type() {
	case linkType: // lives for two calls only, and nothing is lost with it
		_ = unix.Unlinkat(f.fd, name, 0)
		return
	case fs.ModeDir:
		flags, unlink = flags|unix.O_DIRECTORY, unix.AT_REMOVEDIR
	case 0:
	default:
		return
	}
	fd, err := openat(f.fd, name, flags, 0)
	if err != nil {
		return
	}
	defer closeFD(fd)
	if lockFD(fd) != nil {
		return
	}
	if deep && info.IsDir() {
		empty(fd)
	}
	_ = unix.Unlinkat(f.fd, name, unlink)
}

// empty removes the files in an open folder.
func empty(dir int) {
	fd, err := openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return
	}
	names, _ := namesIn(fd) // a folder that cannot be listed cannot be removed either
	for _, name := range names {
		_ = unix.Unlinkat(dir, name, 0)
	}
}
