package nodeconfig

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/plugin"
	"github.com/tlspu/keel/test/contract"
	"github.com/tlspu/keel/test/nodetest"
)

// TestTargets_contract holds every sort of target that comes from documents to
// what the engine expects.
func TestTargets_contract(t *testing.T) {
	w := newWorld(t)
	w.Edit(t, "old")
	journal := filepath.Join(w.Env.Root, JournalDir, "open.json")
	if err := os.MkdirAll(filepath.Dir(journal), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(journal, []byte(`{"phase":"restarting","units":{"a.service":"1"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	contract.Target(t, contract.Targets{
		New: func(t testing.TB, run command.Runner) []drift.Target {
			env := w.Env
			env.Run = func(string) command.Runner { return run }
			ts, err := targets(t.Context(), env, []plugin.Doc{
				{Source: "one.yaml", Data: []byte(settingDoc + services)},
				{Source: "open.yaml", Data: []byte(nodetest.Doc("open", "x"))},
				{Source: "suspended.yaml", Data: []byte(strings.Replace(nodetest.Doc("suspended", "x"), "spec: {", "spec: {suspend: true, ", 1))},
			})
			if err != nil {
				t.Fatal(err)
			}
			m, err := OpenMachine(env)
			if err != nil {
				t.Fatal(err)
			}
			return append(ts, leftover{m.restarts("gone", "open.json")})
		},
		Run:  w.Systemd,
		Root: w.Env.Root,
	})
}

func TestTargets_badDocumentsLetOthersGoOn(t *testing.T) {
	w := newWorld(t)
	docs := []plugin.Doc{
		{Source: "a.yaml", Data: []byte(nodetest.Doc("a", "one"))},
		{Source: "b.yaml", Data: []byte("kind: NodeConfig\n")},
		{Source: "c.yaml", Data: []byte(strings.Replace(nodetest.Doc("c", "one"), "setting", "seting", 1))},
		{Source: "d.yaml", Data: []byte(strings.Replace(nodetest.Doc("d", "one"), "/etc/d", "/etc/a", 1))},
		{Source: "e1.yaml", Data: []byte(nodetest.Doc("e", "one"))},
		{Source: "e2.yaml", Data: []byte(nodetest.Doc("e", "two"))},
	}
	ts, err := targets(t.Context(), w.Env, docs)
	if err != nil {
		t.Fatal(err)
	}
	want := []struct{ id, err string }{
		{"a", ""},
		{"b.yaml", "line 1: apiVersion: is missing\nline 1: metadata: is missing\nline 1: spec: is missing"},
		{"c", `c.yaml: spec.type: unknown handler "seting": use blind or setting`},
		{"d", "path:/etc/a belongs to the older NodeConfig a (a.yaml): remove it from one of them"},
		{"e1.yaml", "metadata.name: e is the name in e2.yaml too, so none of them is kept: rename or remove one"},
		{"e2.yaml", "metadata.name: e is the name in e1.yaml too, so none of them is kept: rename or remove one"},
	}
	for i, target := range ts {
		res := drift.Ensure(t.Context(), target.(drift.Planner), drift.Options{})
		if res.Target != want[i].id || Text(res.Err) != want[i].err {
			t.Errorf("%s: target %q, error %q, want %q, %q", docs[i].Source, res.Target, Text(res.Err), want[i].id, want[i].err)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(w.Env.Root, "etc")); err != nil || len(entries) != 1 {
		t.Errorf("the machine holds %v, %v; want a alone", entries, err)
	}
}

// TestValidate_refusesTypos (C5): with the parameter ignored, the one that was meant
// would have its default.
func TestValidate_refusesTypos(t *testing.T) {
	w := newWorld(t)
	typo := strings.Replace(nodetest.Doc("a", "one"), "value:", "vlaue:", 1)
	docs := []plugin.Doc{
		{Source: "a.yaml", Data: []byte(typo)},
		{Source: "b.yaml", Data: []byte(strings.Replace(nodetest.Doc("b", "one"), "value:", "vlaue: x, value:", 1))},
		{Source: "c.yaml", Data: []byte(strings.Replace(nodetest.Doc("c", "one"), "value:", "color: x, value:", 1))},
	}
	for _, allowed := range []bool{false, true} {
		w.Env.AllowUnknownParams = allowed
		errs := validate(t.Context(), w.Env, docs)
		const want = "spec.params.vlaue: unknown parameter; write value, or accept it with --allow-unknown-params"
		if got := Text(errs[0]); strings.Contains(got, want) == allowed {
			t.Errorf("allowed %t: %q", allowed, got)
		}
		for i := range 2 {
			if got := Text(errs[i+1]); strings.Contains(got, "unknown parameter") {
				t.Errorf("allowed %t, document %d: %q", allowed, i+1, got)
			}
		}
	}
}

// TestValidate_repeatedKey (B11) holds the exit code that docs/cli/exit-codes.md gives.
func TestValidate_repeatedKey(t *testing.T) {
	w := newWorld(t)
	errs := validate(t.Context(), w.Env, []plugin.Doc{{Source: "a.yaml", Data: []byte(strings.Replace(nodetest.Doc("a", "one"), "value:", "value: x, value:", 1))}})
	var exit *plugin.Exit
	if !errors.As(errs[0], &exit) || exit.Code != plugin.ExitUnreadable {
		t.Errorf("error %v", errs[0])
	}
}

func TestValidate_judgesEachDocument(t *testing.T) {
	w := newWorld(t)
	errs := validate(t.Context(), w.Env, []plugin.Doc{
		{Source: "a.yaml", Data: []byte(nodetest.Doc("a", "one"))},
		{Source: "b.yaml", Data: []byte(strings.Replace(nodetest.Doc("b", "one"), "setting", "seting", 1))},
		{Source: "c.yaml", Data: []byte(strings.Replace(nodetest.Doc("c", "one"), "path: /", "path: ", 1) + "---\n" + nodetest.Doc("d", "one"))},
		{Source: "e.yaml", Data: []byte(nodetest.Doc("a", "one"))},
		{Source: "f.yaml", Data: []byte(strings.Replace(nodetest.Doc("f", "one"), "spec: {", "spec: {services: [a b], ", 1))},
	})
	for i, want := range []string{
		"metadata.name: a is the name in e.yaml too, so none of them is kept: rename or remove one",
		`spec.type: unknown handler "seting": use blind or setting`,
		"holds more than one document",
		"metadata.name: a is the name in a.yaml too, so none of them is kept: rename or remove one",
		`line 5: spec.services[0]: "a b" is not a valid systemd unit name: use letters, digits and @ . _ : \ and, but not first, -`,
	} {
		if got := Text(errs[i]); got != want {
			t.Errorf("document %d: %q, want %q", i, got, want)
		}
	}
	if entries, err := os.ReadDir(w.Env.Root); err != nil || len(entries) != 0 {
		t.Errorf("the machine holds %v, %v", entries, err)
	}
}
