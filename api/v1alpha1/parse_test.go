package v1alpha1

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const head = "apiVersion: keel.tlspu.io/v1alpha1\nkind: NodeConfig\nmetadata: {name: motd}\n"

// parseOne reads a file that holds one NodeConfig.
func parseOne(file []byte) (*NodeConfig, error) {
	doc := ParseOne(file)
	return doc.NodeConfig, doc.Err
}

func TestParseNodeConfig_everyField(t *testing.T) {
	got, err := parseOne([]byte(`---
apiVersion: keel.tlspu.io/v1alpha1
kind: NodeConfig
metadata:
  name: web.nginx
  creationTimestamp: 2026-10-15T12:00:00Z
  generation: 3
  uid: 0aa1
  resourceVersion: "17"
  labels: {team: web}
  annotations:
    note: &n all nodes
spec:
  type: file
  params:
    path: /etc/motd
    mode: "0644"
    size: !!str 12
    note: *n
    quoted: "yes"
    content: |
      hello

  services: [nginx.service, 'dev-disk-by\x2did-a.device']
  interval: 1m30s
  nodeSelector:
    matchLabels: {role: web}
    matchExpressions: [{key: zone, operator: In, values: [a, b]}, {key: gpu, operator: DoesNotExist}]
  configMaps: [{namespace: default, name: web.conf, as: web}]
  secrets: [{namespace: kube-system, name: db, as: db_1, optional: true}]
  suspend: true
`))
	if err != nil {
		t.Fatal(err)
	}
	want := &NodeConfig{
		TypeMeta: metav1.TypeMeta{APIVersion: "keel.tlspu.io/v1alpha1", Kind: "NodeConfig"},
		ObjectMeta: metav1.ObjectMeta{
			Name:              "web.nginx",
			CreationTimestamp: metav1.Date(2026, 10, 15, 12, 0, 0, 0, time.UTC),
			Generation:        3, UID: "0aa1", ResourceVersion: "17",
			Labels:      map[string]string{"team": "web"},
			Annotations: map[string]string{"note": "all nodes"},
		},
		Spec: NodeConfigSpec{
			Type: "file",
			Params: map[string]string{"path": "/etc/motd", "mode": "0644", "size": "12", "note": "all nodes",
				"quoted": "yes", "content": "hello\n"},
			Services: []string{"nginx.service", `dev-disk-by\x2did-a.device`},
			Interval: &metav1.Duration{Duration: 90 * time.Second},
			NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": "web"}, MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "zone", Operator: "In", Values: []string{"a", "b"}}, {Key: "gpu", Operator: "DoesNotExist"}}},
			ConfigMaps: []DataRef{{Namespace: "default", Name: "web.conf", As: "web"}},
			Secrets:    []DataRef{{Namespace: "kube-system", Name: "db", As: "db_1", Optional: true}},
			Suspend:    true,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("NodeConfig (-want +got):\n%s", diff)
	}
}

func TestParseNodeConfig_accepts(t *testing.T) {
	for name, doc := range map[string]string{
		"the least":              head + "spec: {type: file}\n",
		"JSON":                   `{"apiVersion":"keel.tlspu.io/v1alpha1","kind":"NodeConfig","metadata":{"name":"a"},"spec":{"type":"file","params":{"path":"/a"}}}`,
		"kubectl's null time":    strings.Replace(head, "motd}", "motd, creationTimestamp: null}", 1) + "spec: {type: file}\n",
		"the shortest interval":  head + "spec: {type: file, interval: 10s}\n",
		"the longest unit name":  head + "spec: {type: file, services: [" + strings.Repeat("a", 255) + "]}\n",
		"the longest name":       strings.Replace(head, "motd", strings.Repeat("a", 253), 1) + "spec: {type: file}\n",
		"one brace":              head + "spec: {type: file, params: {content: 'a { b'}}\n",
		"Windows' line ends":     strings.ReplaceAll(head+"spec:\n  type: file\n", "\n", "\r\n"),
		"an end of the document": head + "spec: {type: file}\n...\n",
		"templates":              head + "spec: {type: file, params: {content: '{{ .Node.Name }}'}, services: ['{{ .OS.ID }}.service']}\n",
		"a selector of all":      head + "spec: {type: file, nodeSelector: {}}\n",
		"no selector":            head + "spec: {type: file, nodeSelector: null}\n",
		"one thing read twice":   head + "spec: {type: file, configMaps: [{namespace: a, name: b, as: c}, {namespace: a, name: b, as: d}]}\n",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parseOne([]byte(doc)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestParseNodeConfig_refuses(t *testing.T) {
	for _, tt := range []struct{ name, doc, want string }{
		{"nothing", "", "holds no document"},
		{"a comment", "# soon\n", "holds no document"},
		{"no mapping", "motd\n", "line 1: must be a mapping of keys to values"},
		{"half a document", "apiVersion: keel.tlspu.io/v1alpha1\nkind: NodeConfig\nmeta", "not valid YAML: line 3: could not find expected ':'"},
		{"two documents", head + "spec: {type: file}\n---\n" + head, "holds more than one document"},
		{"unknown keys at every level", "apiVersion: keel.tlspu.io/v1alpha1\nkind: NodeConfig\nmetadata: {name: a, nane: b}\nspec:\n  type: file\n  parms: {}\nsepc: {}\n",
			"line 3: metadata.nane: unknown key; known are name, namespace, labels, annotations, creationTimestamp, generation, resourceVersion, uid\n" +
				"line 6: spec.parms: unknown key; known are type, params, services, interval, nodeSelector, configMaps, secrets, suspend\n" +
				"line 7: sepc: unknown key; known are apiVersion, kind, metadata, spec, status"},
		{"a key twice", head + "spec:\n  type: file\n  type: package\n", "line 6: spec.type: is there twice, first in line 5"},
		{"a parameter twice", head + "spec:\n  type: file\n  params:\n    path: /a\n    path: /b\n", "line 8: spec.params.path: is there twice, first in line 7"},
		{"a merge key", head + "spec:\n  type: file\n  params:\n    <<: {path: /a}\n", "line 7: spec.params: merge keys (<<) are not taken here; write the keys themselves"},
		{"a key that is a number", head + "spec:\n  type: file\n  params:\n    1: a\n", "line 7: spec.params: a key must be a string; put it in quotes"},
		{"nothing but a kind", "kind: NodeConfig\n", "line 1: apiVersion: is missing\nline 1: metadata: is missing\nline 1: spec: is missing"},
		{"another version", "apiVersion: keel.tlspu.io/v1\nkind: NodeConfig\nmetadata: {name: a}\nspec: {type: file}\n",
			"line 1: apiVersion: must be keel.tlspu.io/v1alpha1"},
		{"another kind", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\ndata: {}\n",
			`line 2: kind: must be NodeConfig, ConfigMap or Secret, not "Pod"`},
		{"no kind", "apiVersion: keel.tlspu.io/v1alpha1\nkind: 1\nmetadata: {name: a}\nspec: {type: file}\n",
			"line 2: kind: must be a string, write kind: \"1\""},
		{"no text where one is a rule", "apiVersion: 1\nkind: NodeConfig\nmetadata: {name: 123}\nspec: {type: n}\n",
			"line 1: apiVersion: must be a string, write apiVersion: \"1\"\nline 3: metadata.name: must be a string, write name: \"123\"\n" +
				"line 4: spec.type: must be a string, write type: \"n\""},
		{"an empty name", strings.Replace(head, "motd}", "''}", 1) + "spec: {type: file}\n",
			`line 3: metadata.name: "" is not a valid name: use lower case letters, digits, '-' and '.', begin and end with a letter or digit, at most 253 characters`},
		{"an octal number", head + "spec:\n  type: file\n  params:\n    mode: 0644\n", `line 7: spec.params.mode: must be a string, write mode: "0644"`},
		{"a truth value", head + "spec: {type: file, params: {a: true}}\n", `line 4: spec.params.a: must be a string, write a: "true"`},
		{"a truth value of YAML 1.1", head + "spec: {type: file, params: {a: Yes}}\n", `line 4: spec.params.a: must be a string, write a: "Yes"`},
		{"no value", head + "spec:\n  type: file\n  params:\n    content:\n", `line 7: spec.params.content: must be a string, write content: ""`},
		{"a long number", head + "spec: {type: file, params: {content: 1234567890}}\n", "line 4: spec.params.content: must be a string, put the value of content in double quotes"},
		{"a mapping", head + "spec: {type: file, params: {content: {a: b}}}\n", "line 4: spec.params.content: must be a string"},
		{"a list of parameters", head + "spec: {type: file, params: [a]}\n", "line 4: spec.params: must be a mapping of keys to values"},
		{"no type", head + "spec: {params: {}}\n", "line 4: spec.type: is missing"},
		{"an empty type", head + "spec: {type: ''}\n", "line 4: spec.type: must name a handler"},
		{"a short interval", head + "spec: {type: file, interval: 9.9s}\n", "line 4: spec.interval: 9.9s is too short, the least is 10s"},
		{"a long interval (F8)", head + "spec: {type: file, interval: 99999h}\n", "line 4: spec.interval: 99999h0m0s is too long, the most is 8760h"},
		{"an interval that no duration holds (F8)", head + "spec: {type: file, interval: 99999999999h}\n", "line 4: spec.interval: must be a duration from 10s to 8760h, like 30s, 10m or 1h30m"},
		{"a truth value for ensure (C13)", head + "spec: {type: file, params: {ensure: false}}\n", "line 4: spec.params.ensure: must be a string, write ensure: present or ensure: absent"},
		{"many services (B13)", head + "spec: {type: file, services: [" + strings.Repeat("a,", 80_000) + "]}\n", "line 4: spec.services: holds 80000, at most 64"},
		{"an interval without unit", head + "spec: {type: file, interval: 30}\n", "line 4: spec.interval: must be a duration from 10s to 8760h, like 30s, 10m or 1h30m"},
		{"a suspend in quotes", head + "spec: {type: file, suspend: 'true'}\n", "line 4: spec.suspend: must be true or false"},
		{"a name in capitals", "apiVersion: keel.tlspu.io/v1alpha1\nkind: NodeConfig\nmetadata: {name: ../Motd}\nspec: {type: file}\n",
			`line 3: metadata.name: "../Motd" is not a valid name: use lower case letters, digits, '-' and '.', begin and end with a letter or digit, at most 253 characters`},
		{"a namespace", strings.Replace(head, "motd}", "motd, namespace: default}", 1) + "spec: {type: file}\n",
			"line 3: metadata.namespace: a NodeConfig belongs to the whole cluster and has no namespace; remove it"},
		{"a wrong time", strings.Replace(head, "motd}", "motd, creationTimestamp: yesterday}", 1) + "spec: {type: file}\n",
			"line 3: metadata.creationTimestamp: must be a time like 2026-10-15T12:00:00Z"},
		{"a wrong generation", strings.Replace(head, "motd}", "motd, generation: two}", 1) + "spec: {type: file}\n",
			"line 3: metadata.generation: must be a whole number, 0 or more"},
		{"a generation below zero", strings.Replace(head, "motd}", "motd, generation: -1}", 1) + "spec: {type: file}\n",
			"line 3: metadata.generation: must be a whole number, 0 or more"},
		{"a status", head + "spec: {type: file}\nstatus: {}\n", "line 5: status: is written by the agent; remove it from the file"},
		{"bad units", head + "spec: {type: file, services: [-x, 'a b', a, a, 7, '', nginx;reboot]}\n",
			"line 4: spec.services[0]: \"-x\" is not a valid systemd unit name: use letters, digits and @ . _ : \\ and, but not first, -\n" +
				"line 4: spec.services[1]: \"a b\" is not a valid systemd unit name: use letters, digits and @ . _ : \\ and, but not first, -\n" +
				"line 4: spec.services[3]: \"a\" is listed twice\n" +
				"line 4: spec.services[4]: must be the name of a unit\n" +
				"line 4: spec.services[5]: the name of a unit is empty\n" +
				"line 4: spec.services[6]: \"nginx;reboot\" is not a valid systemd unit name: use letters, digits and @ . _ : \\ and, but not first, -"},
		{"a long unit", head + "spec: {type: file, services: [" + strings.Repeat("a", 256) + "]}\n",
			"line 4: spec.services[0]: \"" + strings.Repeat("a", 64) + "\"… is too long for the name of a unit, at most 255 characters"},
		{"a long template of a unit", head + "spec: {type: file, services: ['{{" + strings.Repeat("a", 1024) + "']}\n",
			"line 4: spec.services[0]: the template is too long, at most 1024 characters"},
		{"a selector that is none", head + "spec: {type: file, nodeSelector: {role: web}}\n",
			"line 4: spec.nodeSelector.role: unknown key; known are matchLabels, matchExpressions"},
		{"an operator that is none", head + "spec: {type: file, nodeSelector: {matchExpressions: [{key: a, operator: in, values: [b]}]}}\n",
			`line 4: spec.nodeSelector: "in" is not a valid label selector operator`},
		{"a label that is a number", head + "spec: {type: file, nodeSelector: {matchLabels: {rack: 7}}}\n",
			`line 4: spec.nodeSelector.matchLabels.rack: must be a string, write rack: "7"`},
		{"references", head + "spec:\n  type: file\n  configMaps: [{namespace: a, name: b}, {namespace: A, name: b, as: c}, {namespace: a, name: b_, as: d}, {namespace: a, name: b, as: e-f}]\n" +
			"  secrets:\n  - {namespace: a, name: b, as: c}\n  - {namespace: a, name: d, as: c}\n  - {namespace: a, name: d, as: e, key: f, optional: maybe}\n",
			`line 6: spec.configMaps[0].as: is missing` + "\n" +
				`line 6: spec.configMaps[1]: namespace: "A" is not a valid namespace: use lower case letters, digits and '-', at most 63 characters` + "\n" +
				`line 6: spec.configMaps[2]: name: "b_" is not a valid name: use lower case letters, digits, '-' and '.', at most 253 characters` + "\n" +
				`line 6: spec.configMaps[3]: as: "e-f" is not a valid name in templates: use letters, digits and '_', begin with no digit, at most 63 characters` + "\n" +
				`line 9: spec.secrets[1].as: "c" is there twice` + "\n" +
				`line 10: spec.secrets[2].key: unknown key; known are namespace, name, as, optional` + "\n" +
				`line 10: spec.secrets[2].optional: must be true or false`},
		{"more references than allowed", head + "spec: {type: file, secrets: [" + manyRefs(65) + "]}\n", "line 4: spec.secrets: holds 65, at most 64"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseOne([]byte(tt.doc))
			if err == nil {
				t.Fatalf("accepted, want %q", tt.want)
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func manyRefs(n int) string {
	var refs []string
	for i := range n {
		refs = append(refs, fmt.Sprintf("{namespace: a, name: b, as: c%d}", i))
	}
	return strings.Join(refs, ", ")
}

// A value may be a password: no message repeats one that is longer than a mode.
func TestParseNodeConfig_showsNoValue(t *testing.T) {
	const secret = "20261015"
	for _, doc := range []string{
		head + "spec: {type: file, params: {content: " + secret + "}}\n",
		head + "spec: {type: file, params: {content: [" + secret + "]}}\n",
		head + "spec: {type: file, params: " + secret + "}\n",
	} {
		if _, err := parseOne([]byte(doc)); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("error = %v, want one without the value", err)
		}
	}
}

func TestParseNodeConfig_namesABadDocument(t *testing.T) {
	nc, err := parseOne([]byte(head + "spec: {type: file, interval: 1s}\n"))
	if err == nil || nc.Name != "motd" {
		t.Errorf("name = %q, error = %v; want motd and an error", nc.Name, err)
	}
}

func TestAddToScheme_knowsTheTypes(t *testing.T) {
	s := runtime.NewScheme()
	if err := AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"NodeConfig", "NodeConfigList", "NodeState", "NodeStateList"} {
		if !s.Recognizes(GroupVersion.WithKind(kind)) {
			t.Errorf("the scheme does not know %s", kind)
		}
	}
}

func TestCRD_isClusterScoped(t *testing.T) {
	crd, err := os.ReadFile(filepath.FromSlash("../../deploy/kubernetes/crd/keel.tlspu.io_nodeconfigs.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"scope: Cluster", "- nc\n", "group: " + GroupVersion.Group, "name: " + GroupVersion.Version, "kind: " + Kind} {
		if !strings.Contains(string(crd), want) {
			t.Errorf("the CRD lacks %q", want)
		}
	}
}

func TestParse_aStream(t *testing.T) {
	docs, err := Parse([]byte("# first\n---\n" + head + "spec: {type: file}\n---\n# nothing\n---\n" +
		"apiVersion: keel.tlspu.io/v1alpha1\nkind: NodeConfig\nmetadata: {name: b}\nspec:\n  tpye: file\n"))
	if err != nil || len(docs) != 2 {
		t.Fatalf("%d documents, error %v; want 2", len(docs), err)
	}
	if docs[0].Err != nil || docs[0].NodeConfig.Name != "motd" {
		t.Errorf("first document: %q, %v", docs[0].NodeConfig.Name, docs[0].Err)
	}
	want := "line 14: spec.tpye: unknown key; known are type, params, services, interval, nodeSelector, configMaps, secrets, suspend\nline 14: spec.type: is missing"
	if docs[1].NodeConfig.Name != "b" || docs[1].Err == nil || docs[1].Err.Error() != want {
		t.Errorf("second document: %q, %v; want %s", docs[1].NodeConfig.Name, docs[1].Err, want)
	}
}

// What follows a mistake in the syntax cannot be told from what is missing.
func TestParse_givesNothingOfABrokenFile(t *testing.T) {
	docs, err := Parse([]byte(head + "spec: {type: file}\n---\nkind: [\n"))
	if err == nil || docs != nil {
		t.Errorf("documents %v, error %v; want none and an error", docs, err)
	}
}

// TestParse_boundsErrors (B12) holds how much is said of a document.
func TestParse_boundsErrors(t *testing.T) {
	doc := ParseOne([]byte("kind: NodeConfig\n" + strings.Repeat("a: b\n", 40_000)))
	text := doc.Err.Error()
	if n := strings.Count(text, "\n") + 1; n != maxProblems+1 || !strings.HasSuffix(text, " more errors") {
		t.Errorf("%d lines that end in %q", n, text[len(text)-40:])
	}
}

func FuzzParseNodeConfig(f *testing.F) {
	f.Add([]byte(head + "spec: {type: file, params: {path: /a}, services: [a], interval: 1m}\n"))
	f.Add([]byte(head + "spec: &a {type: *a}\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("{{\n"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		nc, err := parseOne(doc)
		if nc == nil {
			t.Fatal("no NodeConfig")
		}
		if err != nil {
			return
		}
		if CheckName(nc.Name) != nil || nc.Spec.Type == "" || nc.Kind != Kind {
			t.Errorf("accepted %+v", nc)
		}
		for _, unit := range nc.Spec.Services {
			if CheckUnit(unit) != nil && !IsTemplate(unit) {
				t.Errorf("accepted unit %q", unit)
			}
		}
	})
}
