package repo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"testing"
)

// Packages add pages to http.DefaultServeMux by being imported: expvar does, which
// the Prometheus client brings along. So that none of them is ever served, every
// server has a handler of its own.
func TestSource_servesNoDefaultMux(t *testing.T) {
	goFiles(t, func(name, src string) {
		if under(name, "test", "tools") {
			return
		}
		for _, what := range defaultMux(t, name, src) {
			t.Errorf("%s: %s serves http.DefaultServeMux; give the server a handler of its own", name, what)
		}
	})
}

// defaultMux lists what in a file uses http.DefaultServeMux.
func defaultMux(t *testing.T, name, src string) (found []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), name, src, 0)
	if err != nil {
		t.Fatal(err)
	}
	http := func(e ast.Expr, names ...string) bool {
		sel, ok := e.(*ast.SelectorExpr)
		if !ok || !slices.Contains(names, sel.Sel.Name) {
			return false
		}
		x, ok := sel.X.(*ast.Ident)
		return ok && x.Name == "http"
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if http(n, "DefaultServeMux", "Handle", "HandleFunc", "ListenAndServe", "ListenAndServeTLS", "Serve", "ServeTLS") {
				found = append(found, "http."+n.Sel.Name)
			}
		case *ast.CompositeLit:
			if http(n.Type, "Server") && !slices.ContainsFunc(n.Elts, isHandler) {
				found = append(found, "http.Server without Handler")
			}
		}
		return true
	})
	return found
}

func isHandler(e ast.Expr) bool {
	kv, ok := e.(*ast.KeyValueExpr)
	if !ok {
		return false
	}
	key, ok := kv.Key.(*ast.Ident)
	return ok && key.Name == "Handler"
}

func TestSource_findsTheDefaultMux(t *testing.T) {
	tests := []struct {
		name, body string
		want       int
	}{
		{"a handler of its own", `s := http.Server{Handler: mux}; mux.Handle("/", s)`, 0},
		{"no handler", `s := &http.Server{Addr: ":80"}`, 1},
		{"a page for everybody", `http.HandleFunc("/", f)`, 1},
		{"served by name", `x.ListenAndServe(); http.ListenAndServe(":80", http.DefaultServeMux)`, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := defaultMux(t, "x.go", "package x\nfunc f() {"+tt.body+"}"); len(got) != tt.want {
				t.Errorf("got %q, want %d", got, tt.want)
			}
		})
	}
}
