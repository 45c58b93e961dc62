package repo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A term is a word that messages and pages do not use, and what they use.
type term struct {
	not, say string
	pattern  *regexp.Regexp
}

// terms are the worst words of docs/develop/words.md. A pattern ignores case and
// matches whole words only, across the end of a line, too.
var terms = compile([][2]string{
	{`visit(s|ed|ing)?`, "reconcile, run"},
	{`(comes?|came|coming) again|(its|their) turn`, "retry after, run"},
	{`tried again|tries again|tr(y|ying) again after`, "retried, retry after"},
	{`(goes?|went|going) on being`, "keep, still"},
	{`keeps? ((the|its|every) )?(machines?|nodes?|jails?|NodeConfigs?|operating systems?)`, "manage, enforce"},
	{`folders?`, "directory"},
	{`links? above`, "parent directory, symlink"},
	{`mistakes?`, "error, invalid, defect"},
	{`owe[sd]?`, "pending, required"},
	{`(is|are|was|were) to be`, "must be, required"},
	{`tell(s|ing)?|told|news`, "report, record, emit, say"},
	{`noted`, "record"},
	{`in order again`, "recovered"},
	{`former(ly)?|as before`, "previous, unchanged"},
	{`anew|afresh`, "again"},
	{`mend(s|ed|ing)?`, "fix, correct"},
	{`contest(s|ed|ing)?|better right`, "conflict, owner"},
	{`reads is another`, "referenced ConfigMap or Secret changed"},
	{`(is|are) no (valid )?name`, "is not a valid name"},
	{`(is|are) over[.,;:]`, "stale, expired, ended"},
	{`in peace`, "unchanged"},
})

// unswept lists the files and directories that still use such words. It only
// shrinks: an entry that no longer needs to be here fails the test.
var unswept = []string{
	"docs/changes/unreleased",
	"docs/develop/performance.md",
	"docs/spec/handlers.md",
	"docs/spec/image.md",
	"docs/spec/monitoring.md",
	"docs/spec/node-agent.md",
	"docs/spec/security.md",
}

// released lists words of output that scripts compare, see docs/cli/output.md. They
// stay, where they are a whole string.
var released = []string{"noted"}

func compile(list [][2]string) (terms []term) {
	for _, t := range list {
		pattern := strings.ReplaceAll(t[0], " ", `\s+`)
		if !strings.HasSuffix(t[0], "]") {
			pattern = `(?:` + pattern + `)\b`
		}
		terms = append(terms, term{t[0], t[1], regexp.MustCompile(`(?i)\b(?:` + pattern + `)`)})
	}
	return terms
}

// A hit is a word found in a text.
type hit struct {
	line      int
	word, say string
}

func hits(text string) (found []hit) {
	for _, t := range terms {
		for _, at := range t.pattern.FindAllStringIndex(text, -1) {
			word := strings.Join(strings.Fields(text[at[0]:at[1]]), " ")
			found = append(found, hit{1 + strings.Count(text[:at[0]], "\n"), word, t.say})
		}
	}
	return found
}

// pageWords gives the words of a page outside of code and of the targets of
// links.
func pageWords(text string) string {
	text = codeSpan.ReplaceAllString(prose(text), "code")
	return regexp.MustCompile(`\]\([^)\n]*\)`).ReplaceAllString(text, "]")
}

// messageHits finds words in the string literals of a Go file, but for import
// paths, tags and released words.
func messageHits(name, src string) (found []hit, err error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, 0)
	if err != nil {
		return nil, err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			n.Tag = nil
		case *ast.BasicLit:
			if n.Kind != token.STRING {
				return true
			}
			text, quoteErr := strconv.Unquote(n.Value)
			if quoteErr != nil {
				err = quoteErr
			}
			if slices.Contains(released, text) {
				return true
			}
			for _, h := range hits(text) {
				line := fset.Position(n.Pos()).Line
				if n.Value[0] == '`' {
					line += h.line - 1
				}
				found = append(found, hit{line, h.word, h.say})
			}
		}
		return true
	})
	return found, err
}

// Messages of the program, pages, manifests and descriptions of CRDs use the
// words of docs/develop/words.md.
func TestWords_arePlain(t *testing.T) {
	found := map[string][]hit{}
	goFiles(t, func(name, src string) {
		if strings.HasSuffix(name, "_test.go") || under(name, "test", "tools") {
			return
		}
		list, err := messageHits(name, src)
		if err != nil {
			t.Error(err)
		}
		found[name] = list
	})
	documents(t, func(name, text string) { found[name] = hits(pageWords(text)) })
	files(t, func(name string) {
		if path.Ext(name) == ".yaml" && under(name, "deploy", "docs/examples") {
			found[name] = hits(read(t, name))
		}
	})
	needed := map[string]bool{}
	for name, list := range found {
		i := slices.IndexFunc(unswept, func(entry string) bool { return under(name, entry) })
		if i >= 0 {
			needed[unswept[i]] = needed[unswept[i]] || len(list) > 0
			continue
		}
		for _, h := range list {
			t.Errorf("%s:%d: %q: say %s; see docs/develop/words.md", name, h.line, h.word, h.say)
		}
	}
	for _, entry := range unswept {
		if !needed[entry] {
			t.Errorf("%s uses plain words only: remove it from the list of what is not swept", entry)
		}
	}
}

func TestHits(t *testing.T) {
	tests := []struct {
		name, text string
		want       []hit
	}{
		{"none", "keel reconciles it again; nothing was visited_by; link: replace; recommend; performer; is over 5 MiB", nil},
		{"a word, any case", "A Folder,\nor two folders", []hit{{1, "Folder", "directory"}, {2, "folders", "directory"}}},
		{"over the end of a line", "as\nbefore", []hit{{1, "as before", "previous, unchanged"}}},
		{"with its end", "once that is over. Then", []hit{{1, "is over.", "stale, expired, ended"}}},
		{"with words between", "it keeps the operating system", []hit{{1, "keeps the operating system", "manage, enforce"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, hits(tt.text), cmp.AllowUnexported(hit{})); diff != "" {
				t.Errorf("hits (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHits_onlyWhereWordsAre(t *testing.T) {
	page := "a [mistake](folder.md) `folder`\n```\nfolder\n```\nmend\n"
	want := []hit{{1, "mistake", "error, invalid, defect"}, {5, "mend", "fix, correct"}}
	if diff := cmp.Diff(want, hits(pageWords(page)), cmp.AllowUnexported(hit{})); diff != "" {
		t.Errorf("hits of a page (-want +got):\n%s", diff)
	}

	src := "package a\n\nimport _ \"folder/x\"\n\n// a folder\ntype folder struct {\n\tA int `json:\"folder\"`\n}\n\nvar a = `one\nfolder` + \"a mis\\x74ake\" + \"noted\"\n"
	got, err := messageHits("a.go", src)
	if err != nil {
		t.Fatal(err)
	}
	want = []hit{{11, "folder", "directory"}, {11, "mistake", "error, invalid, defect"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(hit{})); diff != "" {
		t.Errorf("hits of a file (-want +got):\n%s", diff)
	}
}
