package node

import (
	"reflect"

	"github.com/tlspu/keel/api/v1alpha1"
)

// collect brings the facts up to date when their interval has passed, and reports
// whether anything is another than before. Where they cannot be collected the
// former ones stay, and it is said once.
func (a *agent) collect() (changed bool) {
	now := a.env.Now()
	before, ready := a.facts.Get()
	since := now.Sub(a.collected)
	if a.unreached != nil || ready && since >= 0 && since < a.settings.FactsInterval {
		return false
	}
	a.collected = now
	f, overruled, err := gather(&a.machine.tree.View, a.settings.Facts)
	if text(err) != text(a.unknown) && ready {
		if err != nil {
			a.env.Log.Error("facts cannot be collected; the former ones are used", "err", oneLine(err))
		} else {
			a.env.Log.Info("facts can be collected again")
		}
	}
	a.unknown = err
	if err != nil || ready && reflect.DeepEqual(f, before) {
		return false
	}
	warnOfFacts(a.env.Log, overruled, a.settings.Facts)
	a.facts.Set(f)
	a.edition++
	return true
}

// resolve finds out what the NodeConfigs say on this node, those for which
// anything is another than before.
func (a *agent) resolve() {
	f, _ := a.facts.Get()
	a.inputs = inputs{facts: f, find: a.folder.data().find}
	edition := a.edition + a.folder.edition
	for _, e := range a.entries {
		switch {
		case e.config == nil:
		case e.config.effective() == nil:
			e.of, e.content = nil, nil
		case e.of != e.config.effective() || e.edition != edition:
			e.of, e.edition = e.config.effective(), edition
			if e.content = e.of.resolve(a.inputs, a.env.Handlers); e.content != e.of {
				e.content.spec = v1alpha1.NodeConfigSpec{}
			}
		}
	}
}
