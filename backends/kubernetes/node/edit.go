package node

import (
	"fmt"
	"slices"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"
	"github.com/tlspu/keel/core/plugin"
)

// An edit is what a file says now, beside what it said before.
type edit struct {
	folder  *folder
	known   *file
	configs []*nodeconfig.Config
	data    []*nodeconfig.Datum
	names   map[string]bool // of NodeConfigs, and titles of data
	mistake error           // the first
	changed bool
}

// note takes down the name of what a document is, and its mistake.
func (e *edit) note(name string, err error) {
	e.names[name] = true
	if e.mistake == nil && err != nil {
		e.mistake = fmt.Errorf("missing in a file that has an error: %w", err)
	}
}

// config takes a NodeConfig.
func (e *edit) config(source string, doc v1alpha1.Document) {
	c := nodeconfig.New(source, doc, e.folder.handlers)
	c.Pack()
	if c.Err != nil && c.Name != "" {
		c.Last = e.before(c.Name)
	}
	if i := len(e.configs); i < len(e.known.configs) && same(c, e.known.configs[i]) {
		c = e.known.configs[i]
	} else {
		e.changed = true
		e.folder.say(doc, c)
	}
	e.configs = append(e.configs, c)
	e.note(c.Name, c.Err)
}

// before is the content that is kept in place of one with a mistake.
func (e *edit) before(name string) *nodeconfig.Config {
	for _, k := range e.known.configs {
		if k.Name == name {
			return k.Effective()
		}
	}
	return nil
}

// datum takes a ConfigMap or Secret. Where it has a mistake, what it held before
// goes on being used.
func (e *edit) datum(source string, doc v1alpha1.Document) {
	d := nodeconfig.NewDatum(source, doc)
	for _, k := range e.known.data {
		if d.Err != nil && d.Named() && k.Known && k.Data.Title() == d.Data.Title() {
			d.Data, d.Sum, d.Known = k.Data, k.Sum, true
		}
	}
	if i := len(e.data); d.Err != nil && (i >= len(e.known.data) || !d.Same(e.known.data[i])) {
		e.folder.log.Error("document is invalid", "err", plugin.OneLine(d.Fault()))
	}
	e.data = append(e.data, d)
	e.note(d.Data.Title(), d.Err)
}

// end gives the file its new content, and reports whether it is another. Of a file
// with a mistake half may be missing: what it no longer holds is not gone.
func (e *edit) end() (changed bool) {
	for _, c := range e.known.configs {
		if last := c.Effective(); e.mistake != nil && last != nil && !e.names[c.Name] {
			e.changed = e.changed || nodeconfig.Text(c.Err) != e.mistake.Error()
			e.configs = append(e.configs, last.Faulty(e.mistake))
		}
	}
	for _, d := range e.known.data {
		if e.mistake != nil && d.Known && !e.names[d.Data.Title()] {
			e.data = append(e.data, d)
		}
	}
	if !slices.EqualFunc(e.data, e.known.data, (*nodeconfig.Datum).Same) {
		e.folder.held++
		e.changed = true
	}
	changed = e.changed || len(e.configs) != len(e.known.configs)
	e.known.err, e.known.configs, e.known.data = nil, e.configs, e.data
	return changed
}

// say logs what a person should know about a document that is new or changed. A
// mistake in one with a name shows in its status and is logged by its visit.
func (f *folder) say(doc v1alpha1.Document, c *nodeconfig.Config) {
	switch {
	case c.Err == nil:
		nodeconfig.Warn(f.log, c.Source, doc, f.handlers)
	case c.Name == "":
		f.log.Error("document is invalid", "err", plugin.OneLine(c.Fault()))
	}
}
