package node

import (
	"errors"
	"reflect"

	"github.com/tlspu/keel/backends/kubernetes/node/cluster"
	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"
	"github.com/tlspu/keel/core/plugin"
)

// collect brings the facts up to date when their interval has passed or the source
// knows something else, and reports whether anything changed. Where they cannot be
// collected the previous ones stay in use, and that is logged once.
func (a *agent) collect() (changed bool) {
	now, told := a.env.Now(), a.source.factsVersion()
	before, ready := a.facts.Get()
	since := now.Sub(a.collected)
	if a.unreached != nil || ready && told == a.told && since >= 0 && since < a.settings.FactsInterval {
		return false
	}
	a.collected, a.told = now, told
	f, overruled, err := a.source.collectFacts(&a.machine.Tree.View)
	if was, is := trouble(a.unknown), trouble(err); is != was && (ready || a.woken != nil) {
		if is != "" {
			a.env.Log.Error("collecting facts failed; using the previous facts where there are any", "err", plugin.OneLine(err))
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
