package document

import (
	"runtime"
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
		{"JSON in a stream (C2)", "---\n{\"a\":\"1\u0085\u2028\u2029\"}\n---\n{\"a\":\"\u0085\"}\n...\n---\na: x\n", "1\u0085\u2028\u2029 \u0085 x", ""},
		{"NEL in a block (C3)", "a: |\n  x\u0085  y\n", "", `line 2: holds U+0085, which YAML reads as the end of a line; write "\u0085" in double quotes, or use contentBase64`},
		{"CR LF in a block (C3)", "b: 1\r\na: |\r\n  x\r\n", "", "line 3: the line of a block ends in CR, which YAML reads as LF; save the file with LF, or use contentBase64"},
		{"CR LF outside a block", "a: x\r\nb: |-\r\n  y\r\n", "x", ""},
		{"a tab (C13)", "b:\n\ta: x\n", "", "not valid YAML: line 2: a tab, indent with spaces"},
		{"an alias of nothing (C1)", "a: *hunter2\n", "", "not valid YAML: an alias (*) names no anchor; put a value that begins with * in quotes"},
		{"an alias in what it stands for", "a: &a [*a]\n", "", "line 1: an alias stands for something that contains the alias itself"},
		{"deep", strings.Repeat("[", 65) + strings.Repeat("]", 65), "", "line 1: lists and mappings are nested deeper than 64 levels"},
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

// TestNodes_bounds (B12) holds what 16 MiB may cost: ten times as much memory.
func TestNodes_bounds(t *testing.T) {
	const size = 16 << 20
	for name, item := range map[string]string{"list": "a,", "block": "-\n", "nested": "[],", "keys": "? \n", "comments": "#\n", "mappings": "{a: },", "aliases": "*a,"} {
		t.Run(name, func(t *testing.T) {
			text := strings.Repeat(item, size/len(item))
			if strings.HasSuffix(item, ",") {
				text = "[&a x," + text + "]"
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := Nodes([]byte(text)); err == nil || !strings.Contains(err.Error(), "at most 262144 are read") {
				t.Errorf("error %v", err)
			}
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; got > 10*size {
				t.Errorf("allocates %d bytes", got)
			}
		})
	}
	text := "[" + strings.Repeat("a,", maxMarks/2) + strings.Repeat("x", size-maxMarks) + "]" // as many values as are read
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := Nodes([]byte(text)); err == nil || !strings.Contains(err.Error(), "once its aliases are replaced") {
		t.Errorf("error %v", err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 10*size {
		t.Errorf("allocates %d bytes", got)
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
