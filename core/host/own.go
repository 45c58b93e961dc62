package host

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
)

// ownDirs are where Keel has files of its own on a machine: its lock and what is
// checked, records of restarts, the agent's statuses. Those within another are
// named too, for each can be mounted elsewhere.
func ownDirs() []string {
	return []string{private, "/var/lib/keel", "/var/lib/keel/restart", "/var/lib/keel/node-agent"}
}

var errOwn = errors.New("is among the files of Keel itself: name another path")

// OwnPath reports that a path in its shortest form names one of Keel's own files
// or directories. What leads there by a symlink or a mount only the machine knows:
// Put and Remove refuse that too.
func OwnPath(path string) bool {
	return slices.ContainsFunc(ownDirs(), func(dir string) bool {
		return path == dir || strings.HasPrefix(path, dir+"/")
	})
}

// Own is the same Tree for what Keel itself records: it may write and remove Keel's
// own files. It is closed with t.
func (t *Tree) Own() *Tree {
	with := *t
	with.own = true
	return &with
}

// notOwn refuses a name in the directory where a walk is that is Keel's own, or
// lies in one of its directories by whatever symlinks and mounts lead there. A hard
// link to one of its files is no danger: who has several names is replaced, not
// written to.
func (w *walk) notOwn(name string, there fileID) error {
	if OwnPath(w.join(name)) {
		return errOwn
	}
	for _, dir := range ownDirs() {
		own, err := w.view.walk(dir+"/.", walkOptions{})
		if IsMissing(err) || errors.Is(err, fs.ErrPermission) { // what this user cannot enter he did not make
			continue
		}
		if err != nil {
			return err
		}
		id := own.dir.id
		own.close()
		if w.at.id == id || slices.Contains(w.above, id) || there == id {
			return errOwn
		}
	}
	return nil
}
