package document

import (
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

func TestNodes(t *testing.T) {
	tests := []struct {
		name, text string
		want       string // the values of key "a", one a document
		wantErr    string
	}{
		{"nothing", "", "", ""},
		{"one", "a: x\n", "x", ""},
		{"a stream with an empty one", "a: x\n---\n# nothing\n---\na: y\n", "x - y", ""},
		{"a mark at the start", "\ufeffa: x\n", "x", ""},
		{"JSON with escapes that YAML does not know", `{"a":"\ud83d\ude00\\\/\u00e9\n\""}`, "😀\\/é\n\"", ""},
		{"characters in JSON that YAML does not take as they are", "{\"a\":\"\u007f\u0085\u009f\u2028\u2029\ufeff\ufffe\uffff\U0001ffff\"}", "\u007f\u0085\u009f\u2028\u2029\ufeff\ufffe\uffff\U0001ffff", ""},
		{"JSON that is not UTF-8", "{\"a\":\"\u007f\xff\"}", "", "not valid YAML: invalid leading UTF-8 octet"},
		{"a list in JSON", "[\"\\/\"]", "?", ""},
		{"no JSON", `{a: "\/"}`, "", "not valid YAML: found unknown escape character"},
		{"half a pair", `{"a":"\ud83d"}`, "", "not valid YAML: found invalid Unicode character escape code"},
		{"a broken end spoils all", "a: x\n---\na: [\n", "", "not valid YAML: line 3: did not find expected node content"},
		{"UTF-16", "\xff\xfea\x00", "", "is UTF-16, not UTF-8"},
		{"no text", "\x00\x01", "", "not valid YAML: control characters are not allowed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			nodes, err := Nodes([]byte(tt.text))
			switch {
			case err != nil && err.Error() != tt.wantErr, err == nil && tt.wantErr != "":
				t.Fatalf("error %v, want %q", err, tt.wantErr)
			case err != nil && nodes != nil:
				t.Errorf("%d documents beside an error", len(nodes))
			}
			var values []string
			for _, n := range nodes {
				values = append(values, value(n))
			}
			if got := strings.Join(values, " "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func value(doc *yaml.Node) string {
	switch n := doc.Content[0]; {
	case Empty(doc):
		return "-"
	case n.Kind != yaml.MappingNode:
		return "?"
	default:
		return n.Content[1].Value
	}
}

func FuzzNodes(f *testing.F) {
	f.Add([]byte("a: x\n---\nb: [1]\n"))
	f.Add([]byte(`{"a":"\ud83d\ude00\/"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		nodes, err := Nodes(text)
		if err != nil {
			return
		}
		for _, n := range nodes {
			if n.Kind != yaml.DocumentNode || len(n.Content) != 1 {
				t.Errorf("document of kind %d with %d nodes", n.Kind, len(n.Content))
			}
		}
	})
}
