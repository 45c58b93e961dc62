package kube

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tlspu/keel/test/kubetest"
)

var edits = flag.Int("edits", 200, "edits whose way to the disk is timed, of each kind")

// BenchmarkEdit measures the time from an edit to the file on disk. An edit of a
// NodeConfig is spread by the nodes over a tenth of its interval; that of a label of
// the Node, by which a selector takes it, is not, and shows what the rest takes.
func BenchmarkEdit(b *testing.B) {
	s := serve(b, kubetest.Options{})
	fill(b, s)
	a := startAgent(b, s, "edit")
	until(b, "the first visits", interval, time.Minute, func() bool { return a.metric(b, "keel_runs_total") >= keptConfigs })

	label := func(value string) {
		patch(b, s, "/api/v1/nodes/edit", object{"metadata": object{"labels": object{"edit": value}}})
	}
	selected := nodeConfig("label", "x")
	selected["spec"].(object)["nodeSelector"] = object{"matchLabels": object{"edit": "on"}}
	time1 := a.time(b, s, selected, "label", func(i int) (string, func()) {
		label("off")
		pause(b, 200*time.Millisecond) // the agent knows
		if err := os.Remove(a.path("label")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			b.Fatal(err)
		}
		return "x", func() { label("on") }
	})
	row("a label that makes a NodeConfig apply to a node, to the file on disk", quantiles(time1), "")

	time2 := a.time(b, s, nodeConfig("content", "x"), "content", func(i int) (string, func()) {
		want := fmt.Sprint(i)
		return want, func() {
			patch(b, s, nodeConfigs+"/content", object{"spec": object{"params": object{"content": want}}})
		}
	})
	row(fmt.Sprintf("an edit of a NodeConfig, which nodes spread over %s, to the file on disk", interval/10), quantiles(time2), "")
}

// time makes a NodeConfig, edits it again and again, and tells how long each edit
// took. begin gives an edit, and what is in the file after it.
func (a *agent) time(b *testing.B, s *kubetest.Server, config object, name string, begin func(i int) (want string, edit func())) []time.Duration {
	b.Helper()
	progress("%d edits: %s", *edits, name)
	if err := s.Do(b.Context(), s.Admin(), http.MethodPost, nodeConfigs, config, nil); err != nil {
		b.Fatal(err)
	}
	var took []time.Duration
	for i := range *edits {
		pause(b, rand.N(2*time.Second)) // in no step with the agent's own clock
		want, edit := begin(i)
		began := time.Now()
		edit()
		until(b, name, time.Millisecond, time.Minute, func() bool {
			got, err := os.ReadFile(a.path(name))
			return err == nil && string(got) == want
		})
		took = append(took, time.Since(began))
	}
	return took
}

// path is the file of a NodeConfig.
func (a *agent) path(name string) string { return filepath.Join(a.root, "etc/bench", name+".conf") }

func patch(b *testing.B, s *kubetest.Server, path string, body object) {
	b.Helper()
	if err := s.Do(b.Context(), s.Admin(), http.MethodPatch, path, body, nil); err != nil {
		b.Fatal(err)
	}
}

// quantiles sorts times and says what half of them, and all but one in a hundred,
// stay below.
func quantiles(took []time.Duration) string {
	if len(took) == 0 {
		return "none"
	}
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
	return fmt.Sprintf("p50 %.1f ms, p99 %.1f ms, most %.1f ms, of %d",
		ms(took[len(took)/2]), ms(took[len(took)*99/100]), ms(took[len(took)-1]), len(took))
}
