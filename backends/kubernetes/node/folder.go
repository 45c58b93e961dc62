package node

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/node/facts"
	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"
	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/core/host"
	"github.com/tlspu/keel/core/plugin"
)

const (
	// racy is how old a file must be before its time of change is trusted: file
	// systems count time in ticks of up to two seconds, and two writes may fall
	// into one.
	racy = 3 * time.Second
)

// A folder reads the NodeConfigs in the files of a folder, again and again, and
// each file only when it changed: *.yaml, *.yml and *.json, not hidden ones, and
// not the folders below it. A file that cannot be read is an error that is said
// once, and never a removal: what it held last goes on being kept. It belongs to
// one goroutine.
type folder struct {
	dir      string
	facts    string // file of what the machine cannot know; empty: none
	handlers *plugin.Registry[handler.Handler]
	now      func() time.Time
	log      *slog.Logger
	files    map[string]*file // by name
	round    int              // of scans
	held     int              // number of what ConfigMaps and Secrets hold
	// What changes gave last, and the ConfigMaps and Secrets of number indexed.
	given   map[string]*nodeconfig.Config
	data    nodeconfig.Dataset
	indexed int
}

// A file is what is known about one file.
type file struct {
	path    string
	round   int         // in which it was last there
	info    fs.FileInfo // of the content that was read, or is to be read
	since   time.Time   // when info was first seen
	fresh   bool        // info may hide another write: read again
	read    bool
	err     error                // why the file as a whole cannot be read
	configs []*nodeconfig.Config // in the order of the file
	data    []*nodeconfig.Datum  // the same
}

// changes looks for files that changed, and gives what the directory holds now and
// did not hold before. With eager a file is read at once; otherwise one that was
// written a moment ago is left alone until it has not changed for racy, however
// long that takes, for it may still be growing: a YAML document that is cut off may
// be valid. When the directory itself cannot be read everything stays as it was.
func (f *folder) changes(eager bool) (c changes, err error) {
	changed, err := f.scan(eager)
	if changed {
		c = f.compare()
	}
	return c, err
}

// compare gives what is another than what was given before.
func (f *folder) compare() (c changes) {
	before := f.given
	f.given = map[string]*nodeconfig.Config{}
	for _, config := range f.configs() {
		if config.Name == "" || f.given[config.Name] != nil {
			continue
		}
		f.given[config.Name] = config
		if config != before[config.Name] {
			c.updated = append(c.updated, config)
		}
	}
	for name := range before {
		if f.given[name] == nil {
			c.deleted = append(c.deleted, name)
		}
	}
	if f.held != f.indexed || f.data == nil {
		titles := nodeconfig.Dataset{}
		maps.Copy(titles, f.data)
		f.data, f.indexed = f.index(), f.held
		maps.Copy(titles, f.data)
		c.data = slices.Collect(maps.Keys(titles))
	}
	return c
}

// scan reads the files that changed, and reports whether any says something else.
func (f *folder) scan(eager bool) (changed bool, err error) {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return false, fmt.Errorf("read directory %s: %w", f.dir, nodeconfig.Cause(err))
	}
	if f.files == nil {
		f.files = map[string]*file{}
	}
	f.round++
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") || !isDocument(name) {
			continue
		}
		known := f.files[name]
		if known == nil {
			known = &file{path: filepath.Join(f.dir, name)}
			f.files[name] = known
		}
		known.round = f.round
		if f.visit(known, eager) {
			changed = true
		}
	}
	for name, known := range f.files {
		if known.round != f.round {
			delete(f.files, name)
			changed = true
			f.held += min(1, len(known.data))
		}
	}
	return changed, nil
}

