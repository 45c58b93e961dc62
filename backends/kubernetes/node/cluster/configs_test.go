package cluster

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tlspu/keel/api/v1alpha1"
)

// thing is a NodeConfig as the API server would send it.
func thing(t *testing.T, name, spec, nodes string, edit func(*object)) *object {
	t.Helper()
	o := &object{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u1", ResourceVersion: "10", Generation: 1}, Spec: json.RawMessage(spec)}
	o.Status.Nodes = json.RawMessage(nodes)
	if edit != nil {
		edit(o)
	}
	return o
}

const motd = `{"type":"file","params":{"path":"/etc/motd","content":"x\n"}}`

func TestConfigs_whatIsNews(t *testing.T) {
	tests := []struct {
		name string
		next func(*testing.T) *object
		want bool
	}{
		{"the same again", func(t *testing.T) *object { return thing(t, "a", motd, "", nil) }, false},
		{"the status of this node", func(t *testing.T) *object {
			return thing(t, "a", motd, `{"n1":{"lastResult":"success"}}`, nil)
		}, false},
		{"the status of another node", func(t *testing.T) *object {
			return thing(t, "a", motd, `{"n2":{"lastResult":"error"}}`, nil)
		}, false},
		{"metadata", func(t *testing.T) *object {
			return thing(t, "a", motd, "", func(o *object) { o.Labels = map[string]string{"a": "b"}; o.ResourceVersion = "11" })
		}, false},
		{"another generation", func(t *testing.T) *object {
			return thing(t, "a", motd, "", func(o *object) { o.Generation = 2 })
		}, true},
		{"another spec of one generation", func(t *testing.T) *object {
			return thing(t, "a", strings.Replace(motd, "x", "y", 1), "", nil)
		}, true},
		{"deleted and made anew", func(t *testing.T) *object {
			return thing(t, "a", motd, "", func(o *object) { o.UID = "u2" })
		}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			woken := 0
			s := newConfigs("n1", func() { woken++ })
			if err := s.Replace([]any{thing(t, "a", motd, "", nil)}, "10"); err != nil {
				t.Fatal(err)
			}
			if news, _, synced := s.take(); len(news) != 1 || !synced {
				t.Fatalf("at first %d are news, synced %v", len(news), synced)
			}
			woken = 0
			if err := s.Update(tt.next(t)); err != nil {
				t.Fatal(err)
			}
			news, gone, _ := s.take()
			if got := len(news) == 1; got != tt.want || len(gone) != 0 || (woken > 0) != tt.want {
				t.Errorf("news %v, woken %d times, want %v; gone %v", got, woken, tt.want, gone)
			}
		})
	}
}

// After the watch was broken the whole list comes: what is not in it is gone.
func TestConfigs_replace(t *testing.T) {
	s := newConfigs("n1", func() {})
	if err := s.Replace([]any{thing(t, "a", motd, "", nil), thing(t, "b", motd, "", nil)}, "10"); err != nil {
		t.Fatal(err)
	}
	s.take()
	if err := s.Replace([]any{thing(t, "b", motd, "", nil), thing(t, "c", motd, "", nil)}, "20"); err != nil {
		t.Fatal(err)
	}
	news, gone, _ := s.take()
	if len(news) != 1 || news[0].Name != "c" || !slices.Equal(gone, []string{"a"}) {
		t.Errorf("news %v, gone %v", news, gone)
	}
	if _, there := s.get("a"); there {
		t.Error("a is still known")
	}
}

// One that goes and comes back before anybody asks is news and not gone.
func TestConfigs_goneAndBack(t *testing.T) {
	s := newConfigs("n1", func() {})
	for _, do := range []func(any) error{s.Add, s.Delete, s.Add} {
		if err := do(thing(t, "a", motd, "", nil)); err != nil {
			t.Fatal(err)
		}
	}
	if news, gone, _ := s.take(); len(news) != 1 || len(gone) != 0 {
		t.Errorf("news %v, gone %v", news, gone)
	}
	if err := s.Delete(thing(t, "a", motd, "", nil)); err != nil {
		t.Fatal(err)
	}
	if news, gone, _ := s.take(); len(news) != 0 || len(gone) != 1 {
		t.Errorf("news %v, gone %v", news, gone)
	}
}

func TestObject_document(t *testing.T) {
	tests := []struct {
		name, spec string
		ignored    []string
		wantErr    string // part of it; empty: none
	}{
		{"sound", motd, nil, ""},
		{"of a newer version", `{"type":"file","params":{"path":"/x"},"later":{"a":1},"secrets":[{"namespace":"a","name":"b","as":"c","new":true}]}`,
			[]string{"spec.later", "spec.secrets[0].new"}, ""},
		{"against the rules", `{"type":"file","interval":"1s","services":["a b"]}`, nil, "spec.services[0]: "},
		{"without a type", `{}`, nil, "spec.type: "},
		{"of another shape", `{"type":["file"]}`, nil, "spec: "},
		{"nothing", ``, nil, "spec: "},
		{"any text", `{"type":"file","params":{"path":"/x","content":"a: b\n\u2028\u0000\ttab \ud83d\ude00 {{ .Node.Name }} # no comment"}}`, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			created := metav1.NewTime(time.Unix(1000, 0))
			o := thing(t, "a", tt.spec, "", func(o *object) { o.CreationTimestamp = created; o.Generation = 7 })
			doc, ignored := o.document()
			if diff := cmp.Diff(tt.ignored, ignored); diff != "" {
				t.Errorf("ignored (-want +got):\n%s", diff)
			}
			switch {
			case tt.wantErr == "" && doc.Err != nil:
				t.Errorf("refused: %v", doc.Err)
			case tt.wantErr != "" && (doc.Err == nil || !strings.HasPrefix(doc.Err.Error(), tt.wantErr)):
				t.Errorf("error %v, want %s…", doc.Err, tt.wantErr)
			}
			if nc := doc.NodeConfig; nc.Name != "a" || nc.Generation != 7 || !nc.CreationTimestamp.Equal(&created) {
				t.Errorf("metadata %+v", nc.ObjectMeta)
			}
			var want v1alpha1.NodeConfigSpec
			if err := json.Unmarshal(o.Spec, &want); err != nil || doc.Err != nil {
				return
			}
			if diff := cmp.Diff(want, doc.NodeConfig.Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

func TestObject_slim(t *testing.T) {
	nodes := `{"n2":{"message":"\"n1\": {","lastResult":"success"},"n1":{"lastResult":"error","message":"m"},"n3":{}}`
	o := thing(t, "a", motd, nodes, func(o *object) {
		o.ManagedFields = []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}}
	})
	want := len(motd) + len(nodes) + len(`{"f:spec":{}}`)
	for range 2 {
		o.slim("n1")
		if o.bytes != want || len(o.ManagedFields) != 0 || strings.Contains(string(o.Status.Nodes), "n2") {
			t.Errorf("%d bytes, want %d; left %s and %v", o.bytes, want, o.Status.Nodes, o.ManagedFields)
		}
	}
	if own := o.own("n1"); own == nil || own.LastResult != v1alpha1.Error || own.Message != "m" {
		t.Errorf("own entry %+v", own)
	}
	for name, nodes := range map[string]string{
		"of others": `{"n2":{}}`, "only named in a message": `{"n2":{"message":"\"n1\""}}`, "broken": `{"n1":{"lastRunTime":3}}`, "no object": `["n1"]`, "none": ``,
	} {
		if own := thing(t, "a", motd, nodes, nil).own("n1"); own != nil {
			t.Errorf("%s: own entry %+v", name, own)
		}
	}
}
