package host

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A sweeper takes away what Puts left in directories when they were killed, and
// remembers where there is nothing of that kind. The zero value is ready. Safe for
// concurrent use.
type sweeper struct {
	mu    sync.Mutex
	swept map[fileID]bool // directories without leftovers
}

// Forget has the next calls look again for what killed processes left: the first call
// in a directory does, and no later one. Who manages a machine calls it before each
// pass. Lock calls it when another process had the lock since.
func (v *View) Forget() {
	v.sweeper.mu.Lock()
	defer v.sweeper.mu.Unlock()
	v.sweeper.swept = nil
}

// Leftovers counts the temporary files that killed Puts left where a Put to path
// would make its own. info is what Stat, Lstat or Load said of path, or the zero
// value: it saves the walk to a directory that is known. It changes nothing and
// counts neither what a living Put holds nor what cannot be removed or listed; in a
// missing directory there are none.
func (v *View) Leftovers(path string, last Link, info Info) (n int, err error) {
	if v.sweeper.knows(info.dir) {
		return 0, nil
	}
	err = v.around(path, last, func(f folder) error {
		n, err = v.sweeper.look(f, false, false)
		return err
	})
	if errors.Is(err, fs.ErrPermission) {
		return 0, nil
	}
	return n, failed("look for temporary files beside", path, err)
}

// Sweep removes what Leftovers counts and says by Noting that it did. Whoever
// calls it holds the machine's lock: not every file system tells who is alive.
func (t *Tree) Sweep(path string, last Link) error {
	err := t.around(path, last, func(f folder) error {
		n, err := t.sweeper.look(f, true, false)
		if n > 0 {
			t.note("%s: removed %d temporary file(s) beside it that a killed run left", path, n)
		}
		return err
	})
	return failed("remove temporary files beside", path, err)
}

// around calls f with the directory in which path ends, if it is there and can be
// written to.
func (v *View) around(path string, last Link, f func(f folder) error) error {
	p, err := v.walk(path, walkOptions{follow: last == Follow})
	if IsMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer p.close()
	if p.dir.mayHold() != nil {
		return nil
	}
	return f(p.dir)
}

// sweep removes leftovers in a folder; deep, folders that are not empty too.
func (s *sweeper) sweep(f folder, deep bool) error {
	_, err := s.look(f, true, deep)
	return err
}

// knows reports that nothing is left in a folder.
func (s *sweeper) knows(folder fileID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.swept[folder]
}

// look counts the leftovers in a folder, and removes them when that is asked for.
// A folder in which none is left is not looked at again.
func (s *sweeper) look(f folder, remove, deep bool) (n int, err error) {
	if s.knows(f.id) {
		return 0, nil
	}
	fd, err := f.reopen()
	if err != nil {
		return 0, err
	}
	names, err := tempsIn(fd)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		if f.leftover(name, remove, deep) {
			n++
		}
	}
	if n > 0 && !remove {
		return n, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.swept == nil {
		s.swept = map[fileID]bool{}
	}
	s.swept[f.id] = true
	return n, nil
}

// tempsIn returns the temporary names in an open folder, and closes it. However
// many others there are, they are not held in memory.
func tempsIn(fd int) (temps []string, err error) {
	dir := os.NewFile(uintptr(fd), "directory")
	for err == nil {
		var names []string
		names, err = dir.Readdirnames(1024)
		for _, name := range names {
			if isTemp(name) {
				temps = append(temps, name)
			}
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return temps, errors.Join(err, dir.Close())
}

// leftover reports that a temporary name belongs to no living call, and removes it
// when that is asked for. What cannot be judged stays.
func (f folder) leftover(name string, remove, deep bool) bool {
	info, err := lstatat(f.fd, name)
	if err != nil {
		return false
	}
	flags, unlink := unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0
	switch info.mode.Type() {
	case linkType: // lives for two calls only, and nothing is lost with it
		return !remove || unix.Unlinkat(f.fd, name, 0) == nil
	case fs.ModeDir:
		flags, unlink = flags|unix.O_DIRECTORY, unix.AT_REMOVEDIR
	case 0:
	default:
		return false
	}
	fd, err := openat(f.fd, name, flags, 0)
	if err != nil {
		return false
	}
	defer closeFD(fd)
	if lockFD(fd) != nil {
		return false
	}
	if deep && info.IsDir() {
		empty(fd)
	}
	if remove {
		return unix.Unlinkat(f.fd, name, unlink) == nil
	}
	return !info.IsDir() || holdsNothing(fd)
}

// holdsNothing reports that an open folder is empty, for sure.
func holdsNothing(dir int) bool {
	fd, err := openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return false
	}
	names, err := namesIn(fd)
	return err == nil && len(names) == 0
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
