package nodeconfig

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/plugin"
	"github.com/tlspu/keel/test/nodetest"
)

// TestTarget_oneRestartForAPass (A2): what several NodeConfigs of a pass need is one
// restart, proven for each. One whose change failed keeps no other from it.
func TestTarget_oneRestartForAPass(t *testing.T) {
	w := newWorld(t)
	var docs []plugin.Doc
	for i := range 8 {
		name := fmt.Sprintf("n%d", i)
		doc := strings.Replace(nodetest.Doc(name, "new"), "spec: {", "spec: {services: [a.service], ", 1)
		docs = append(docs, plugin.Doc{Source: name + ".yaml", Data: []byte(doc)})
	}
	ts, err := targets(t.Context(), w.Env, docs)
	if err != nil {
		t.Fatal(err)
	}
	var visits []*drift.Visit
	for _, target := range ts {
		visits = append(visits, drift.Begin(t.Context(), target.(drift.Planner), drift.Options{}))
	}
	w.Restarts(t)
	for _, v := range visits {
		if r := v.Finish(t.Context()); r.Err != nil || !r.Changed {
			t.Errorf("%s: changed %t, error %v", r.Target, r.Changed, r.Err)
		}
	}
	restarts := 0
	for _, c := range w.Systemd.Log(t) {
		if strings.HasPrefix(c, "restart ") {
			restarts++
		}
	}
	if restarts != 1 {
		t.Errorf("%d restarts, want one", restarts)
	}
}
