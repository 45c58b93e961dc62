// Package node keeps the NodeConfigs of one node: it turns them into targets for
// the engine, for `keel apply`, `diff` and `validate` and for `keel node-agent`
// alike, and it is that agent.
package node

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

// The exit codes of errors that end here; cmd/cli has the table.
const (
	exitUnreadable = 2
	exitInvalid    = 3
	exitNeedsRoot  = 15
	exitFailed     = 16
)

// A config is one NodeConfig that was read and judged. It is not changed once it
// is made, and packed where it is to be kept.
type config struct {
	source     string // the document, for messages
	name       string // of the NodeConfig; empty where the document does not tell
	handler    string // spec.type
	uid        types.UID
	created    time.Time
	generation int64
	spec       v1alpha1.NodeConfigSpec // empty when packed
	packed     []byte                  // spec as JSON
	digest     string                  // of packed; empty beside an err
	interval   time.Duration
	suspend    bool
	claims     []string
	reads      []string // titles of the ConfigMaps and Secrets
	ignored    []string // fields and parameters that have no effect
	depends    bool     // on this node: it has templates, a selector, or reads data
	// What resolve adds: that the selector does not match; that there are Secrets, and
	// what tells their contents apart.
	excluded  bool
	sensitive bool
	hidden    []string // what came from Secrets; only of what is visited
	secrets   drift.Secret
	// err says why this content cannot be kept; last is then the content that is
	// kept instead, where an earlier one is known.
	err   error
	last  *config
	twice bool // err says that another document has the name too
}

// newConfig judges a document. What is wrong with it is in the config's err.
func newConfig(source string, doc v1alpha1.Document, handlers *plugin.Registry[handler.Handler]) *config {
	nc := doc.NodeConfig
	c := &config{
		source: source, name: nc.Name, handler: nc.Spec.Type, uid: nc.UID, created: nc.CreationTimestamp.Time, generation: nc.Generation,
		spec: nc.Spec, suspend: nc.Spec.Suspend, claims: claimed(nc, handlers), err: doc.Err,
	}
	c.ignored = idleParams(nc.Spec, handlers)
	c.depends, c.reads = depends(nc.Spec), reads(nc.Spec)
	if i := nc.Spec.Interval; i != nil && i.Duration >= v1alpha1.MinInterval {
		c.interval = nc.Spec.Interval.Duration
	}
	if c.err == nil {
		c.err = judge(nc.Spec, handlers)
	}
	return c
}

// pack makes a config small that was just made: an agent may have ten thousand of
// them and needs few at a time. What it says can be told by its digest.
func (c *config) pack() {
	spec := c.spec
	c.spec = v1alpha1.NodeConfigSpec{}
	if c.err != nil {
		return
	}
	if c.packed, c.err = json.Marshal(spec); c.err == nil {
		sum := sha256.Sum256(c.packed)
		c.digest = "sha256:" + hex.EncodeToString(sum[:])
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
	for _, key := range slices.Sorted(maps.Keys(spec.Params)) {
		if err := render.Check(spec.Params[key], len(spec.Secrets) > 0); err != nil {
			errs = append(errs, fmt.Errorf("spec.params.%s: %w", key, err))
		}
	}
	for i, unit := range spec.Services {
		if !v1alpha1.IsTemplate(unit) {
			errs = append(errs, v1alpha1.CheckUnit(unit))
			continue
		}
		if err := render.Check(unit, len(spec.Secrets) > 0); err != nil {
			errs = append(errs, fmt.Errorf("spec.services[%d]: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

// effective is the content that is to be kept, or nil.
func (c *config) effective() *config {
	if c.err == nil {
		return c
	}
	return c.last
}

// Why a NodeConfig leaves the machine alone.
const (
	suspended = "suspended"
	excluded  = "nodeSelector does not match this node"
	gone      = "is gone"
)

// idle says why c leaves the machine alone, or nothing.
func (c *config) idle() string {
	switch {
	case c.excluded:
		return excluded
	case c.suspend:
		return suspended
	}
	return ""
}

// faulty is a config that is kept although its file has a mistake.
func (c *config) faulty(err error) *config {
	bad := *c
	bad.err, bad.last = err, c
	return &bad
}

// fault is err with the document it is in.
func (c *config) fault() error {
	if c.err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", c.source, c.err)
}

// unpack gives the specification, as it is on this node once it was resolved. It
// is not to be changed.
func (c *config) unpack() (spec v1alpha1.NodeConfigSpec, err error) {
	if c.packed == nil {
		return c.spec, nil
	}
	if err := json.Unmarshal(c.packed, &spec); err != nil {
		return spec, fmt.Errorf("unpack %s: %w", c.name, err)
	}
	return spec, nil
}

// older reports whether c has the better right to what both claim: the smaller
// creation time, then the name. One without a time comes last, so that a copy of
// an object of the API server, which has one, keeps its right.
func (c *config) older(d *config) bool {
	switch {
	case c.created.IsZero() != d.created.IsZero():
		return d.created.IsZero()
	case !c.created.Equal(d.created):
		return c.created.Before(d.created)
	}
	return c.name < d.name
}

// idleParams names the parameters that the handler does not know. They are
// accepted, since a newer version may know them.
func idleParams(spec v1alpha1.NodeConfigSpec, handlers *plugin.Registry[handler.Handler]) (names []string) {
	h, err := handlers.Lookup(spec.Type)
	if err != nil {
		return nil
	}
	if d, ok := h.(handler.Described); ok {
		for _, key := range handler.Unknown(d, spec.Params) {
			names = append(names, "spec.params."+key)
		}
	}
	return names
}

// warn says which parameters have no effect. They are accepted, since a newer
// version may know them.
func warn(log *slog.Logger, source string, doc v1alpha1.Document, handlers *plugin.Registry[handler.Handler]) {
	spec := doc.NodeConfig.Spec
	h, err := handlers.Lookup(spec.Type)
	if err != nil {
		return
	}
	d, ok := h.(handler.Described)
	if !ok {
		return
	}
	var known []string
	for _, p := range d.Params() {
		known = append(known, p.Name)
	}
	for _, key := range handler.Unknown(d, spec.Params) {
		args := []any{"target", doc.NodeConfig.Name, "handler", spec.Type, "param", key, "source", source}
		if near := plugin.Nearest(key, known); near != "" {
			log.Warn("unknown parameter has no effect; is the nearest one meant?", append(args, "nearest", near)...)
			continue
		}
		log.Warn("unknown parameter has no effect", append(args, "known", strings.Join(known, ","))...)
	}
}

// twice gives every config, of those that are not nil, whose name another document
// has too an error that names both. Which of them is meant nobody can tell, so none is kept.
func twice(configs []*config) {
	first := map[string]int{}
	for i, c := range configs {
		if c == nil || c.name == "" {
			continue
		}
		j, there := first[c.name]
		if !there {
			first[c.name] = i
			continue
		}
		configs[i] = c.clash(configs[j].source)
		if !configs[j].twice {
			configs[j] = configs[j].clash(c.source)
		}
	}
}

func (c *config) clash(other string) *config {
	bad := *c
	bad.twice, bad.last = true, nil
	bad.err = errors.Join(c.err, fmt.Errorf("metadata.name: %s is the name in %s too, so none of them is kept: rename or remove one", c.name, other))
	return &bad
}
