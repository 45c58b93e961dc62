package repo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maxLines is where a file is too long to be one thing; 400 is the aim.
const maxLines = 450

// goFiles calls f for every Go file of the repository that people wrote.
func goFiles(t *testing.T, f func(path string, src string)) {
	t.Helper()
	generated := regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	files(t, func(path string) {
		if !strings.HasSuffix(path, ".go") {
			return
		}
		if src := read(t, path); !generated.MatchString(src) {
			f(path, src)
		}
	})
}

func TestFiles_areShort(t *testing.T) {
	goFiles(t, func(path, src string) {
		if n := strings.Count(src, "\n"); n > maxLines && !strings.HasSuffix(path, "_test.go") {
			t.Errorf("%s has %d lines, more than %d: is there a second thing in it?", path, n, maxLines)
		}
	})
}

// Every package says in one file what it is.
func TestPackages_areDocumented(t *testing.T) {
	docs := map[string][]string{} // by folder
	names := map[string]string{}
	goFiles(t, func(name, src string) {
		if strings.HasSuffix(name, "_test.go") || under(name, "tools") || strings.Contains(name, "/testdata/") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Error(err)
			return
		}
		dir := path.Dir(name)
		names[dir] = f.Name.Name
		if f.Doc != nil {
			docs[dir] = append(docs[dir], f.Doc.Text())
		}
	})
	for dir, name := range names {
		want := "Package " + name + " "
		if name == "main" {
			want = "Command " + path.Base(dir) + " "
		}
		switch {
		case len(docs[dir]) != 1:
			t.Errorf("%s has %d package comments, want one that starts with %q", dir, len(docs[dir]), want)
		case !strings.HasPrefix(docs[dir][0], want):
			t.Errorf("the package comment of %s does not start with %q", dir, want)
		}
	}
}

// Every handler is held to the contract, in a test of its own package.
func TestHandlers_runTheContract(t *testing.T) {
	held := map[string]bool{}
	goFiles(t, func(name, src string) {
		dir := path.Dir(name)
		if path.Dir(dir) != "plugins" || dir == "plugins/all" || dir == "plugins/dns" {
			return
		}
		held[dir] = held[dir] || strings.HasSuffix(name, "_test.go") && strings.Contains(src, "contract.Handler(")
	})
	if len(held) == 0 {
		t.Error("there is no handler below plugins")
	}
	for dir, ok := range held {
		if !ok {
			t.Errorf("no test of %s calls contract.Handler", dir)
		}
	}
}

// What may not be switched off without being listed here, by file and linter.
var exceptions = map[string]string{
	"core/drift/secret.go": "gochecknoglobals", // the one digest key of a process
	"cmd/cli/version.go":   "gochecknoglobals", // set by the linker
}

func TestSource_hasNoInitAndNoState(t *testing.T) {
	off := regexp.MustCompile(`//nolint:\S*(gochecknoglobals|gochecknoinits)`)
	goFiles(t, func(name, src string) {
		if strings.HasSuffix(name, "_test.go") || under(name, "test", "tools") {
			return
		}
		for _, m := range off.FindAllStringSubmatch(src, -1) {
			if exceptions[name] != m[1] {
				t.Errorf("%s switches %s off; see the exceptions in this test", name, m[1])
			}
		}
		// Linters see only what is built for the systems they are run for.
		f, err := parser.ParseFile(token.NewFileSet(), name, src, 0)
		if err != nil {
			t.Error(err)
			return
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" && !under(name, "api") {
				t.Errorf("%s has an init function; everything is registered in plugins/all", name)
			}
		}
	})
}

// diff and inspect cannot change a machine: outside converge, the appliance
// never asks core/host for anything that writes.
func TestAppliance_onlyLooks(t *testing.T) {
	goFiles(t, func(name, src string) {
		if !under(name, "backends/appliance") || under(name, "backends/appliance/converge") || strings.HasSuffix(name, "_test.go") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(top, name), src, 0)
		if err != nil {
			t.Error(err)
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "host" {
				switch sel.Sel.Name {
				case "Tree", "OpenTree", "Exec", "Start", "Runners":
					t.Errorf("%s uses host.%s", name, sel.Sel.Name)
				}
			}
			return true
		})
	})
}
