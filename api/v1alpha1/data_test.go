package v1alpha1

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse_data(t *testing.T) {
	docs, err := Parse([]byte(`
apiVersion: v1
kind: ConfigMap
metadata: {name: app.conf, namespace: web, uid: 1a, resourceVersion: "7", labels: {a: b}, creationTimestamp: null, ownerReferences: [{}]}
immutable: true
data:
  motd: |
    hello
  tls.crt: "1"
binaryData: {logo: AAH/, folded: "AA\nH/\n"}
---
kind: Secret
apiVersion: v1
metadata: {name: db}
type: Opaque
stringData: {password: hunter2, both: from stringData}
data:
  bytes: /wD+
  both: Zm9v
  empty: ""
---
{"apiVersion":"v1","kind":"Secret","metadata":{"name":"nothing"},"data":null}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []*Data{
		{Kind: "ConfigMap", Namespace: "web", Name: "app.conf", UID: "1a", ResourceVersion: "7",
			Values: map[string]string{"motd": "hello\n", "tls.crt": "1", "logo": "\x00\x01\xff", "folded": "\x00\x01\xff"}},
		{Kind: "Secret", Namespace: "default", Name: "db",
			Values: map[string]string{"password": "hunter2", "bytes": "\xff\x00\xfe", "both": "from stringData", "empty": ""}},
		{Kind: "Secret", Namespace: "default", Name: "nothing", Values: map[string]string{}},
	}
	var got []*Data
	for _, doc := range docs {
		if doc.Err != nil || doc.NodeConfig != nil {
			t.Errorf("%+v: %v", doc.NodeConfig, doc.Err)
		}
		got = append(got, doc.Data)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
}

func TestParse_refusesData(t *testing.T) {
	const cm, secret = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n"
	for _, tt := range []struct{ name, doc, want string }{
		{"another kind", "kind: Pod\n", "line 1: kind: must be NodeConfig, ConfigMap or Secret, not \"Pod\""},
		{"another version", strings.Replace(cm, "v1", "v2", 1), "line 1: apiVersion: must be v1"},
		{"no name", "apiVersion: v1\nkind: Secret\nmetadata: {}\n", "line 3: metadata.name: is missing"},
		{"a bad namespace", "apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: a.b}\n",
			"line 3: metadata.namespace: is not a valid namespace: use lower case letters, digits and '-', at most 63 characters"},
		{"an unknown key", cm + "dta: {}\n", "line 4: dta: unknown key; known are apiVersion, kind, metadata, immutable, data, binaryData"},
		{"stringData of a ConfigMap", cm + "stringData: {}\n", "line 4: stringData: unknown key; known are apiVersion, kind, metadata, immutable, data, binaryData"},
		{"a number", cm + "data: {port: 8080}\n", `line 4: data.port: must be a string, write port: "8080"`},
		{"a number in a Secret is not repeated", secret + "stringData: {pin: 8080}\n", `line 4: stringData.pin: must be a string, put the value of pin in double quotes`},
		{"no base64", secret + "data: {pin: '8080!'}\n", "line 4: data.pin: must be base64, of the standard alphabet and with padding"},
		{"text in place of a key of a Secret (C1)", secret + "hunter2: x\nstringData: {hunter 2: x}\n", "line 4: unknown key; known are apiVersion, kind, metadata, immutable, type, data, stringData\n" +
			"line 5: stringData: is not a key: use letters, digits, '-', '_' and '.', at most 253"},
		{"text in place of the name of a Secret (C1)", "apiVersion: v1\nkind: Secret\nmetadata: {name: Hunter2}\n",
			"line 3: metadata.name: is not a valid name: use lower case letters, digits, '-' and '.', at most 253 characters"},
		{"a bad key", cm + "data: {a b: c}\n", "line 4: data.a b: is not a key: use letters, digits, '-', '_' and '.', at most 253"},
		{"a key twice", cm + "data: {a: b, a: c}\n", "line 4: data.a: is there twice, first in line 4"},
		{"a key in both", cm + "data: {a: b}\nbinaryData: {a: AA==}\n", "line 1: binaryData.a: is in data too"},
		{"a list", cm + "data: [a]\n", "line 4: data: must be a mapping of keys to values"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			doc := ParseOne([]byte(tt.doc))
			if doc.Err == nil {
				t.Fatal("accepted")
			}
			if diff := cmp.Diff(tt.want, doc.Err.Error()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzParse_data(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {a: b}\ndata: {c: AA==}\n"))
	f.Add([]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\nbinaryData: {c: AA==}\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		docs, err := Parse(file)
		if err != nil {
			return
		}
		for _, doc := range docs {
			if (doc.NodeConfig == nil) == (doc.Data == nil) {
				t.Error("a document is both or neither")
			}
			if doc.Data != nil && doc.Err == nil && (doc.Data.Name == "" || doc.Data.Namespace == "") {
				t.Errorf("accepted %s", doc.Data.Title())
			}
		}
	})
}
