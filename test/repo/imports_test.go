package repo

import (
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A rule says what packages of this repository may import. It judges an import
// path; own folders are given without the module path.
type rule struct {
	name   string
	from   func(path string) bool
	may    func(from, to string, std bool) bool
	direct bool // not by way of others
}

func in(folders ...string) func(string) bool {
	return func(path string) bool { return under(path, folders...) }
}

func not(f func(string) bool) func(string) bool {
	return func(path string) bool { return !f(path) }
}

// never denies folders of this repository and import path prefixes of others.
func never(folders ...string) func(string, string, bool) bool {
	return func(_, to string, _ bool) bool { return !under(to, folders...) }
}

// only allows the standard library and the given.
func only(folders ...string) func(string, string, bool) bool {
	return func(_, to string, std bool) bool { return std || under(to, folders...) }
}

var product = not(in("test", "tools"))

var rules = []rule{
	{name: "core/drift is the engine and knows nothing of machines",
		from: in("core/drift"), may: only("core/drift")},
	{name: "core stands on the standard library",
		from: func(p string) bool { return under(p, "core") && p != "core/host" && p != "core/command" }, may: only("core"), direct: true},
	{name: "core brings nothing else along",
		from: in("core"), may: only("core", "golang.org/x/sys")},
	{name: "core/host stands on the standard library and x/sys",
		from: in("core/host"), may: only("core/host", "golang.org/x/sys")},
	{name: "core/command stands on the standard library and x/sys",
		from: in("core/command"), may: only("core/command", "golang.org/x/sys")},
	{name: "only core/command runs commands",
		from: func(p string) bool { return product(p) && p != "core/command" }, may: never("os/exec"), direct: true},
	{name: "only core/host, core/command, cmd and the jail's drivers and relay make system calls",
		from: func(p string) bool {
			return product(p) && !under(p, "core/host", "core/command", "cmd", "backends/jail")
		}, may: never("syscall", "golang.org/x/sys"), direct: true},
	{name: "backends know neither plugins nor the command line",
		// client-go reads kubeconfigs with pflag at hand.
		from: in("backends"), may: never("plugins", "cmd", "github.com/spf13/cobra", "github.com/spf13/viper")},
	{name: "backends do not import each other, but for backends/acme",
		from: in("backends"), may: func(from, to string, _ bool) bool {
			return !under(to, "backends") || backend(to) == backend(from) || under(to, "backends/acme")
		}},
	{name: "only plugins/all imports backends and plugins",
		from: not(in("plugins/all", "cmd/keel", "test")), may: never("plugins/all")},
	{name: "plugins know neither backends nor the command line",
		from: func(p string) bool { return under(p, "plugins") && !under(p, "plugins/all") },
		may:  never("backends", "cmd")},
	{name: "handlers work without Kubernetes",
		from: func(p string) bool { return under(p, "plugins") && !under(p, "plugins/all") },
		may:  never("k8s.io", "sigs.k8s.io", "api/v1alpha1")},
	{name: "nothing imports cmd",
		from: not(in("cmd", "test")), may: never("cmd")},
	{name: "what ships holds no test code",
		from: product, may: never("test", "testing", "github.com/google/go-cmp")},
	{name: "api is imported by others and stays light",
		from: in("api"), may: never("cmd", "core", "backends", "plugins", "test", "github.com/spf13", "k8s.io/client-go",
			"sigs.k8s.io/controller-runtime", "github.com/google/nftables", "google.golang.org/grpc")},
}

// backend is the folder below backends that a package belongs to.
func backend(path string) string {
	parts := strings.SplitN(path, "/", 3)
	return parts[1]
}

func TestImports_followTheRules(t *testing.T) {
	onEach(t, func(t *testing.T, l listing) {
		for _, r := range rules {
			for _, p := range l.own {
				if !r.from(p.path()) {
					continue
				}
				imports := p.Deps
				if r.direct {
					imports = p.Imports
				}
				for _, to := range imports {
					name := strings.TrimPrefix(to, module+"/")
					if !r.may(p.path(), name, l.all[to].Standard) {
						t.Errorf("%s: %s imports %s%s", r.name, p.path(), name, chain(l, p.ImportPath, to))
					}
				}
			}
		}
	})
}

// chain names the packages between an importer and what it must not import.
func chain(l listing, from, to string) string {
	if slices.Contains(l.all[from].Imports, to) {
		return ""
	}
	for _, next := range l.all[from].Imports {
		if slices.Contains(l.all[next].Deps, to) {
			return " by way of " + strings.TrimPrefix(next, module+"/") + chain(l, next, to)
		}
	}
	return ""
}

// Rules must be able to fail: each is tried on an import that breaks it.
func TestRules_refuse(t *testing.T) {
	tests := []struct {
		from, to string
		std      bool
		want     string // start of a rule's name
	}{
		{"core/drift", "core/host", false, "core/drift is"},
		{"core/plugin", "github.com/spf13/cobra", false, "core stands"},
		{"core/restart", "golang.org/x/net/html", false, "core brings"},
		{"core/host", "golang.org/x/text", false, "core/host stands"},
		{"core/command", "golang.org/x/text", false, "core/command stands"},
		{"plugins/file", "os/exec", true, "only core/command runs"},
		{"plugins/file", "syscall", true, "only core/host, core/command, cmd"},
		{"backends/jail", "plugins/file", false, "backends know"},
		{"backends/controlplane", "backends/jail", false, "backends do not"},
		{"cmd/cli", "plugins/all", false, "only plugins/all"},
		{"plugins/file", "backends/jail", false, "plugins know"},
		{"plugins/file", "k8s.io/apimachinery/pkg/runtime", false, "handlers work"},
		{"core/plugin", "cmd/cli", false, "nothing imports"},
		{"cmd/cli", "testing", true, "what ships"},
		{"api/jail", "core/drift", false, "api is"},
	}
	for _, tt := range tests {
		t.Run(tt.want, func(t *testing.T) {
			for _, r := range rules {
				if strings.HasPrefix(r.name, tt.want) && r.from(tt.from) && !r.may(tt.from, tt.to, tt.std) {
					return
				}
			}
			t.Errorf("%s may import %s", tt.from, tt.to)
		})
	}
	if len(tests) != len(rules) {
		t.Errorf("%d of %d rules are tried", len(tests), len(rules))
	}
}

// Some imports are allowed by the name of the file.
func TestImports_staySystemSpecific(t *testing.T) {
	files(t, func(name string) {
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || under(name, "test", "tools", "core/host", "core/command", "cmd") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(top, name), nil, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			return
		}
		for _, i := range f.Imports {
			to, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Error(err)
			}
			forSystem := strings.HasSuffix(name, "_linux.go") || strings.HasSuffix(name, "_freebsd.go")
			switch {
			case under(to, "github.com/google/nftables") && !strings.HasSuffix(name, "_linux.go"):
				t.Errorf("%s imports %s, which builds on linux only", name, to)
			case under(to, "syscall", "golang.org/x/sys") && !forSystem && !under(name, "backends/jail/proxy"):
				t.Errorf("%s imports %s: system calls belong into *_linux.go and *_freebsd.go", name, to)
			}
		}
	})
}
