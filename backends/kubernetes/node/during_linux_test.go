package node

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tlspu/keel/test/kubetest"
)

// Who edits a NodeConfig while another one is visited is heard before its own visit,
// in the same pass; and one that reads something new is visited once that is known.
func TestCluster_editedDuringAPass(t *testing.T) {
	w := newDebugWorld(t, kubetest.Shared(t))
	w.object(t, "configmaps/during", body{"data": body{"text": "from a ConfigMap"}})
	for _, name := range []string{"during-a", "during-b", "during-c"} {
		w.apply(t, name, body{"type": "setting", "params": body{"path": "/etc/" + name, "value": "x"}})
	}
	w.start(t)
	w.until(t, "the files", func() bool { return w.content("during-a")+w.content("during-b")+w.content("during-c") == "xxx" })
	w.turn(t)
	var once sync.Once
	entered, leave := make(chan struct{}), make(chan struct{})
	*w.Handler.Hold = func() { once.Do(func() { close(entered); <-leave }) }
	for _, name := range []string{"during-a", "during-b", "during-c"} {
		w.hand(t, "etc/"+name, "by hand")
	}
	w.ahead.Add(int64(10 * time.Hour))
	<-entered
	visits := w.visits("during-c")
	w.do(t, http.MethodPatch, nodeConfigs+"/during-b", body{"spec": body{"suspend": true}})
	w.do(t, http.MethodPatch, nodeConfigs+"/during-c", body{"spec": body{
		"params": body{"value": "{{ .ConfigMaps.it.text }}"}, "configMaps": []body{{"namespace": "default", "name": "during", "as": "it"}},
	}})
	w.until(t, "that both edits are known", func() bool {
		b, _ := w.cluster().Known("during-b")
		c, _ := w.cluster().Known("during-c")
		return b.Generation == 2 && c.Generation == 2
	})
	close(leave)
	w.until(t, "what it reads", func() bool { v, _ := w.find("configmaps/during"); return v != "" })
	w.turn(t)
	w.after(t, maxSpread)
	if a, b, c := w.content("during-a"), w.content("during-b"), w.content("during-c"); a != "x" || b != "by hand" || c != "from a ConfigMap" {
		t.Errorf("a %q, b, which is suspended, %q, c %q", a, b, c)
	}
	if n := w.visits("during-c") - visits; n != 1 {
		t.Errorf("%d visits of what was edited, want 1", n)
	}
	if strings.Contains(w.log.String(), "run failed\" target=during-c") {
		t.Errorf("log: %s", w.log.String())
	}
}
