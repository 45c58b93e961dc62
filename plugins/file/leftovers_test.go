package file

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/test/contract"
)

// What a killed run left is removed by the next one, also when the file is right or
// absent. A look says so and removes nothing, and a living writer keeps its file.
func TestEnsure_leftovers(t *testing.T) {
	const name = ".keel-0123456789abcdef.tmp"
	for what, params := range map[string]map[string]string{
		"right":        {"path": "/etc/f", "content": "x"},
		"by a symlink": {"path": "/l", "content": "x"},
		"absent":       {"path": "/etc/none", "ensure": "absent"},
		"drifting":     {"path": "/etc/f", "content": "new"},
	} {
		t.Run(what, func(t *testing.T) {
			root := rooted(t, entry{path: "etc/f", content: "x"}, entry{path: "etc/" + name, content: "secret"}, entry{path: "l", link: "/etc/f"})
			var notes []string
			note := func(s string) { notes = append(notes, s) }
			machine := contract.Machine(t, root, nil)
			target := machine.Target(handler.Spec{ID: "f", Handler: New(), Params: params, Note: note})
			before := contract.Snapshot(t, root)
			r := drift.Check(t.Context(), target)
			if f, _ := r.Before.At(drift.Path{"leftovers"}); f.Verdict != drift.Drift || f.Observed != "1 temporary file(s) of a killed run" {
				t.Errorf("a look: %+v", r.Before)
			}
			before.Unchanged(t, root, "a look")

			writer, err := os.Open(filepath.Join(root, "etc", name))
			check(t, err)
			check(t, unix.Flock(int(writer.Fd()), unix.LOCK_EX))
			if r := drift.Check(t.Context(), target); len(r.Before) != 1 {
				t.Errorf("beside a living writer: %+v", r.Before)
			}
			check(t, writer.Close())
			machine.Forget() // another run begins

			res := drift.Ensure(t.Context(), target, drift.Options{})
			if res.Err != nil || !res.After.Settled() || res.Changed != (what == "drifting") {
				t.Errorf("a run: %+v", res)
			}
			if _, err := os.Lstat(filepath.Join(root, "etc", name)); !os.IsNotExist(err) {
				t.Errorf("afterwards: %v", err)
			}
			want := params["path"] + ": removed 1 temporary file(s) beside it that a killed run left"
			if what != "drifting" && strings.Join(notes, "") != want {
				t.Errorf("said %q, want %q", notes, want)
			}
		})
	}
}
