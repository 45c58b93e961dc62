// Package nodeconfig takes a NodeConfig from document to target on this node: read
// and judged (New), resolved with facts, ConfigMaps and Secrets (Config.Resolve), in
// conflict with others or not (Conflicts), a target for the engine (Machine.Target).
// The command line (Kind) and the agent do all of it alike.
package nodeconfig

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/node/render"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/core/plugin"
)

// A Config is one NodeConfig that was read and judged. It is not changed once it
// is made, and packed where it is to be kept.
type Config struct {
	Source     string // the document, for messages
	Name       string // of the NodeConfig; empty where the document does not tell
	Handler    string // spec.type
	UID        types.UID
	Created    time.Time
	Generation int64
	Spec       v1alpha1.NodeConfigSpec // empty when packed
	packed     []byte                  // spec as JSON
	Digest     string                  // of packed; empty beside an err
	Interval   time.Duration
	Suspend    bool
	claims     []string
	vague      bool     // claims are not all
	Reads      []string // titles of the ConfigMaps and Secrets
	Ignored    []string // fields and parameters that have no effect
	depends    bool     // on this node: it has templates, a selector, or reads data
	// What resolve adds: that the selector does not match; that there are Secrets, and
	// what tells their contents apart.
	Excluded  bool
	sensitive bool
	Hidden    []string // what came from Secrets; only of what is visited
	Secrets   drift.Secret
	// err says why this content cannot be kept; last is then the content that is
	// kept instead, where an earlier one is known.
	Err   error
	Last  *Config
	twice bool // err says that another document has the name too
}

// New judges a document. What is wrong with it is in the config's err.
func New(source string, doc v1alpha1.Document, handlers *plugin.Registry[handler.Handler]) *Config {
	return judged(source, doc, handlers, false)
}

// judged is New, which accepts typing errors in the names of parameters or not.
func judged(source string, doc v1alpha1.Document, handlers *plugin.Registry[handler.Handler], typos bool) *Config {
	nc := doc.NodeConfig
	c := &Config{
		Source: source, Name: nc.Name, Handler: nc.Spec.Type, UID: nc.UID, Created: nc.CreationTimestamp.Time, Generation: nc.Generation,
		Spec: nc.Spec, Suspend: nc.Spec.Suspend, Err: doc.Err,
	}
	c.claims, c.vague = claimed(nc, handlers)
	c.Ignored = idleParams(nc.Spec, handlers)
	c.depends, c.Reads = depends(nc.Spec), reads(nc.Spec)
	if i := nc.Spec.Interval; i != nil && i.Duration >= v1alpha1.MinInterval {
		c.Interval = nc.Spec.Interval.Duration
	}
	if c.Err == nil {
		c.Err = judge(nc.Spec, handlers)
	}
	if doc.Err == nil && !typos {
		c.Err = errors.Join(checkTypos(nc.Spec, handlers), c.Err)
	}
	return c
}

// Pack makes a config small that was just made: an agent may have ten thousand of
// them and needs few at a time. What it says can be told by its digest.
func (c *Config) Pack() {
	spec := c.Spec
	c.Spec = v1alpha1.NodeConfigSpec{}
	if c.Err != nil {
		return
	}
	if c.packed, c.Err = json.Marshal(spec); c.Err == nil {
		sum := sha256.Sum256(c.packed)
		c.Digest = "sha256:" + hex.EncodeToString(sum[:])
	}
}

// depends reports whether a spec may say something else on another node.
func depends(spec v1alpha1.NodeConfigSpec) bool {
	templates := slices.ContainsFunc(spec.Services, v1alpha1.IsTemplate)
	for _, value := range spec.Params {
		templates = templates || v1alpha1.IsTemplate(value)
	}
	return templates || spec.NodeSelector != nil || len(spec.ConfigMaps)+len(spec.Secrets) > 0
}

// reads lists the titles of what a spec reads.
func reads(spec v1alpha1.NodeConfigSpec) (titles []string) {
	for _, ref := range spec.ConfigMaps {
		titles = append(titles, ref.Title(v1alpha1.ConfigMapKind))
	}
	for _, ref := range spec.Secrets {
		titles = append(titles, ref.Title(v1alpha1.SecretKind))
	}
	return titles
}

