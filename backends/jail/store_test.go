package jail_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/tlspu/keel/backends/jail"
)

func TestStore_roundTrip(t *testing.T) {
	b := newBench(t)
	s := b.store()
	first := jail.Record{Spec: spec("a", nil), EpairOrdinal: 7, Provisioning: true}
	second := jail.Record{Spec: spec("b", nil), EpairOrdinal: 8, Deleting: true}
	b.do(s.Save(t.Context(), &first))
	b.do(s.Save(t.Context(), &second))
	b.do(s.Save(t.Context(), &second))
	for _, other := range []string{"notes.txt", "a.yaml.tmp", ".hidden.yaml"} {
		b.do(os.WriteFile(filepath.Join(b.dir, other), []byte("{"), 0o600))
	}
	got, err := b.store().Load(t.Context())
	b.do(err)
	b.equal("records", got, map[string]jail.Record{"a": first, "b": second})
	info, err := os.Stat(filepath.Join(b.dir, "a.yaml"))
	b.do(err)
	b.equal("mode", info.Mode().String(), "-rw-------")

	b.do(s.Remove("a"))
	b.do(s.Remove("a"))
	got, err = s.Load(t.Context())
	b.do(err)
	b.equal("records", got, map[string]jail.Record{"b": second})
}

func TestStore_optionalFieldsMayBeMissing(t *testing.T) {
	b := newBench(t)
	b.do(b.store().Save(t.Context(), &jail.Record{Spec: spec("a", nil), EpairOrdinal: 7}))
	if text := b.read("a.yaml"); strings.Contains(text, "deleting") || strings.Contains(text, "provisioning") {
		t.Fatalf("the file is no old one:\n%s", text)
	}
	got, err := b.store().Load(t.Context())
	b.do(err)
	if diff := cmp.Diff(map[string]jail.Record{"a": {Spec: spec("a", nil), EpairOrdinal: 7}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestStore_refusesWhatIsBroken(t *testing.T) {
	tests := []struct{ name, old, next, want string }{
		{"half written", "metadata:", "metadata: [", "record a.yaml: read: "},
		{"empty", "", "", "record a.yaml: is empty"},
		{"no spec", "", "epair_ordinal: 3\n", "record a.yaml: has no spec"},
		{"two documents", "spec:", "deleting: true\n---\nspec:", "record a.yaml: "},
		{"unknown field", "epair_ordinal: 7", "epair_ordinal: 7\ndeletingg: true", "field deletingg not found"},
		{"unknown field of the spec", "bridge:", "brigde:", "spec.network.brigde: there is no such field"},
		{"no ordinal", "epair_ordinal: 7\n", "", "record a.yaml: epair_ordinal must be 1 or more, is 0"},
		{"another jail's", "name: a\n", "name: c\n", `record a.yaml: holds the jail "c", which belongs into another file`},
		{"invalid", "cpu: \"1.5\"", "cpu: lots", `record a.yaml: spec.resources.cpu: "lots" is not a decimal number`},
		{"an ordinal twice", "epair_ordinal: 7", "epair_ordinal: 8", "record b.yaml: epair_ordinal 8 is that of a.yaml already"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.do(b.store().Save(t.Context(), &jail.Record{Spec: spec("a", nil), EpairOrdinal: 7}))
			b.do(b.store().Save(t.Context(), &jail.Record{Spec: spec("b", at("10.0.60.9/24")), EpairOrdinal: 8}))
			text := tt.next
			if tt.old != "" {
				text = strings.Replace(b.read("a.yaml"), tt.old, tt.next, 1)
			}
			b.do(os.WriteFile(filepath.Join(b.dir, "a.yaml"), []byte(text), 0o600))
			_, err := jail.NewKeeper(t.Context(), b.options())
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "fix it, or move it away") {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

// FuzzRecord holds that a record that is read is one that may be acted on, and
// reads back as itself.
func FuzzRecord(f *testing.F) {
	text, err := yaml.Marshal(&jail.Record{Spec: spec("a", nil), EpairOrdinal: 7, Deleting: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("spec: &x {spec: *x}\nepair_ordinal: 1"))
	f.Add([]byte("spec: !!binary aGk=\n---"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := jail.ParseRecord(data, "a")
		if err != nil {
			return
		}
		if r.EpairOrdinal < 1 || r.Spec.Metadata.Name != "a" || r.Spec.Validate() != nil {
			t.Fatalf("read as %+v", r)
		}
		text, err := yaml.Marshal(&r)
		if err != nil {
			t.Fatal(err)
		}
		again, err := jail.ParseRecord(text, "a")
		if diff := cmp.Diff(r, again); err != nil || diff != "" {
			t.Fatal(err, diff)
		}
	})
}
