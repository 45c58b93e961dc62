package nodeconfig

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/core/host"
	"github.com/tlspu/keel/core/plugin"
)

// How claims on files begin: on a name, and on the file that a name leads to.
const (
	pathClaim = "path:"
	fileClaim = "file:"
)

// claimed is what a NodeConfig claims. One with a mistake claims too, as far as
// it says what: before it is mended nobody else takes its place. Without a name
// it would be nobody's.
func claimed(nc *v1alpha1.NodeConfig, handlers *plugin.Registry[handler.Handler]) []string {
	h, err := handlers.Lookup(nc.Spec.Type)
	if err != nil || nc.Name == "" {
		return nil
	}
	d, ok := h.(handler.Described)
	if !ok {
		return nil
	}
	return owned(d, nc.Spec.Params)
}

// owned is what parameters claim, as far as they tell: a template does not.
func owned(d handler.Described, params map[string]string) []string {
	return slices.DeleteFunc(d.Claims(params), func(claim string) bool {
		kind, what, _ := strings.Cut(claim, ":")
		return v1alpha1.IsTemplate(claim) || what == "" || kind+":" == pathClaim && !path.IsAbs(what) || kind+":" == fileClaim && !path.IsAbs(what)
	})
}

// Conflicts says which configs may not be kept because an older one claims the
// same thing, and why. Files are compared as they lie on the machine; where none
// is given, by their paths.
//
// One that lost is not kept at all and owns nothing: what else it claims is free
// for the next. A suspended one owns what it claims, and so does one with a
// mistake, which is told nothing about it.
func Conflicts(configs []*Config, machine *host.View) map[*Config]error {
	order := slices.Clone(configs)
	slices.SortStableFunc(order, func(a, b *Config) int {
		switch {
		case a.older(b):
			return -1
		case b.older(a):
			return 1
		}
		return cmp.Compare(a.Source, b.Source) // two of one name
	})
	t := things{machine: machine, folders: map[string]thing{}}
	owners := make(map[thing]owner, len(order))
	lost := map[*Config]error{}
	for _, c := range order {
		claims, taken := make([]thing, len(c.claims)), false
		for i, claim := range c.claims {
			claims[i] = t.of(claim)
			if by, ok := owners[claims[i]]; ok && !taken {
				taken = true
				if c.Err == nil {
					lost[c] = by.refuse(claim)
				}
			}
		}
		for i := 0; i < len(claims) && !taken; i++ {
			if _, ok := owners[claims[i]]; !ok {
				owners[claims[i]] = owner{c, c.claims[i]}
			}
		}
	}
	return lost
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
