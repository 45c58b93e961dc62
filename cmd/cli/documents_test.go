package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	yamldoc "github.com/tlspu/keel/api/document"
)

// listed is what a test compares of documents: source, kind, data and error.
func listed(docs []document, dir string) []string {
	var list []string
	for _, d := range docs {
		text := fmt.Sprintf("%s|%s|%s", d.doc.Source, d.kind, d.doc.Data)
		if d.err != nil {
			text = fmt.Sprintf("%s|%d|%v", d.doc.Source, d.code, d.err)
		}
		list = append(list, strings.ReplaceAll(text, dir, "DIR"))
	}
	return list
}

func TestDocuments_split(t *testing.T) {
	tests := []struct {
		name, data string
		want       []string
	}{
		{"one", "kind: Note\nname: a\n", []string{"f|Note|kind: Note\nname: a\n"}},
		{"one, with a marker", "---\nkind: Note\n", []string{"f|Note|---\nkind: Note\n"}},
		{"two keep their lines", "# first\nkind: Note\n---\nkind: Order\n", []string{
			"f document 1|Note|\nkind: Note\n", "f document 2|Order|\n\n---\nkind: Order\n",
		}},
		{"two on one line each", "--- {kind: Note}\n--- {kind: Order}\n", []string{
			"f document 1|Note|--- {kind: Note}\n", "f document 2|Order|\n--- {kind: Order}\n",
		}},
		{"empty ones are not counted", "---\n---\n# nothing\n---\nkind: Note\n---\n", []string{"f|Note|\n\n\n---\nkind: Note\n"}},
		{"a marker in a text is none", "kind: Note\ntext: |\n  ---\n  x\n---\nkind: Order\n", []string{
			"f document 1|Note|kind: Note\ntext: |\n  ---\n  x\n", "f document 2|Order|\n\n\n\n---\nkind: Order\n",
		}},
		{"line ends of Windows", "kind: Note\r\n---\r\nkind: Order\r\n", []string{
			"f document 1|Note|kind: Note\r\n", "f document 2|Order|\n---\r\nkind: Order\r\n",
		}},
		{"line ends that only YAML knows", "kind: Note\ntext: \"a\u0085b\"\n---\nkind: Order\n", []string{
			`f|2|line 2: holds U+0085, which YAML reads as the end of a line; write "\u0085" in double quotes, or use contentBase64`,
		}},
		{"line ends that only YAML knows in JSON", "---\n{\"kind\": \"Note\", \"text\": \"a\u0085b\u2028c\"}\n---\nkind: Order\n", []string{
			"f document 1|Note|---\n{\"kind\": \"Note\", \"text\": \"a\u0085b\u2028c\"}\n", "f document 2|Order|\n\n---\nkind: Order\n",
		}},
		{"an Instance", "version: 1\ninstance: {}\n", []string{"f|Instance|version: 1\ninstance: {}\n"}},
		{"a kind wins over a version", "version: 1\nkind: Note\n", []string{"f|Note|version: 1\nkind: Note\n"}},
		{"JSON", `{"kind": "Note"}`, []string{`f|Note|{"kind": "Note"}`}},
		{"JSON as other programs write it", "{\"kind\": \"Note\",\n\"text\": \"\\/etc \\ud83d\\ude00 \\\\/ \\u00e9 \\\" \\\\ud83d\\\\ude00\"}", []string{
			"f|Note|{\"kind\": \"Note\",\n\"text\": \"\\/etc \\ud83d\\ude00 \\\\/ \\u00e9 \\\" \\\\ud83d\\\\ude00\"}",
		}},
		{"JSON of half a pair", `{"kind": "Note", "text": "\ud83d"}`, []string{"f|2|not valid YAML: found invalid Unicode character escape code"}},
		{"no kind", "name: a\n", []string{"f|3|line 1: names no kind (Note, Order); an appliance's description has no kind and starts with version: 1 (a number)"}},
		{"version 2 without a kind", "version: 2\n", []string{"f|3|line 1: names no kind (Note, Order); an appliance's description has no kind and starts with version: 1 (a number)"}},
		{"version as text", "version: \"1\"\n", []string{"f|3|line 1: names no kind (Note, Order); an appliance's description has no kind and starts with version: 1 (a number)"}},
		{"a kind that is a list", "kind: [Note]\n", []string{"f|3|line 1: kind: must be a name"}},
		{"a kind that is a number", "a: b\nkind: 1\n", []string{"f|3|line 2: kind: must be a name"}},
		{"a list", "- kind: Note\n", []string{"f|2|line 1: top level must be a mapping"}},
		{"plain text", "hello\n", []string{"f|2|line 1: top level must be a mapping"}},
		{"nothing", "", []string{"f|2|file is empty"}},
		{"comments", "# hello\n", []string{"f|2|file is empty"}},
		{"a broken second document spoils the first", "kind: Note\n---\nkind: [\n", []string{"f|2|not valid YAML: line 3: did not find expected node content"}},
		{"a binary file", "\x00\x01\x02", []string{"f|2|not valid YAML: control characters are not allowed"}},
		{"UTF-16", "\xff\xfek\x00", []string{"f|2|is UTF-16, not UTF-8"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			t.Chdir(b.dir)
			b.write("f", tt.data)
			docs, err := b.app(io.Discard, io.Discard).documents(t.Context(), []string{"f"})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, listed(docs, b.dir)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDocuments_folder(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"b.yaml", "a.yml", "c.json", ".hidden.yaml", "d.yaml~", "#e.yaml#", "f.yaml.swp", "g.txt", "README.md", "sub/h.yaml"} {
		b.write("docs/"+name, `{"kind": "Note"}`)
	}
	b.write("docs/broken.yaml", "kind: [\n")
	b.write("docs/empty.yaml", "")
	dir := filepath.Join(b.dir, "docs")
	for _, err := range []error{
		os.Symlink("nowhere", filepath.Join(dir, "dangling.yaml")),
		os.Symlink("g.txt", filepath.Join(dir, "link.yaml")),
		os.Mkdir(filepath.Join(dir, "directory.yaml"), 0o755),
		syscall.Mkfifo(filepath.Join(dir, "pipe.yaml"), 0o644),
		os.Symlink("/dev/zero", filepath.Join(dir, "zero.yaml")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	docs, err := b.app(io.Discard, io.Discard).documents(t.Context(), []string{dir})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`DIR/docs/a.yml|Note|{"kind": "Note"}`,
		`DIR/docs/b.yaml|Note|{"kind": "Note"}`,
		`DIR/docs/broken.yaml|2|not valid YAML: line 1: did not find expected node content`,
		`DIR/docs/c.json|Note|{"kind": "Note"}`,
		`DIR/docs/dangling.yaml|2|no such file or directory`,
		`DIR/docs/directory.yaml|2|is a directory, not a file`,
		`DIR/docs/empty.yaml|2|file is empty`,
		`DIR/docs/link.yaml|Note|{"kind": "Note"}`,
		`DIR/docs/pipe.yaml|2|is a pipe, not a regular file`,
		`DIR/docs/zero.yaml|2|is neither a regular file nor a pipe`,
	}
	if diff := cmp.Diff(want, listed(docs, b.dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDocuments_folderWithoutDocuments(t *testing.T) {
	b := newBench(t)
	docs, err := b.app(io.Discard, io.Discard).documents(t.Context(), []string{b.dir})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"DIR|2|no documents (no *.yaml, *.yml or *.json)"}
	if diff := cmp.Diff(want, listed(docs, b.dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDocuments_size(t *testing.T) {
	b := newBench(t)
	fits := b.write("fits.yaml", "kind: Note\n"+strings.Repeat("#", maxFile-len("kind: Note\n")))
	sparse := b.write("sparse.yaml", "kind: Note\n")
	if err := os.Truncate(sparse, 1<<40); err != nil {
		t.Fatal(err)
	}
	b.in = io.MultiReader(strings.NewReader("kind: Note\n"), zeros{})
	docs, err := b.app(io.Discard, io.Discard).documents(t.Context(), []string{fits, sparse, "-"})
	if err != nil {
		t.Fatal(err)
	}
	if docs[0].err != nil || docs[0].kind != "Note" {
		t.Errorf("a file of 16 MiB: %v", docs[0].err)
	}
	want := []string{"DIR/sparse.yaml|2|larger than 16 MiB", "stdin|2|larger than 16 MiB"}
	if diff := cmp.Diff(want, listed(docs[1:], b.dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestDocuments_aPipeThatIsNamedIsRead(t *testing.T) {
	b := newBench(t)
	path := filepath.Join(b.dir, "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(path, []byte("kind: Note\n"), 0) }()
	docs, err := b.app(io.Discard, io.Discard).documents(t.Context(), []string{path})
	if err := errors.Join(err, <-written); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"DIR/pipe|Note|kind: Note\n"}, listed(docs, b.dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Nobody waits for a file that has no end: the kernel's message buffer is a regular
// file without a size.
func TestDocuments_specialFilesAreRefused(t *testing.T) {
	b := newBench(t)
	for _, path := range []string{"/proc/kmsg", "/proc/self/stat", "/dev/zero", "/dev/tty"} {
		docs, err := b.app(io.Discard, io.Discard).documents(t.Context(), []string{path})
		if err != nil || len(docs) != 1 || docs[0].err == nil || docs[0].code != exitUnreadable {
			t.Errorf("%s: %+v, %v", path, docs, err)
		}
	}
}

func TestDocuments_linesInErrorsAreTheFiles(t *testing.T) {
	docs, err := split("f", []byte("kind: Note\nname: a\n---\nkind: Note\nname: [1]\n"))
	if err != nil || len(docs) != 2 {
		t.Fatalf("split: %v, %d documents", err, len(docs))
	}
	var n note
	err = yaml.Unmarshal(docs[1].doc.Data, &n)
	if err == nil || !strings.Contains(err.Error(), "line 5:") {
		t.Errorf("error %v, want it to name line 5", err)
	}
}

func TestDocuments_manyInOneFileStaySmall(t *testing.T) {
	const n = 50_000
	docs, err := split("f", bytes.Repeat([]byte("---\nkind: Note\nname: a\n\n\n"), n))
	if err != nil || len(docs) != n {
		t.Fatalf("split: %v, %d documents", err, len(docs))
	}
	total := 0
	for _, d := range docs {
		total += len(d.doc.Data)
	}
	if total > maxPadding+n*100 {
		t.Errorf("%d bytes for %d documents", total, n)
	}
	if got, want := docs[n-1].doc.Source, fmt.Sprintf("f document %d, from line %d", n, (n-1)*5+1); got != want {
		t.Errorf("source of the last %q, want %q", got, want)
	}
}

func FuzzSplit(f *testing.F) {
	for _, seed := range []string{
		"kind: Note\n---\nkind: Order\n", "---\n---\nversion: 1\n", "a: |\n  ---\n", "--- >\n folded\n--- {kind: x}\n...\n---\nb: 1",
		"%YAML 1.1\n---\nkind: Note\n", "a: \"\u0085\u2028\"\r\n---\rkind: b\n", `{"kind":"\/\ud83d\ude00\\"}`, "\ufeffkind: a\n---\nkind: b\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, err := split("f", data)
		if err != nil {
			return
		}
		// Each document on its own reads as it did within its file.
		whole, err := yamldoc.Nodes(data)
		if err != nil {
			t.Fatal(err)
		}
		whole = slices.DeleteFunc(whole, yamldoc.Empty)
		for i, d := range docs {
			alone, err := yamldoc.Nodes(d.doc.Data)
			if err != nil || len(alone) != 1 || d.doc.Tree == nil {
				t.Fatalf("%q: %d documents, %v", d.doc.Data, len(alone), err)
			}
			if diff := cmp.Diff(flat(whole[i]), flat(alone[0])); diff != "" {
				t.Fatalf("%q:\n%s", d.doc.Data, diff)
			}
		}
	})
}

// flat is the content of a node as text, with the lines of its scalars.
func flat(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode || n.Kind == yaml.AliasNode {
		return fmt.Sprintf("%d:%s %q", n.Line, n.Tag, n.Value)
	}
	parts := make([]string, len(n.Content))
	for i, c := range n.Content {
		parts[i] = flat(c)
	}
	return fmt.Sprintf("%d%s[%s]", n.Kind, n.Tag, strings.Join(parts, ", "))
}
