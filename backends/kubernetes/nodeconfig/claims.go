package nodeconfig

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/core/host"
	"github.com/tlspu/keel/core/plugin"
)

// How claims on files begin: on a name, and on the file that a name leads to.
const (
	pathClaim = "path:"
	fileClaim = "file:"
)

// claimed is what a NodeConfig claims. One with an error claims too, as far as it
// says what: before it is fixed no other takes its place. Without a name it would be
// nobody's.
//
// It is vague where it does not tell all: its type is unknown, or a template stands
// in what it would claim.
func claimed(nc *v1alpha1.NodeConfig, handlers *plugin.Registry[handler.Handler]) (claims []string, vague bool) {
	h, err := handlers.Lookup(nc.Spec.Type)
	if err != nil || nc.Name == "" {
		return nil, true
	}
	d, ok := h.(handler.Described)
	if !ok {
		return nil, true
	}
	return owned(d, nc.Spec.Params), slices.ContainsFunc(d.Claims(nc.Spec.Params), v1alpha1.IsTemplate)
}

// owned is what parameters claim, as far as they tell: a template does not.
func owned(d handler.Described, params map[string]string) []string {
	return slices.DeleteFunc(d.Claims(params), func(claim string) bool {
		kind, what, _ := strings.Cut(claim, ":")
		file := kind+":" == pathClaim || kind+":" == fileClaim
		return v1alpha1.IsTemplate(claim) || what == "" || file && (!path.IsAbs(what) || len(what) > maxPath)
	})
}

// maxPath is the length of the longest path that a system takes, in bytes. A longer
// one is invalid and claims nothing.
const maxPath = 4095

// Claims says which NodeConfigs are in conflict: an older one claims the same thing.
// Files are compared as they lie on the machine; where none is given, by their
// paths.
//
// One that is in conflict is not managed and owns nothing: what else it claims is
// free for the next. A suspended one owns what it claims, and so does one with an
// error of its own, which is told of no conflict.
//
// What one claims is looked up when it is Set, and a change costs what it claims and
// what is claimed beside it, not what all claim. It is safe for concurrent use.
type Claims struct {
	mu        sync.Mutex
	machine   *host.View
	claimants map[string]*claimant
	of        map[thing]map[*claimant]bool
	unsettled []thing          // claims of these changed
	folders   map[string]thing // looked up since the last settle
	changed   map[string]bool
	complete  bool
}

// A claimant is a NodeConfig with what its claims are on, in their order.
type claimant struct {
	id       string
	config   *Config
	things   []thing
	conflict error
}

// NewClaims compares files as they lie on machine; nil: by their paths.
func NewClaims(machine *host.View) *Claims {
	return &Claims{
		machine: machine, claimants: map[string]*claimant{}, of: map[thing]map[*claimant]bool{}, folders: map[string]thing{}, changed: map[string]bool{},
	}
}

// Set looks up what a NodeConfig claims, in place of what was known under that ID.
func (c *Claims) Set(id string, config *Config) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.claimants[id]
	if m == nil {
		m = &claimant{id: id}
		c.claimants[id] = m
	}
	c.leave(m)
	m.config, m.things = config, nil
	t := things{machine: c.machine, folders: c.folders}
	for _, claim := range config.claims {
		on := t.of(claim)
		m.things = append(m.things, on)
		if c.of[on] == nil {
			c.of[on] = map[*claimant]bool{}
		}
		c.of[on][m] = true
	}
	c.unsettled = append(c.unsettled, m.things...)
	if len(m.things) == 0 && m.conflict != nil {
		m.conflict, c.changed[id] = nil, true
	}
}

// Remove forgets what a NodeConfig claims.
func (c *Claims) Remove(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.claimants[id]; m != nil {
		c.leave(m)
		delete(c.claimants, id)
		delete(c.changed, id)
	}
}

// leave takes a claimant off its things.
func (c *Claims) leave(m *claimant) {
	for _, on := range m.things {
		if delete(c.of[on], m); len(c.of[on]) == 0 {
			delete(c.of, on)
		}
	}
	c.unsettled = append(c.unsettled, m.things...)
}

// Conflict says why a NodeConfig may not be managed, or nothing.
func (c *Claims) Conflict(id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	if m := c.claimants[id]; m != nil {
		return m.conflict
	}
	return nil
}

// Others lists what all but one claim. known is false while there may be more: not
// every NodeConfig is known, or one does not tell yet what it claims.
func (c *Claims) Others(id string) (claims []string, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known = c.complete
	for _, other := range slices.Sorted(maps.Keys(c.claimants)) {
		if other == id {
			continue
		}
		config := c.claimants[other].config
		claims = append(claims, config.claims...)
		known = known && !config.vague
	}
	return claims, known
}

// Complete says whether all NodeConfigs of the machine are known.
func (c *Claims) Complete(all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.complete = all
}

// Changed lists those whose Conflict is another since it was called last.
func (c *Claims) Changed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	ids := slices.Sorted(maps.Keys(c.changed))
	clear(c.changed)
	return ids
}

