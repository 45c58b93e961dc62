package host

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	linkType = fs.ModeSymlink
	maxLinks = 40 // as the kernel has it
)

// A folder is one folder that a walk holds open.
type folder struct {
	fd   int
	uid  int
	gid  int
	id   fileID
	view *View // whose root it is; nil: the descriptor is the folder's own
}

func (f folder) close() {
	if f.view == nil {
		closeFD(f.fd)
	}
	runtime.KeepAlive(f.view)
}

// A place is where a path ends: a name in an open folder, and what is there.
type place struct {
	dir     folder
	name    string // "." is the folder itself
	path    string // the machine's own, without links
	there   bool
	info    Info      // when there
	leading []leading // the links that led here
	linked  bool      // by a link in the last component
	w       *walk
}

func (p *place) close() { p.dir.close() }

// leading is a link on the way whose owners must own what it leads to.
type leading struct {
	path   string
	owners []int
}

// admits says whether the owner rule lets a path end at what info describes.
// Whoever opens the place's name asks again about what was really opened.
func (p *place) admits(info Info) error {
	if info.IsDir() && p.name != "." {
		if err := p.w.mayEnter(p.dir, info, p.name); err != nil {
			return err
		}
	}
	for _, l := range p.leading {
		if err := l.admits(p.path, info.UID); err != nil {
			return err
		}
	}
	return nil
}

func (l leading) admits(path string, uid int) error {
	for _, owner := range l.owners {
		if owner != uid {
			return fmt.Errorf("%s is a symlink that user %d made or may replace, and leads to %s of user %d: refused; name that path itself", l.path, owner, path, uid)
		}
	}
	return nil
}

// walkOptions say how a path is walked.
type walkOptions struct {
	follow  bool                             // a link in the last component
	noLinks bool                             // refuse every link
	mkdir   func(w *walk, name string) error // makes a missing folder that the caller named
}

// A step is one component still to walk, or the end of a link's text.
type step struct {
	name   string
	linked bool // from a link's text
	end    *leading
}

// A walk goes from the root to one place.
type walk struct {
	view  *View
	opts  walkOptions
	at    folder
	above []fileID // the folders above at, the root first
	names []string // their names and at's
	todo  []step   // the next one last
	via   string   // the first symlink on the way
	turns int
}

// walk finds the place that a path names. Only the last component may be
// missing. The caller closes the place.
func (v *View) walk(path string, o walkOptions) (*place, error) {
	if path == "" || strings.IndexByte(path, 0) >= 0 {
		return nil, unix.EINVAL
	}
	w := &walk{view: v, opts: o, at: v.top()}
	w.push(path, false)
	p, err := w.run()
	if err != nil {
		w.at.close()
		return nil, err
	}
	return p, nil
}

// push puts a text's components in front of what is still to walk. A text that
// ends in a slash names a folder, so "." is its last component.
func (w *walk) push(text string, linked bool) {
	parts := strings.Split(text, "/")
	if last := parts[len(parts)-1]; last == "" || last == "." {
		w.todo = append(w.todo, step{name: ".", linked: linked})
	}
	for i := len(parts) - 1; i >= 0; i-- {
		if parts[i] != "" && parts[i] != "." {
			w.todo = append(w.todo, step{name: parts[i], linked: linked})
		}
	}
}

func (w *walk) run() (*place, error) {
	for len(w.todo) > 0 {
		s := w.todo[len(w.todo)-1]
		w.todo = w.todo[:len(w.todo)-1]
		var err error
		switch {
		case s.end != nil:
			err = s.end.admits(w.path(), w.at.uid)
		case s.name == ".":
		case s.name == "..":
			err = w.up()
		case w.last():
			p, err := w.finish(s)
			if p != nil || err != nil {
				return p, err
			}
		default:
			err = w.enter(s)
		}
		if err != nil {
			return nil, err
		}
	}
	info, err := fstat(w.at.fd, ".")
	if err != nil {
		return nil, err
	}
	return &place{dir: w.at, name: ".", path: w.path(), there: true, info: info, w: w}, nil
}

// last reports that no component is left, only ends of links.
func (w *walk) last() bool {
	for _, s := range w.todo {
		if s.end == nil {
			return false
		}
	}
	return true
}

// path is the machine's own path of the folder the walk is in.
func (w *walk) path() string { return "/" + strings.Join(w.names, "/") }

func (w *walk) join(name string) string {
	return strings.TrimSuffix(w.path(), "/") + "/" + name
}

// enter goes into the folder of that name, or starts on a link's text.
func (w *walk) enter(s step) error {
	for made := false; ; { // a name may change hands between two calls
		fd, err := openDir(w.at.fd, s.name)
		if err == nil {
			return w.into(fd, s.name)
		}
		if errors.Is(err, unix.ENOENT) && w.opts.mkdir != nil && !s.linked && !made {
			if err := w.opts.mkdir(w, s.name); err != nil {
				return err
			}
			made = true
			continue
		}
		if errors.Is(err, unix.ENOENT) && s.linked {
			return fmt.Errorf("a symlink leads to %s, which is not there: %w", w.join(s.name), err)
		}
		if !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.EMLINK) {
			return err
		}
		text, info, err := readLink(w.at.fd, s.name)
		if err == nil {
			return w.link(s.name, text, info)
		}
		if !errors.Is(err, unix.EINVAL) {
			return err
		}
		if info, err := lstatat(w.at.fd, s.name); err != nil || !info.IsDir() {
			if err == nil {
				err = fmt.Errorf("%s is %s, not a directory: %w", w.join(s.name), info.Kind(), unix.ENOTDIR)
			}
			return err
		}
		if err := w.turn(s.name); err != nil {
			return err
		}
	}
}

