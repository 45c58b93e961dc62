package restart_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/core/host"
	"github.com/tlspu/keel/core/restart"
	"github.com/tlspu/keel/test/recorded"
)

const journal = "/var/lib/keel/restart/motd.json"

func openTree(t testing.TB, root string) *host.Tree {
	t.Helper()
	tree, err := host.OpenTree(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tree.Close() })
	return tree
}

func TestFile(t *testing.T) {
	root := t.TempDir()
	j := restart.NewFile(openTree(t, root), journal)
	if rec, ok, err := j.Load(t.Context()); ok || err != nil {
		t.Errorf("before: got %v, %t, %v, want no record", rec, ok, err)
	}
	if err := j.Clear(t.Context()); err != nil {
		t.Errorf("clear without a record: %v", err)
	}
	recs := []restart.Record{
		{Phase: restart.Ensuring, Units: map[string]string{"a.service": "", `b\x2dc.service`: ""}, Why: "sha256:<1>", Reload: true},
		{Phase: restart.Restarting, Units: map[string]string{"a.service": "29dc3ca56e134583ab1a99c76adc3542"}},
	}
	for _, want := range recs {
		if err := j.Save(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		// What counts is what another process reads.
		got, ok, err := restart.NewFile(openTree(t, root), journal).Load(t.Context())
		if diff := cmp.Diff(want, got); diff != "" || !ok || err != nil {
			t.Errorf("got %t, %v (-want +got):\n%s", ok, err, diff)
		}
	}
	for path, want := range map[string]fs.FileMode{"var/lib": 0o755, "var/lib/keel": 0o755, "var/lib/keel/restart": 0o700, journal: 0o600} {
		if info, err := os.Stat(filepath.Join(root, path)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: got %v, %v, want mode %v", path, info.Mode(), err, want)
		}
	}
	if err := j.Clear(t.Context()); err != nil {
		t.Error(err)
	}
	if _, ok, err := j.Load(t.Context()); ok || err != nil {
		t.Errorf("cleared: got %t, %v, want no record", ok, err)
	}
}

func TestFile_broken(t *testing.T) {
	const good = `{"phase": "restarting", "units": {"a.service": "1"}}`
	tests := []struct{ name, content, wantErr string }{
		{"empty", "", "holds no record"},
		{"cut off", good[:20], "holds no record"},
		{"zeroes", strings.Repeat("\x00", 100), "holds no record"},
		{"a list", "[]", "holds no record"},
		{"more than one", good + good, "holds more than a record"},
		{"rubbish behind it", good + "x", "holds more than a record"},
		{"a key of a later version", `{"phase": "restarting", "later": []}`, `unknown field "later"`},
		{"restarting without units", `{"phase": "restarting"}`, "phase restarting without units"},
		{"restarting, and units are null", `{"phase": "restarting", "units": null}`, "phase restarting without units"},
		{"no phase", `{}`, `phase ""`},
		{"an unknown phase", `{"phase": "done"}`, `phase "done"`},
		{"no unit name", `{"phase": "restarting", "units": {"-x": ""}}`, `unit name "-x"`},
		{"far too long", strings.Repeat(" ", 1<<20) + good, "holds more than the"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			file := filepath.Join(root, journal)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			j := restart.NewFile(openTree(t, root), journal)
			machine := &recorded.Runner{}
			for what, err := range map[string]error{
				"Load":    loadError(t, j),
				"Prove":   restart.Prove(t.Context(), machine, j),
				"Changed": restart.Changed(t.Context(), machine, j),
			} {
				for _, text := range []string{"restart journal " + journal, tt.wantErr, "then remove it"} {
					if err == nil || !strings.Contains(err.Error(), text) {
						t.Errorf("%s: got %v, want an error that holds %q", what, err, text)
					}
				}
			}
			if got, err := os.ReadFile(file); string(got) != tt.content || err != nil {
				t.Errorf("the file was touched: %q, %v", got, err)
			}
		})
	}
}

func loadError(t *testing.T, j restart.Journal) error {
	t.Helper()
	_, ok, err := j.Load(t.Context())
	if ok {
		t.Error("Load: got a record")
	}
	return err
}

func TestFile_savesOnlyRecords(t *testing.T) {
	root := t.TempDir()
	j := restart.NewFile(openTree(t, root), journal)
	if err := j.Save(t.Context(), restart.Record{Phase: restart.Ensuring, Units: map[string]string{"a b": ""}}); err == nil {
		t.Error("a bad unit name was saved")
	}
	if _, err := os.Stat(filepath.Join(root, journal)); !os.IsNotExist(err) {
		t.Errorf("got %v, want nothing written", err)
	}
}

func TestFile_isAFolder(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, journal), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := loadError(t, restart.NewFile(openTree(t, root), journal)); err == nil {
		t.Error("a folder reads as no record")
	}
}