// isDocument reports whether a file of this name holds documents.
func isDocument(name string) bool {
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// visit reads one file if it must be, and reports whether it now says something
// else.
func (f *folder) visit(known *file, eager bool) (changed bool) {
	info, err := os.Stat(known.path)
	if err != nil {
		known.info = nil
		if _, gone := os.Lstat(known.path); errors.Is(gone, fs.ErrNotExist) {
			return false // removed since the folder was listed: the next scan misses it
		}
		return f.broken(known, nodeconfig.Cause(err))
	}
	now := f.now()
	if known.info == nil || !sameFile(known.info, info) {
		known.info, known.since, known.read = info, now, false
		known.fresh = now.Sub(info.ModTime()) < racy
	}
	switch {
	case known.read && !known.fresh:
		return false
	case !known.read && !eager && now.Sub(known.since) < racy && now.Sub(info.ModTime()) < racy:
		return false // it may still be growing
	}
	data, err := nodeconfig.ReadFile(known.path)
	if err != nil {
		known.info = nil
		return f.broken(known, err)
	}
	known.read = true
	known.fresh = known.fresh && now.Sub(known.since) < racy
	return f.take(known, data)
}

// sameFile reports that nothing tells two looks at a file apart.
func sameFile(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode() &&
		host.ChangeTime(a).Equal(host.ChangeTime(b))
}

// broken notes that a file cannot be read as a whole.
func (f *folder) broken(known *file, err error) (changed bool) {
	if known.err != nil && known.err.Error() == err.Error() {
		return false
	}
	known.err = err
	kept := 0
	for i, c := range known.configs {
		if last := c.Effective(); last != nil {
			kept++
			known.configs[i] = last.Faulty(err)
		}
	}
	if kept == 0 {
		f.log.Error("cannot read file; nothing in it is managed until it is fixed", "file", known.path, "err", err)
	} else {
		f.log.Error("cannot read file; keeping its last valid content", "file", known.path, "err", err, "kept", kept)
	}
	return true
}

// take reads the documents of a file.
func (f *folder) take(known *file, data []byte) (changed bool) {
	docs, err := v1alpha1.Parse(data)
	if err == nil && len(docs) == 0 {
		err = errors.New("holds no document; to keep nothing from it any more, remove the file")
	}
	if err != nil {
		return f.broken(known, err)
	}
	e := edit{folder: f, known: known, names: map[string]bool{}, changed: known.err != nil}
	for i, doc := range docs {
		source := known.source(i, len(docs))
		if doc.Data != nil {
			e.datum(source, doc)
		} else {
			e.config(source, doc)
		}
	}
	return e.end()
}

// same reports that two configs say the same.
func same(a, b *nodeconfig.Config) bool {
	return a.Name == b.Name && a.Digest == b.Digest && a.Generation == b.Generation &&
		a.Created.Equal(b.Created) && a.Source == b.Source && nodeconfig.Text(a.Err) == nodeconfig.Text(b.Err)
}

// source names a document in messages.
func (known *file) source(i, of int) string {
	if of > 1 {
		return fmt.Sprintf("%s document %d", known.path, i+1)
	}
	return known.path
}

// configs lists what the files hold, in the order of their names. A name that
// stands in two documents is an error in both.
func (f *folder) configs() []*nodeconfig.Config {
	var configs []*nodeconfig.Config
	for _, name := range slices.Sorted(maps.Keys(f.files)) {
		configs = append(configs, f.files[name].configs...)
	}
	nodeconfig.Twice(configs)
	return configs
}

// index finds ConfigMaps and Secrets in what the files hold.
func (f *folder) index() nodeconfig.Dataset {
	var data []*nodeconfig.Datum
	for _, name := range slices.Sorted(maps.Keys(f.files)) {
		data = append(data, f.files[name].data...)
	}
	return nodeconfig.Index(data)
}

func (f *folder) get(title string) (*v1alpha1.Data, error) { return f.data.Find(title) }

// watch has nothing to do: the files are read as they are.
func (f *folder) watch([]string) {}

func (f *folder) collectFacts(files *host.View) (facts.Facts, []string, error) {
	return nodeconfig.Gather(files, f.facts)
}

// factsVersion never changes: the file of facts is read when facts are collected.
func (f *folder) factsVersion() int { return 0 }

// nameless lists what is wrong with files and documents that have no NodeConfig's
// name to go with.
func (f *folder) nameless() (unread, invalid []error) {
	for _, name := range slices.Sorted(maps.Keys(f.files)) {
		known := f.files[name]
		if known.err != nil {
			unread = append(unread, fmt.Errorf("%s: %w", known.path, known.err))
		}
		for _, c := range known.configs {
			if c.Name == "" {
				invalid = append(invalid, c.Fault())
			}
		}
		for _, d := range known.data {
			if d.Err != nil {
				invalid = append(invalid, d.Fault())
			}
		}
	}
	return unread, invalid
}

// complete reports whether every document of the folder could be read, so that a
// name which none of them has is gone for certain.
func (f *folder) complete() bool {
	for _, known := range f.files {
		if known.err != nil || !known.read {
			return false
		}
		for _, c := range known.configs {
			if c.Name == "" {
				return false
			}
		}
	}
	return true
}
