package node

import (
	"fmt"
	"slices"

	"github.com/tlspu/keel/api/v1alpha1"
)

// An edit is what a file says now, beside what it said before.
type edit struct {
	folder  *folder
	known   *file
	configs []*config
	data    []*datum
	names   map[string]bool // of NodeConfigs, and titles of data
	mistake error           // the first
	changed bool
}

// note takes down the name of what a document is, and its mistake.
func (e *edit) note(name string, err error) {
	e.names[name] = true
	if e.mistake == nil && err != nil {
		e.mistake = fmt.Errorf("missing in a file with a mistake: %w", err)
	}
}

// config takes a NodeConfig.
func (e *edit) config(source string, doc v1alpha1.Document) {
	c := newConfig(source, doc, e.folder.handlers)
	c.pack()
	if c.err != nil && c.name != "" {
		c.last = e.before(c.name)
	}
	if i := len(e.configs); i < len(e.known.configs) && same(c, e.known.configs[i]) {
		c = e.known.configs[i]
	} else {
		e.changed = true
		e.folder.say(doc, c)
	}
	e.configs = append(e.configs, c)
	e.note(c.name, c.err)
}

// before is the content that is kept in place of one with a mistake.
func (e *edit) before(name string) *config {
	for _, k := range e.known.configs {
		if k.name == name {
			return k.effective()
		}
	}
	return nil
}

// datum takes a ConfigMap or Secret. Where it has a mistake, what it held before
// goes on being used.
func (e *edit) datum(source string, doc v1alpha1.Document) {
	d := newDatum(source, doc)
	for _, k := range e.known.data {
		if d.err != nil && d.named() && k.known && k.data.Title() == d.data.Title() {
			d.data, d.sum, d.known = k.data, k.sum, true
		}
	}
	if i := len(e.data); d.err != nil && (i >= len(e.known.data) || !d.same(e.known.data[i])) {
		e.folder.log.Error("document has a mistake", "err", oneLine(d.fault()))
	}
	e.data = append(e.data, d)
	e.note(d.data.Title(), d.err)
}

// end gives the file its new content, and reports whether it is another. Of a file
// with a mistake half may be missing: what it no longer holds is not gone.
func (e *edit) end() (changed bool) {
	for _, c := range e.known.configs {
		if last := c.effective(); e.mistake != nil && last != nil && !e.names[c.name] {
			e.changed = e.changed || text(c.err) != e.mistake.Error()
			e.configs = append(e.configs, last.faulty(e.mistake))
		}
	}
	for _, d := range e.known.data {
		if e.mistake != nil && d.known && !e.names[d.data.Title()] {
			e.data = append(e.data, d)
		}
	}
	if !slices.EqualFunc(e.data, e.known.data, (*datum).same) {
		e.folder.held++
		e.changed = true
	}
	changed = e.changed || len(e.configs) != len(e.known.configs)
	e.known.err, e.known.configs, e.known.data = nil, e.configs, e.data
	return changed
}

// say logs what a person should know about a document that is new or changed. A
// mistake in one with a name shows in its status and is logged by its visit.
func (f *folder) say(doc v1alpha1.Document, c *config) {
	switch {
	case c.err == nil:
		warn(f.log, c.source, doc, f.handlers)
	case c.name == "":
		f.log.Error("document has a mistake", "err", oneLine(c.fault()))
	}
}
