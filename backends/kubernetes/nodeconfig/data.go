package nodeconfig

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strings"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/node/render"
	"github.com/tlspu/keel/core/drift"
)

// A Datum is a ConfigMap or Secret of a document. Where the document has a mistake
// it holds what it said before, or nothing but err.
type Datum struct {
	source string // the document, for messages
	Data   *v1alpha1.Data
	Known  bool         // data may be used
	Sum    drift.Secret // of its values, in memory only
	Err    error
}

// NewDatum takes the ConfigMap or Secret of a document.
func NewDatum(source string, doc v1alpha1.Document) *Datum {
	d := &Datum{source: source, Data: doc.Data, Known: doc.Err == nil, Err: doc.Err}
	d.Sum = drift.NewSecret(packed(doc.Data.Values))
	return d
}

// Named reports whether the document tells which object it is.
func (d *Datum) Named() bool { return d.Data.Name != "" }

// Same reports that two say the same.
func (d *Datum) Same(other *Datum) bool {
	return d.source == other.source && d.Data.Title() == other.Data.Title() && d.Known == other.Known && d.Sum == other.Sum &&
		d.Data.UID == other.Data.UID && d.Data.ResourceVersion == other.Data.ResourceVersion && Text(d.Err) == Text(other.Err)
}

// Fault is the datum's error with the document it is in.
func (d *Datum) Fault() error { return fmt.Errorf("%s: %w", d.source, d.Err) }

// A Dataset finds ConfigMaps and Secrets by their titles.
type Dataset map[string][]*Datum

// Index puts the ConfigMaps and Secrets of documents under their titles. A datum
// that is nil is none.
func Index(data []*Datum) Dataset {
	set := Dataset{}
	for _, d := range data {
		if d != nil && d.Named() {
			set[d.Data.Title()] = append(set[d.Data.Title()], d)
		}
	}
	return set
}

// twice gives every datum that another document holds too an error.
func (s Dataset) twice() {
	for title := range s {
		if _, err := s.Find(title); len(s[title]) > 1 {
			for _, d := range s[title] {
				d.Err = errors.Join(d.Err, err)
			}
		}
	}
}

// Find gives a ConfigMap or Secret, or nil when no document holds it. The error
// says that one does and cannot be used.
func (s Dataset) Find(title string) (*v1alpha1.Data, error) {
	found := s[title]
	switch {
	case len(found) == 0:
		return nil, nil
	case len(found) > 1:
		return nil, fmt.Errorf("%s is in %s and in %s: remove one", title, found[0].source, found[1].source)
	case !found[0].Known:
		return nil, fmt.Errorf("%s is invalid: %w", title, found[0].Fault())
	}
	return found[0].Data, nil
}

// A reading is what a NodeConfig reads: the data for its templates, and what tells
// another content.
type reading struct {
	configMaps, secrets []render.Object
	// digest is of what every ConfigMap holds, and of each Secret's UID and
	// resourceVersion, never of what it holds: it is stored.
	digest string
	// sum is of what the Secrets hold, for those that have no version. It stays in
	// memory.
	sum drift.Secret
}

// collect finds what a NodeConfig reads. The error names everything that is not
// there and not optional.
func collect(spec v1alpha1.NodeConfigSpec, find func(title string) (*v1alpha1.Data, error)) (r reading, err error) {
	var errs []error
	sum := sha256.New()
	var contents []byte
	take := func(field, kind string, refs []v1alpha1.DataRef) (objects []render.Object) {
		for i, ref := range refs {
			o := render.Object{As: ref.As, Title: ref.Title(kind)}
			data, err := find(o.Title)
			if data == nil && err == nil && !ref.Optional {
				err = fmt.Errorf("%s is not there", o.Title)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("spec.%s[%d]: %w", field, i, err))
				continue
			}
			write(sum, o.Title, ref.As)
			if o.Absent = data == nil; !o.Absent {
				o.Values = data.Values
				if kind == v1alpha1.SecretKind {
					write(sum, string(data.UID), data.ResourceVersion)
					contents = append(append(contents, o.Title...), packed(data.Values)...)
				} else {
					write(sum, string(packed(data.Values)))
				}
			}
			objects = append(objects, o)
		}
		return objects
	}
	r.configMaps = take("configMaps", v1alpha1.ConfigMapKind, spec.ConfigMaps)
	r.secrets = take("secrets", v1alpha1.SecretKind, spec.Secrets)
	if len(r.configMaps)+len(r.secrets) > 0 {
		r.digest, r.sum = hex.EncodeToString(sum.Sum(nil)), drift.NewSecret(contents)
	}
	return r, errors.Join(errs...)
}

// write adds texts to a digest, so that no two lists of them give the same.
func write(h hash.Hash, texts ...string) {
	for _, text := range texts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(text)))
		h.Write(size[:])
		h.Write([]byte(text))
	}
}

// packed is a mapping as bytes, the same for equal ones alone.
func packed(m map[string]string) []byte {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(m)) {
		for _, text := range []string{key, m[key]} {
			fmt.Fprintf(&b, "%d:%s", len(text), text)
		}
	}
	return []byte(b.String())
}
