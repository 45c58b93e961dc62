package node

import (
	"errors"
	"maps"
	"reflect"
	"slices"

	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/node/cluster"
)

// collect brings the facts up to date when their interval has passed or the source
// knows something else, and reports whether anything is another than before. Where
// they cannot be collected the former ones stay, and it is said once.
func (a *agent) collect() (changed bool) {
	now, told := a.env.Now(), a.source.told()
	before, ready := a.facts.Get()
	since := now.Sub(a.collected)
	if a.unreached != nil || ready && told == a.told && since >= 0 && since < a.settings.FactsInterval {
		return false
	}
	a.collected, a.told = now, told
	f, overruled, err := a.source.gather(&a.machine.Tree.View)
	if was, is := trouble(a.unknown), trouble(err); is != was && (ready || a.woken != nil) {
		if is != "" {
			a.env.Log.Error("facts cannot be collected; former ones are used where there are any", "err", nodeconfig.OneLine(err))
		} else {
			a.env.Log.Info("facts can be collected again")
		}
	}
	a.unknown = err
	if err != nil {
		return false
	}
	a.metrics.FactsCollected(now)
	if ready && reflect.DeepEqual(f, before) {
		return false
	}
	nodeconfig.WarnOfFacts(a.env.Log, overruled, a.settings.Facts)
	a.facts.Set(f)
	a.edition++
	return true
}

// trouble is what is wrong with facts. That they are only being read is nothing, and
// that they cannot be read is said by who tries.
func trouble(err error) string {
	if errors.Is(err, cluster.ErrPending) {
		return ""
	}
	return nodeconfig.Text(err)
}

// resolve finds out what the NodeConfigs say on this node, those for which
// anything is another than before, and has the source read what they need.
func (a *agent) resolve() {
	f, known := a.facts.Get()
	if !known {
		return
	}
	a.inputs = nodeconfig.Inputs{Facts: f, Find: a.source.find()}
	data := a.source.edition()
	needed := map[string]bool{}
	for _, e := range a.entries {
		if e.config == nil || e.config.Effective() == nil {
			e.of, e.content = nil, nil
			continue
		}
		c, edition := e.config.Effective(), a.edition
		if len(c.Reads) > 0 {
			edition += data
		}
		if e.of != c || e.edition != edition {
			e.of, e.edition = c, edition
			if e.content = c.Resolve(a.inputs, a.env.Handlers); e.content != c {
				e.content.Spec, e.content.Hidden = v1alpha1.NodeConfigSpec{}, nil
			}
		}
		if !e.content.Excluded {
			for _, title := range c.Reads {
				needed[title] = true
			}
		}
	}
	a.source.want(slices.Sorted(maps.Keys(needed)))
}
