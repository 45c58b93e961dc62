package node

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/test/kubetest"
)

// A single pass ends by itself, also when it followed ConfigMaps, and has told its
// results by then.
func TestCluster_onceEnds(t *testing.T) {
	w := newClusterWorld(t, kubetest.Shared(t))
	name := w.node
	w.do(t, http.MethodPost, "/api/v1/namespaces/default/configmaps", body{"metadata": body{"name": name}, "data": body{"host": "db-1"}})
	w.apply(t, name, body{"type": "setting", "params": body{"path": "/etc/once", "value": "{{ .ConfigMaps.c.host }}"},
		"configMaps": []any{body{"namespace": "default", "name": name, "as": "c"}}})
	w.settings.Once = true
	var out strings.Builder
	w.Env.Out = &out
	ended := make(chan error, 1)
	go func() { ended <- Role().Run(t.Context(), w.Env, &w.settings) }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(settleTime):
		t.Fatalf("it has not ended\n%s", w.log.String())
	}
	if s, _ := w.status(t, name); s.LastResult != v1alpha1.Success || !s.Changed || w.content("once") != "db-1" {
		t.Errorf("status %+v, file %q", s, w.content("once"))
	}
	if !strings.Contains(out.String(), "changed   "+name+"\n") {
		t.Errorf("it prints %q", out.String())
	}
}