// turn counts links and second looks, so that a walk comes to its end.
func (w *walk) turn(name string) error {
	if w.turns++; w.turns > maxLinks {
		return fmt.Errorf("%s: more than %d symlinks: %w", w.join(name), maxLinks, unix.ELOOP)
	}
	return nil
}

// into makes an opened folder the one the walk is in.
func (w *walk) into(fd int, name string) error {
	info, err := fstat(fd, name)
	if err == nil {
		err = w.mayEnter(w.at, info, name)
	}
	if err != nil {
		closeFD(fd)
		return err
	}
	w.above = append(w.above, w.at.id)
	w.names = append(w.names, name)
	w.at.close()
	w.at = folder{fd: fd, uid: info.UID, gid: info.GID, id: info.id}
	return nil
}

// mayEnter is the owner rule for folders: a user's folder leads to no folder
// of somebody else, for who may rename it in could have put it there.
func (w *walk) mayEnter(parent folder, child Info, name string) error {
	if w.view.trusts(parent.uid) || parent.uid == child.UID || onProc(parent) {
		return nil
	}
	return fmt.Errorf("%s of user %d lies in a directory of user %d, who may have moved it there: refused; chown one of the two", w.join(name), child.UID, parent.uid)
}

// link puts a link's text in front of what is still to walk.
func (w *walk) link(name, text string, info Info) error {
	path := w.join(name)
	if w.opts.noLinks {
		return fmt.Errorf("%s is a symlink, and none is allowed here", path)
	}
	if err := w.turn(name); err != nil {
		return err
	}
	magic, err := magicLinks(w.at)
	if err != nil {
		return err
	}
	if magic {
		return fmt.Errorf("%s is a magic link of proc, which may lead out of this root: refused", path)
	}
	if text == "" {
		return unix.ENOENT
	}
	w.via = cmp.Or(w.via, path)
	var owners []int
	for _, uid := range []int{info.UID, w.at.uid} {
		if !w.view.trusts(uid) {
			owners = append(owners, uid)
		}
	}
	if owners != nil {
		w.todo = append(w.todo, step{end: &leading{path: path, owners: owners}})
	}
	w.push(text, true)
	if text[0] == '/' {
		w.at.close()
		w.at, w.above, w.names = w.view.top(), nil, nil
	}
	return nil
}

// up goes to the folder above and never above the root. A folder that was
// moved since it was entered has another one above it, and is refused.
func (w *walk) up() error {
	n := len(w.above)
	if n == 0 {
		return nil
	}
	fd, err := openDir(w.at.fd, "..")
	if err != nil {
		return err
	}
	info, err := fstat(fd, "..")
	if err == nil && info.id != w.above[n-1] {
		err = fmt.Errorf("%s was moved while it was walked: %w", w.path(), unix.EAGAIN)
	}
	if err != nil {
		closeFD(fd)
		return err
	}
	w.at.close()
	w.at = folder{fd: fd, uid: info.UID, gid: info.GID, id: info.id}
	w.above, w.names = w.above[:n-1], w.names[:n-1]
	return nil
}

// locked makes an error of a read-only file system name the symlink that leads to
// name on it.
func (w *walk) locked(name string, err error) error {
	if w.via == "" || !IsReadOnly(err) {
		return err
	}
	return fmt.Errorf("the symlink %s leads to %s: %w", w.via, w.join(name), err)
}

// finish ends the walk at the last component, or starts on a link's text.
func (w *walk) finish(s step) (*place, error) {
	p := &place{dir: w.at, name: s.name, path: w.join(s.name), linked: s.linked, w: w}
	for i := len(w.todo) - 1; i >= 0; i-- {
		p.leading = append(p.leading, *w.todo[i].end)
	}
	info, err := lstatat(w.at.fd, s.name)
	if errors.Is(err, unix.ENOENT) {
		for _, l := range p.leading { // what will be made there is the folder owner's to replace
			if err := l.admits(w.path(), w.at.uid); err != nil {
				return nil, err
			}
		}
		return p, nil
	}
	if err != nil {
		return nil, err
	}
	if info.mode.Type() == linkType && (w.opts.follow || w.opts.noLinks) {
		text, info, err := readLink(w.at.fd, s.name)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) { // no longer a link
			w.todo = append(w.todo, s)
			return nil, w.turn(s.name)
		}
		if err != nil {
			return nil, err
		}
		return nil, w.link(s.name, text, info)
	}
	p.there, p.info = true, info
	if err := p.admits(info); err != nil {
		return nil, err
	}
	return p, nil
}
