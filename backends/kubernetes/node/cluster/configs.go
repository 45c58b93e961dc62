package cluster

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	kjson "sigs.k8s.io/json"

	"github.com/tlspu/keel/api/v1alpha1"
)

// A NodeConfig is one that is new or says something else than before.
type NodeConfig struct {
	Known
	Name     string
	Created  time.Time
	Document v1alpha1.Document // judged as a document of a file is
	// Ignored names the fields that this version does not know: the API server has a
	// CRD of another.
	Ignored []string
}

// configs is the store of the watch on NodeConfigs. Of those that were taken it
// keeps what tells changes, and not what they say.
type configs struct {
	node    string
	changed func()

	mu     sync.Mutex
	known  map[string]*record
	news   map[string]NodeConfig // not taken yet
	gone   map[string]bool       // the same
	synced bool
}

// A record is what is kept of a NodeConfig.
type record struct {
	Known
	spec [32]byte // digest
}

func newConfigs(node string, changed func()) *configs {
	return &configs{node: node, changed: changed, known: map[string]*record{}, news: map[string]NodeConfig{}, gone: map[string]bool{}}
}

// take gives what changed since it was called last.
func (s *configs) take() (news []NodeConfig, gone []string, synced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.news {
		news = append(news, c)
	}
	for name := range s.gone {
		gone = append(gone, name)
	}
	clear(s.news)
	clear(s.gone)
	return news, gone, s.synced
}

func (s *configs) get(name string) (Known, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.known[name]
	if r == nil {
		return Known{}, false
	}
	return r.Known, true
}

// Transformer makes objects small as soon as they are read.
func (s *configs) Transformer() cache.TransformFunc {
	return func(v any) (any, error) {
		if o, ok := v.(*object); ok {
			o.slim(s.node)
		}
		return v, nil
	}
}

// Add takes an object that is new or changed. Only a change of what it says, or of
// which object it is, is news: others' statuses and metadata are none.
func (s *configs) Add(v any) error {
	o, ok := v.(*object)
	if !ok {
		return fmt.Errorf("a %T came for a NodeConfig", v)
	}
	s.mu.Lock()
	news := s.put(o)
	s.mu.Unlock()
	if news {
		s.changed()
	}
	return nil
}

// Update is Add.
func (s *configs) Update(v any) error { return s.Add(v) }

// Delete notes that a NodeConfig is gone.
func (s *configs) Delete(v any) error {
	o, ok := v.(*object)
	if !ok {
		return fmt.Errorf("a %T came for a NodeConfig that is gone", v)
	}
	s.mu.Lock()
	s.drop(o.Name)
	s.mu.Unlock()
	s.changed()
	return nil
}

// Replace takes the whole list, as at the start and after the watch was broken.
func (s *configs) Replace(list []any, _ string) error {
	s.mu.Lock()
	there := make(map[string]bool, len(list))
	for _, v := range list {
		if o, ok := v.(*object); ok {
			there[o.Name] = true
			s.put(o)
		}
	}
	for name := range s.known {
		if !there[name] {
			s.drop(name)
		}
	}
	s.synced = true
	s.mu.Unlock()
	s.changed()
	return nil
}

// Resync has nothing to do.
func (s *configs) Resync() error { return nil }

func (s *configs) drop(name string) {
	delete(s.known, name)
	delete(s.news, name)
	s.gone[name] = true
}

// put notes an object and reports whether it says something new.
func (s *configs) put(o *object) (news bool) {
	o.slim(s.node)
	r := record{spec: sha256.Sum256(o.Spec), Known: Known{
		UID: o.UID, ResourceVersion: o.ResourceVersion, Generation: o.Generation,
		Observed: o.Status.ObservedGeneration, Own: o.own(s.node), Size: o.bytes,
	}}
	before := s.known[o.Name]
	s.known[o.Name] = &r
	if before != nil && before.UID == r.UID && before.Generation == r.Generation && before.spec == r.spec {
		return false
	}
	doc, ignored := o.document()
	s.news[o.Name] = NodeConfig{Known: r.Known, Name: o.Name, Created: o.CreationTimestamp.Time, Document: doc, Ignored: ignored}
	delete(s.gone, o.Name)
	return true
}

// document judges an object as if it stood in a file. What this version does not
// know is left out and named: a file with it would be refused, but here somebody
// wrote it for a version that knows it.
func (o *object) document() (doc v1alpha1.Document, ignored []string) {
	var spec v1alpha1.NodeConfigSpec
	strict, err := kjson.UnmarshalStrict(o.Spec, &spec)
	for _, e := range strict {
		if field := (kjson.FieldError)(nil); errors.As(e, &field) {
			ignored = append(ignored, "spec."+field.FieldPath())
		}
	}
	slices.Sort(ignored)
	if err == nil {
		doc = read(o.ObjectMeta, spec)
	} else {
		doc = v1alpha1.Document{NodeConfig: &v1alpha1.NodeConfig{}, Err: fmt.Errorf("spec: %w", err)}
	}
	doc.NodeConfig.Name, doc.NodeConfig.Generation, doc.NodeConfig.CreationTimestamp = o.Name, o.Generation, o.CreationTimestamp
	return doc, ignored
}

// read has the parser of files judge a spec: one set of rules for all sources.
func read(meta metav1.ObjectMeta, spec v1alpha1.NodeConfigSpec) v1alpha1.Document {
	file, err := json.Marshal(struct {
		APIVersion string                  `json:"apiVersion"`
		Kind       string                  `json:"kind"`
		Metadata   map[string]string       `json:"metadata"`
		Spec       v1alpha1.NodeConfigSpec `json:"spec"`
	}{v1alpha1.GroupVersion.String(), v1alpha1.Kind, map[string]string{"name": meta.Name}, spec})
	if err != nil {
		return v1alpha1.Document{NodeConfig: &v1alpha1.NodeConfig{}, Err: err}
	}
	doc := v1alpha1.ParseOne(file)
	if doc.Err != nil {
		doc.Err = errors.New(unline(doc.Err.Error()))
	}
	return doc
}

// unline takes "line 1: " away, which says nothing about an object.
func unline(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, "line 1: ")
	}
	return strings.Join(lines, "\n")
}

// slim drops what one node has no use for. A second call changes nothing.
func (o *object) slim(node string) {
	if o.bytes == 0 {
		o.bytes = o.size()
	}
	o.ManagedFields = nil
	if own := o.own(node); own == nil {
		o.Status.Nodes = nil
	} else if data, err := json.Marshal(map[string]any{node: own}); err == nil {
		o.Status.Nodes = data
	}
}

// own is this node's entry of the status, read without the others'. One that
// cannot be read is none: it will be written anew.
func (o *object) own(node string) *v1alpha1.NodeStatus {
	if !bytes.Contains(o.Status.Nodes, []byte(`"`+node+`"`)) {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(o.Status.Nodes))
	if _, err := dec.Token(); err != nil {
		return nil
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil
		}
		if key == node {
			s := new(v1alpha1.NodeStatus)
			if dec.Decode(s) != nil {
				return nil
			}
			return s
		}
		if dec.Decode(new(json.RawMessage)) != nil {
			return nil
		}
	}
	return nil
}
