package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tlspu/keel/core/plugin"
)

// instanceKind is the kind of a document with version 1 and no kind: an
// appliance's specification.
const instanceKind = "Instance"

// document is one document that an operator gave, or why there is none.
type document struct {
	doc    plugin.Doc
	kind   string
	empty  bool // nothing but comments
	noKind bool
	err    error // read, and of no use; or not read at all
	code   int   // exit code that goes with err
}

// documents reads what -f names, files in the order given. Nothing to read is an
// entry with an error, so that the rest goes on.
func (a *app) documents(ctx context.Context, names []string) ([]document, error) {
	var docs []document
	for _, name := range names {
		found, err := a.open(ctx, name)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err != nil {
			found = []document{unreadable(name, err)}
		}
		docs = append(docs, found...)
	}
	kinds := a.kinds()
	for i := range docs {
		d := &docs[i]
		if d.err == nil {
			if _, err := kinds.Lookup(d.kind); err != nil {
				d.err, d.code = err, exitInvalid
			}
		}
		if d.noKind {
			d.err = fmt.Errorf("%w%s", d.err, kindHint(kinds.Names()))
		}
	}
	return docs, nil
}

// kindHint says which kinds there are to a document that names none.
func kindHint(names []string) string {
	others := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == instanceKind })
	text := ""
	if len(others) > 0 {
		text = " (" + strings.Join(others, ", ") + ")"
	}
	if len(others) < len(names) {
		text += "; an appliance's description has no kind and starts with version: 1 (a number)"
	}
	return text
}

// open reads one argument of -f.
func (a *app) open(ctx context.Context, name string) ([]document, error) {
	if name == "-" {
		data, err := a.readStdin(ctx)
		if err != nil {
			return nil, err
		}
		return split(stdin, data)
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return a.openFolder(ctx, name)
	}
	data, err := readFile(ctx, name)
	if err != nil {
		return nil, err
	}
	return split(name, data)
}

// openFolder reads the files of a folder; a broken one does not hide the others.
func (a *app) openFolder(ctx context.Context, name string) ([]document, error) {
	files, err := listFolder(name)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no documents (no *.yaml, *.yml or *.json)", plugin.Printable(name))
	}
	found := make([][]document, len(files))
	sideBySide(len(files), func(i int) {
		if ctx.Err() != nil {
			return
		}
		data, err := readEntry(ctx, files[i])
		if err == nil {
			found[i], err = split(files[i], data)
		}
		if err != nil {
			found[i] = []document{unreadable(files[i], err)}
		}
	})
	return slices.Concat(found...), ctx.Err()
}

// sideBySide calls f for 0 to n-1, on as many processors as there are.
func sideBySide(n int, f func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}

// unreadable is the entry for a source that gives no document.
func unreadable(source string, err error) document {
	if source == "-" {
		source = stdin
	}
	source = plugin.Printable(source)
	return document{doc: plugin.Doc{Source: source}, err: errors.New(strings.TrimPrefix(err.Error(), source+": ")), code: exitUnreadable}
}

// kinds are all kinds of document that the backends understand; data is under the
// kind that refers to it. Two of one name are a mistake in the program: it panics.
func (a *app) kinds() *plugin.Registry[plugin.Kind] {
	kinds := plugin.NewRegistry[plugin.Kind]("kind")
	for _, name := range a.set.Backends.Names() {
		backend, _ := a.set.Backends.Lookup(name) // it was just listed
		for _, kind := range backend.Kinds {
			kinds.Register(kind.Name, kind)
			for _, data := range kind.Data {
				kinds.Register(data, kind)
			}
		}
	}
	return kinds
}

// batch is the documents of one kind and its data, in their order. at says which of
// all documents each one is.
type batch struct {
	kind plugin.Kind
	docs []plugin.Doc
	at   []int
}

// batches sorts documents by kind, in order of first appearance.
func (a *app) batches(docs []document) []batch {
	kinds := a.kinds()
	var list []batch
	number := map[string]int{}
	for at, d := range docs {
		if d.err != nil {
			continue
		}
		kind, _ := kinds.Lookup(d.kind) // documents did so
		i, ok := number[kind.Name]
		if !ok {
			i = len(list)
			number[kind.Name] = i
			list = append(list, batch{kind: kind})
		}
		list[i].docs = append(list[i].docs, d.doc)
		list[i].at = append(list[i].at, at)
	}
	return list
}
