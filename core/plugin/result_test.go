package plugin

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/core/drift"
)

func TestResults(t *testing.T) {
	var out strings.Builder
	r := Results{Out: &out}
	if r.Code() != 0 {
		t.Errorf("code %d before there is any result", r.Code())
	}
	for _, res := range []drift.Result{
		{Target: "a", Changed: true},
		{Target: "b"},
		{Target: "c", Before: drift.Report{
			{Verdict: drift.NotCompared, Reason: "suspended"}, {Verdict: drift.NotCompared, Reason: "excluded"}, {Verdict: drift.NotCompared, Reason: "suspended"},
		}},
		{Target: "d\x1b", Err: errors.New("disk\non fire")},
		{Err: &Exit{Code: ExitInvalid, Err: errors.New("d.yaml: no name")}},
		{Target: "e", Err: &Exit{Code: 99, Err: errors.New("of no code")}},
	} {
		r.Add(res)
	}
	r.NotBegun("f")
	want := `changed   a
unchanged b
unchanged c: suspended; excluded
error     d\x1b: disk; on fire
error     d.yaml: no name
error     e: of no code
not begun f
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if r.Code() != ExitInvalid || r.Count(Failed) != 3 || r.Count(Unchanged) != 2 || len(r.List) != 7 {
		t.Errorf("code %d, %d errors, %d unchanged, %d in all", r.Code(), r.Count(Failed), r.Count(Unchanged), len(r.List))
	}
}

func TestEnv_NeedRoot(t *testing.T) {
	for _, tt := range []struct {
		uid  int
		root string
		want string
	}{
		{0, "/", ""},
		{1000, t.TempDir(), ""},
		{1000, "/proc/self/root", "15: host-root /proc/self/root is this machine: changing it needs uid 0; run keel as root, or look with --dry-run"},
		{1000, "/nowhere", "2: host-root: stat /nowhere: no such file or directory"},
	} {
		got := ""
		if exit := (*Exit)(nil); errors.As(Env{UID: tt.uid, Root: tt.root}.NeedRoot("host-root"), &exit) {
			got = fmt.Sprintf("%d: %v", exit.Code, exit)
		}
		if got != tt.want {
			t.Errorf("uid %d, root %s: %q, want %q", tt.uid, tt.root, got, tt.want)
		}
	}
}
