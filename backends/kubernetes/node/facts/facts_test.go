package facts

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse_givesFacts(t *testing.T) {
	f, err := Parse([]byte(`
node:
  name: web-1
  externalIP: null
  labels: {role: web, topology.kubernetes.io/zone: a}
  addresses: [{type: InternalIP, address: 10.0.0.1}]
  conditions: {}
os: {id: debian}
kernel:
`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"Node.Name":       "web-1",
		"Node.ExternalIP": ".Node.ExternalIP: this node has none",
		"Node.InternalIP": ".Node.InternalIP is not known: " + notGiven,
		"Node.Labels":     map[string]string{"role": "web", "topology.kubernetes.io/zone": "a"},
		"Node.Addresses":  []Address{{"InternalIP", "10.0.0.1"}},
		"Node.Conditions": map[string]string{},
		"Node.Capacity":   ".Node.Capacity is not known: " + notGiven,
		"OS.ID":           "debian",
		"OS.IDLike":       ".OS.IDLike is not known: " + notGiven,
		"Kernel.Release":  ".Kernel.Release is not known: " + notGiven,
		"Cluster.Name":    ".Cluster.Name is not known: " + notGiven,
	}
	var names []string
	for name := range want {
		names = append(names, name)
	}
	if diff := cmp.Diff(want, got(f, names...)); diff != "" {
		t.Error(diff)
	}
}

func TestParse_nothing(t *testing.T) {
	for _, doc := range []string{"", "# nothing\n", "null\n", "{}", "node: {}"} {
		if f, err := Parse([]byte(doc)); err != nil || f.Unread["Node"] == "" {
			t.Errorf("%q: %+v, %v", doc, f, err)
		}
	}
}

func TestParse_refuses(t *testing.T) {
	for _, tt := range []struct{ name, doc, want string }{
		{"no YAML", "node: [", "not valid YAML: line 1: did not find expected node content"},
		{"two documents of facts", "node: {}\n---\nos: {}\n", "line 3: a second document of this kind; give one of facts, one Node, one Namespace"},
		{"another kind", "kind: Pod\n", "line 1: kind: must be Node or Namespace, or the keys of facts be given without a kind"},
		{"another namespace", "kind: Namespace\nmetadata: {name: default, uid: a}\n", "line 1: metadata: must be that of the namespace kube-system, with its uid"},
		{"a Node without a name", "kind: Node\nmetadata: {}\n", "line 1: metadata.name: is missing"},
		{"no Node", "kind: Node\nmetadata: []\n", "line 1: is no Node: json: cannot unmarshal array into Go struct field Node.metadata of type v1.ObjectMeta"},
		{"a Node and facts that differ", "kind: Node\nmetadata: {name: a}\n---\nnode: {name: b}\n", ".Node.Name: is another one in the object of the same file"},
		{"a list", "- a\n", "line 1: must be a mapping of keys to values"},
		{"an unknown group", "nodes: {}\n", "line 1: nodes: unknown key; known are node, os, kernel, cluster"},
		{"an unknown fact", "os:\n  ID: a\n", "line 2: os.ID: unknown key; known are id, idLike, versionID, versionCodename, name, prettyName"},
		{"twice", "os: {id: a, id: b}\n", "line 1: os.id: is there twice, first in line 1"},
		{"a number", "os: {versionID: 13}\n", "line 1: os.versionID: must be a string; put it in quotes"},
		{"empty", "node: {externalIP: ''}\n", "line 1: node.externalIP: is empty: write null where there is none, leave it out where you do not know"},
		{"a label that is a number", "node: {labels: {rack: 7}}\n", "line 1: node.labels.rack: must be a string; put it in quotes"},
		{"no value of a label", "node: {labels: {a: 'b c'}}\n", "line 1: node.labels.a: is no value of a label: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"},
		{"half an address", "node: {addresses: [{type: a}]}\n", "line 1: node.addresses[0]: must have type and address"},
		{"an address of nothing", "node: {addresses: [{type: a, address: null}]}\n", "line 1: node.addresses[0].address: must be a string; put it in quotes"},
		{"an alias", "node: {name: &a b, hostname: *a}\n", "line 1: node.hostname: is an alias; write the value itself"},
		{"a key that is a number", "1: a\n", "line 1: a key must be a string; put it in quotes"},
		{"all mistakes at once", "os: {id: 1, idLike: 2}\n", "line 1: os.id: must be a string; put it in quotes\nline 1: os.idLike: must be a string; put it in quotes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(tt.doc))
			if diff := cmp.Diff(tt.want, fmt.Sprint(err)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("node: {name: a, labels: {a: b}, addresses: [{type: a, address: b}], externalIP: null}\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		facts, err := Parse(doc)
		if err != nil {
			return
		}
		for _, name := range Names() {
			if value, err := facts.Lookup(name); err == nil && value == "" && name != "OS.IDLike" {
				t.Errorf("%s is empty", name)
			}
		}
	})
}

// What the machine tells counts; the file fills what it cannot know.
func TestAdd(t *testing.T) {
	f := FromHost(root(t, map[string]string{"etc/os-release": "ID=debian\nVERSION_ID=13\n"}))
	given, err := Parse([]byte("node: {name: a, externalIP: null}\nos: {id: rocky, versionID: '13', versionCodename: trixie}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"OS.ID"}, f.Add(given)); diff != "" {
		t.Errorf("overruled (-want +got):\n%s", diff)
	}
	want := map[string]any{
		"Node.Name": "a", "Node.ExternalIP": ".Node.ExternalIP: this node has none", "Node.Hostname": ".Node.Hostname is not known: " + notGiven,
		"OS.ID": "debian", "OS.VersionCodename": "trixie",
	}
	if diff := cmp.Diff(want, got(f, "Node.Name", "Node.ExternalIP", "Node.Hostname", "OS.ID", "OS.VersionCodename")); diff != "" {
		t.Error(diff)
	}
}

func TestLookup_noSuchFact(t *testing.T) {
	f := Given()
	for _, name := range []string{"", "Node", "Node.", "Node.name", "Unread.Node", "Pod.Name", "Node.Name.x"} {
		if value, err := f.Lookup(name); err == nil || !strings.HasPrefix(err.Error(), "there is no fact ") {
			t.Errorf("Lookup(%q) = %v, %v", name, value, err)
		}
	}
}

// The page has a row for every fact, with the key of the file and no empty cell.
func TestDocs_facts(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/spec/facts.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, rows []string
	each(&Facts{}, func(group, field reflect.StructField, _ reflect.Value) {
		want = append(want, fmt.Sprintf("`.%s.%s` | `%s.%s`", group.Name, field.Name, group.Tag.Get("json"), field.Tag.Get("json")))
	})
	_, table, _ := strings.Cut(string(page), "\n| fact |")
	for _, line := range strings.Split(table, "\n")[2:] {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if !strings.HasPrefix(line, "|") {
			break
		}
		rows = append(rows, cells[0]+" | "+cells[1])
		for _, cell := range cells {
			if strings.TrimSpace(cell) == "" || len(cells) != 5 {
				t.Errorf("a cell is missing or empty: %s", line)
			}
		}
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("facts (-code +page):\n%s", diff)
	}
}