// settle finds the owners of what changed, and of all that is claimed beside it.
func (c *Claims) settle() {
	if len(c.unsettled) == 0 {
		return
	}
	var concerned []*claimant
	seen, known := map[thing]bool{}, map[*claimant]bool{}
	for next := c.unsettled; len(next) > 0; {
		on := next[len(next)-1]
		next = next[:len(next)-1]
		if seen[on] {
			continue
		}
		seen[on] = true
		for m := range c.of[on] {
			if !known[m] {
				known[m] = true
				concerned = append(concerned, m)
				next = append(next, m.things...)
			}
		}
	}
	c.unsettled = nil
	clear(c.folders)
	slices.SortFunc(concerned, (*claimant).compare)
	owners := make(map[thing]owner, len(concerned))
	for _, m := range concerned {
		before := Text(m.conflict)
		if m.conflict = m.take(owners); Text(m.conflict) != before {
			c.changed[m.id] = true
		}
	}
}

// compare orders claimants: the owner of what both claim first.
func (m *claimant) compare(other *claimant) int {
	switch {
	case m.config.older(other.config):
		return -1
	case other.config.older(m.config):
		return 1
	}
	return cmp.Or(cmp.Compare(m.config.Source, other.config.Source), cmp.Compare(m.id, other.id)) // two of one name
}

// take has a claimant own what it claims, unless another owns a part of it already.
func (m *claimant) take(owners map[thing]owner) (conflict error) {
	for i, on := range m.things {
		if by, ok := owners[on]; ok {
			if m.config.Err != nil {
				return nil
			}
			return by.refuse(m.config.claims[i])
		}
	}
	for i, on := range m.things {
		if _, ok := owners[on]; !ok { // one thing may be claimed by two names
			owners[on] = owner{m.config, m.config.claims[i]}
		}
	}
	return nil
}

// An owner is who claimed a thing first, and in which words.
type owner struct {
	config *Config
	claim  string
}

func (o owner) refuse(claim string) error {
	as := ""
	if o.claim != claim {
		as = ", as " + o.claim
	}
	where := ""
	if o.config.Source != o.config.Name || as != "" {
		where = " (" + o.config.Source + as + ")"
	}
	return fmt.Errorf("%s belongs to the older NodeConfig %s%s: remove it from one of them", claim, o.config.Name, where)
}

// A thing is what a claim is on: for a file the nearest folder that is there and
// the path from there on, whatever links and mounts lead to it; for anything
// else the claim.
type thing struct {
	folder host.Identity
	rest   string
}

// things finds out what claims are on.
type things struct {
	machine *host.View // nil: nobody looks
	folders map[string]thing
}

func (t things) of(claim string) thing {
	if file, ok := strings.CutPrefix(claim, fileClaim); ok {
		if t.machine != nil {
			if at, err := t.machine.Place(file); err == nil {
				return thing{at.Folder, "/" + at.Name}
			}
		}
		// A name that leads nowhere is only a name.
		claim = pathClaim + file
	}
	file, ok := strings.CutPrefix(claim, pathClaim)
	if !ok {
		return thing{rest: claim}
	}
	folder, name := path.Split(path.Clean(file))
	at := t.folder(path.Clean(folder))
	at.rest += "/" + name
	return at
}

// folder is a folder, as far as it is there and may be looked at.
func (t things) folder(name string) thing {
	if at, ok := t.folders[name]; ok {
		return at
	}
	at, found := thing{}, false
	if t.machine != nil {
		place, err := t.machine.Place(name + "/")
		at.folder, found = place.Folder, err == nil
	}
	if !found && name != "/" {
		at = t.folder(path.Dir(name))
		at.rest += "/" + path.Base(name)
	}
	t.folders[name] = at
	return at
}

// An exclusive target is managed only while no older NodeConfig claims the same
// thing. Before it changes anything, under the machine's lock, its claims are looked
// up again: a directory or symlink may have come since, by an earlier target of the
// same run too. So they are afterwards, for whoever comes next.
type exclusive struct {
	drift.Planner
	claims *Claims
	id     string
	config *Config
}

func (e exclusive) Compare(declared, observed drift.State) drift.Report {
	if c, ok := e.Planner.(drift.Comparer); ok {
		return c.Compare(declared, observed)
	}
	return drift.Compare(declared, observed)
}

func (e exclusive) Plan(ctx context.Context, r drift.Report) ([]drift.Step, error) {
	e.claims.Set(e.id, e.config)
	if err := e.claims.Conflict(e.id); err != nil {
		return nil, &plugin.Exit{Code: plugin.ExitInvalid, Err: err}
	}
	steps, err := e.Planner.Plan(ctx, r)
	for i, s := range steps {
		if do := s.Do; do != nil {
			steps[i].Do = func(ctx context.Context) (bool, error) {
				changed, err := do(ctx)
				if changed {
					e.claims.Set(e.id, e.config)
				}
				return changed, err
			}
		}
	}
	return steps, err
}
