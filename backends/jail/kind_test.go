package jail_test

import (
	"errors"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/tlspu/keel/backends/jail"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/plugin"
)

func document(t *testing.T, source, name string) plugin.Doc {
	t.Helper()
	data, err := yaml.Marshal(spec(name, nil))
	if err != nil {
		t.Fatal(err)
	}
	return plugin.Doc{Source: source, Data: data}
}

func TestKind_validate(t *testing.T) {
	docs := []plugin.Doc{
		document(t, "web.yaml", "web"),
		document(t, "bad.yaml", "Bad"),
		{Source: "half.yaml", Data: []byte("kind: [")},
		document(t, "again.yaml", "web"),
		{Source: "twice.yaml", Data: []byte("kind: Jail\nkind: Jail\n")},
		document(t, "db.yaml", "db"),
	}
	want := []struct {
		code int
		text string
	}{
		{0, ""},
		{3, `metadata.name: "Bad" may only hold`},
		{2, "not valid YAML"},
		{3, "metadata.name: jail web is in web.yaml already"},
		{2, "kind: is given twice"},
		{0, ""},
	}
	for i, err := range jail.Kind().Validate(t.Context(), plugin.Env{}, docs) {
		code, text := 0, ""
		if exit := new(plugin.Exit); errors.As(err, &exit) {
			code, text = exit.Code, exit.Error()
		}
		if code != want[i].code || !strings.Contains(text, want[i].text) || (err == nil) != (want[i].code == 0) {
			t.Errorf("%s: got %d %v, want %d %s", docs[i].Source, code, err, want[i].code, want[i].text)
		}
	}
}

// TestKind_saysThatThereIsNoDriver: nothing pretends that a jail was made.
func TestKind_saysThatThereIsNoDriver(t *testing.T) {
	docs := []plugin.Doc{document(t, "web.yaml", "web"), document(t, "bad.yaml", "Bad")}
	list, err := jail.Kind().Targets(t.Context(), plugin.Env{}, docs)
	if err != nil || len(list) != 2 {
		t.Fatalf("got %v, %v", list, err)
	}
	if list[0].ID() != "jail/web" || list[1].ID() != "bad.yaml" {
		t.Errorf("named %s and %s", list[0].ID(), list[1].ID())
	}
	for i, want := range []string{"it has no jail driver for ", `metadata.name: "Bad"`} {
		planner, ok := list[i].(drift.Planner)
		if !ok {
			t.Fatalf("%s cannot be ensured", list[i].ID())
		}
		if res := drift.Ensure(t.Context(), planner, drift.Options{}); res.Err == nil || !strings.Contains(res.Err.Error(), want) || res.Changed {
			t.Errorf("%s: %+v, want %s", list[i].ID(), res, want)
		}
	}
}