// judge checks what needs the handler.
func judge(spec v1alpha1.NodeConfigSpec, handlers *plugin.Registry[handler.Handler]) error {
	h, err := handlers.Lookup(spec.Type)
	if err != nil {
		return fmt.Errorf("spec.type: %w", err)
	}
	errs := []error{h.Validate(spec.Params)}
	listed := render.Data{ConfigMaps: names(spec.ConfigMaps), Secrets: names(spec.Secrets)}
	for _, key := range slices.Sorted(maps.Keys(spec.Params)) {
		if err := render.Check(spec.Params[key], listed); err != nil {
			errs = append(errs, fmt.Errorf("spec.params.%s: %w", key, err))
		}
	}
	for i, unit := range spec.Services {
		if !v1alpha1.IsTemplate(unit) {
			errs = append(errs, v1alpha1.CheckUnit(unit))
			continue
		}
		if err := render.Check(unit, listed); err != nil {
			errs = append(errs, fmt.Errorf("spec.services[%d]: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

// names are the objects that refs list, of which nothing but the name is known.
func names(refs []v1alpha1.DataRef) []render.Object {
	objects := make([]render.Object, len(refs))
	for i, ref := range refs {
		objects[i].As = ref.As
	}
	return objects
}

// Effective is the content that is to be kept, or nil.
func (c *Config) Effective() *Config {
	if c.Err == nil {
		return c
	}
	return c.Last
}

// Why a NodeConfig leaves the machine alone.
const (
	Suspended = "suspended"
	Excluded  = "nodeSelector does not match this node"
	Gone      = "is gone"
)

// Idle says why c leaves the machine alone, or nothing.
func (c *Config) Idle() string {
	switch {
	case c.Excluded:
		return Excluded
	case c.Suspend:
		return Suspended
	}
	return ""
}

// Faulty is a config that is kept although its file has a mistake.
func (c *Config) Faulty(err error) *Config {
	bad := *c
	bad.Err, bad.Last = err, c
	return &bad
}

// Fault is err with the document it is in.
func (c *Config) Fault() error {
	if c.Err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", c.Source, c.Err)
}

// Unpack gives the specification, as it is on this node once it was resolved. It
// is not to be changed.
func (c *Config) Unpack() (spec v1alpha1.NodeConfigSpec, err error) {
	if c.packed == nil {
		return c.Spec, nil
	}
	if err := json.Unmarshal(c.packed, &spec); err != nil {
		return spec, fmt.Errorf("unpack %s: %w", c.Name, err)
	}
	return spec, nil
}

// older reports whether c has the better right to what both claim: the smaller
// creation time, then the name. One without a time comes last, so that a copy of
// an object of the API server, which has one, keeps its right.
func (c *Config) older(d *Config) bool {
	switch {
	case c.Created.IsZero() != d.Created.IsZero():
		return d.Created.IsZero()
	case !c.Created.Equal(d.Created):
		return c.Created.Before(d.Created)
	}
	return c.Name < d.Name
}

// idleParams names the parameters that the handler does not know. They are
// accepted, since a newer version may know them.
func idleParams(spec v1alpha1.NodeConfigSpec, handlers *plugin.Registry[handler.Handler]) (names []string) {
	unknown, _ := unknownParams(spec, handlers)
	for _, key := range unknown {
		names = append(names, "spec.params."+key)
	}
	return names
}

// checkTypos refuses an unknown parameter that is at most two letters from a known
// one that is not given: with it ignored, the known one would have its default.
func checkTypos(spec v1alpha1.NodeConfigSpec, handlers *plugin.Registry[handler.Handler]) error {
	unknown, known := unknownParams(spec, handlers)
	known = slices.DeleteFunc(known, func(name string) bool { _, given := spec.Params[name]; return given })
	var errs []error
	for _, key := range unknown {
		if near := plugin.Typo(key, known); near != "" {
			errs = append(errs, fmt.Errorf("spec.params.%s: unknown parameter; write %s, or accept it with --allow-unknown-params", key, near))
		}
	}
	return errors.Join(errs...)
}

// unknownParams are the parameters that the handler does not know, and those that
// it knows.
func unknownParams(spec v1alpha1.NodeConfigSpec, handlers *plugin.Registry[handler.Handler]) (unknown, known []string) {
	h, err := handlers.Lookup(spec.Type)
	if err != nil {
		return nil, nil
	}
	d, ok := h.(handler.Described)
	if !ok {
		return nil, nil
	}
	for _, p := range d.Params() {
		known = append(known, p.Name)
	}
	return handler.Unknown(d, spec.Params), known
}

// Warn says which parameters have no effect. They are accepted, since a newer
// version may know them.
func Warn(log *slog.Logger, source string, doc v1alpha1.Document, handlers *plugin.Registry[handler.Handler]) {
	spec := doc.NodeConfig.Spec
	unknown, known := unknownParams(spec, handlers)
	for _, key := range unknown {
		args := []any{"target", doc.NodeConfig.Name, "handler", spec.Type, "param", key, "source", source}
		if near := plugin.Nearest(key, known); near != "" {
			log.Warn("unknown parameter has no effect; is the nearest one meant?", append(args, "nearest", near)...)
			continue
		}
		log.Warn("unknown parameter has no effect", append(args, "known", strings.Join(known, ","))...)
	}
}

// Twice gives every config, of those that are not nil, whose name another document
// has too an error that names both. Which of them is meant nobody can tell, so none is kept.
func Twice(configs []*Config) {
	first := map[string]int{}
	for i, c := range configs {
		if c == nil || c.Name == "" {
			continue
		}
		j, there := first[c.Name]
		if !there {
			first[c.Name] = i
			continue
		}
		configs[i] = c.clash(configs[j].Source)
		if !configs[j].twice {
			configs[j] = configs[j].clash(c.Source)
		}
	}
}

func (c *Config) clash(other string) *Config {
	bad := *c
	bad.twice, bad.Last = true, nil
	bad.Err = errors.Join(c.Err, fmt.Errorf("metadata.name: %s is the name in %s too, so none of them is kept: rename or remove one", c.Name, other))
	return &bad
}
