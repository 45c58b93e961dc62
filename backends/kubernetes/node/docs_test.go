package node

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/node/render"
	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"
)

// rows gives the first cells of the table whose heading begins with head, without
// quotes; a cell of several names gives each.
func rows(t *testing.T, page, head string) (names []string) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/spec/" + page)
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "\n| "+head+" |")
	if !ok {
		t.Fatalf("%s has no table that begins with %q", page, head)
	}
	for _, line := range strings.Split(table, "\n")[2:] {
		if !strings.HasPrefix(line, "|") {
			break
		}
		first, _, _ := strings.Cut(line[1:], "|")
		for _, quoted := range regexp.MustCompile("`[^`]+`").FindAllString(first, -1) {
			names = append(names, strings.Trim(quoted, "`"))
		}
	}
	return names
}

// fields lists the JSON names of a struct's fields.
func fields(v any) (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

func TestDocs_tablesEqualTheCode(t *testing.T) {
	if diff := cmp.Diff(fields(v1alpha1.NodeConfigSpec{}), rows(t, "nodeconfig.md", "spec field")); diff != "" {
		t.Errorf("fields of the spec (-code +page):\n%s", diff)
	}
	if diff := cmp.Diff(fields(v1alpha1.NodeStatus{}), rows(t, "node-agent.md", "field")); diff != "" {
		t.Errorf("fields of the status (-code +page):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"direct", "nsenter", "chroot", "auto"}, rows(t, "node-agent.md", "`--exec-mode`")); diff != "" {
		t.Errorf("exec modes (-code +page):\n%s", diff)
	}
}

func TestDocs_functionsOfTemplates(t *testing.T) {
	page := rows(t, "nodeconfig.md", "function")
	slices.Sort(page)
	if diff := cmp.Diff(render.Functions(), page); diff != "" {
		t.Errorf("functions (-code +page):\n%s", diff)
	}
}

// Every message of a status stands on the page.
func TestDocs_messages(t *testing.T) {
	text, err := os.ReadFile("../../../docs/spec/node-agent.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"configuration applied", "configuration applied, services restarted", "services restarted", "configuration in place", nodeconfig.Suspended, nodeconfig.Excluded} {
		if !strings.Contains(string(text), "`"+want+"`") {
			t.Errorf("the page lacks the message %q", want)
		}
	}
}
