package node

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// pathClaim is how a claim on a file begins.
const pathClaim = "path:"

// conflicts says which configs may not be kept because an older one claims the
// same thing, and why. No two of them have the same name. A path is compared after
// the links of its folder were resolved, because two paths may lead to one file.
//
// One that lost is not kept at all and owns nothing: what else it claims is free
// for the next. A suspended one owns what it claims.
func conflicts(configs []*config, resolve func(path string) (string, error)) map[*config]error {
	order := make([]*config, 0, len(configs))
	rivals := make(map[string]int, len(configs)) // number of claims that may be the same
	for _, c := range configs {
		if len(c.claims) == 0 {
			continue
		}
		order = append(order, c)
		for _, claim := range c.claims {
			rivals[base(claim)]++
		}
	}
	slices.SortFunc(order, func(a, b *config) int {
		switch {
		case a.older(b):
			return -1
		case b.older(a):
			return 1
		}
		return 0
	})

	folders := map[string]string{} // what resolve said
	owners := make(map[string]*config, len(order))
	lost := map[*config]error{}
	for _, c := range order {
		claims := make([]string, len(c.claims))
		for i, claim := range c.claims {
			claims[i] = claim
			if rivals[base(claim)] > 1 {
				claims[i] = resolved(claim, resolve, folders)
			}
			if owner := owners[claims[i]]; owner != nil && owner != c {
				lost[c] = fmt.Errorf("%s belongs to the older NodeConfig %s (%s): remove it from one of them", claim, owner.name, owner.source)
			}
		}
		if lost[c] != nil {
			continue
		}
		for _, claim := range claims {
			owners[claim] = c
		}
	}
	return lost
}

// base is equal for all claims that may turn out to be the same one.
func base(claim string) string {
	if file, ok := strings.CutPrefix(claim, pathClaim); ok {
		return pathClaim + path.Base(file)
	}
	return claim
}

// resolved is a claim with the links of its folder resolved, as far as resolve,
// which fails where nothing is, can tell. known holds the folders resolved before.
func resolved(claim string, resolve func(string) (string, error), known map[string]string) string {
	file, ok := strings.CutPrefix(claim, pathClaim)
	if !ok {
		return claim
	}
	folder, name := path.Split(path.Clean(file))
	folder = path.Clean(folder)
	real, ok := known[folder]
	if !ok {
		real = folder
		for above := folder; ; above = path.Dir(above) {
			if found, err := resolve(above); err == nil {
				real = path.Join(found, strings.TrimPrefix(folder, above))
				break
			}
			if above == path.Dir(above) {
				break
			}
		}
		known[folder] = real
	}
	return pathClaim + path.Join(real, name)
}
