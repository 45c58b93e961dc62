package nodeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/host"
	"github.com/tlspu/keel/core/plugin"
	filehandler "github.com/tlspu/keel/plugins/file"
)

// claiming is a config of a name, made at hour created (0: nobody knows), that
// claims things.
func claiming(name string, created int, claims ...string) *Config {
	c := &Config{Name: name, Source: name + ".yaml", claims: claims}
	if created > 0 {
		c.Created = time.Date(2026, 10, 15, created, 0, 0, 0, time.UTC)
	}
	return c
}

// linked is a machine on which /link leads to /etc, /etc/l to /etc/x, /etc/dead
// to /srv/new and /etc/round to itself.
func linked(t *testing.T) *host.View {
	root := t.TempDir()
	for _, folder := range []string{"etc", "srv"} {
		if err := os.Mkdir(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"link": "/etc", "etc/l": "x", "etc/dead": "/srv/new", "etc/round": "round"} {
		if err := os.Symlink(text, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	v, err := host.OpenView(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Close() })
	return v
}

// conflicts gives what Claims says of each of configs.
func conflicts(configs []*Config, machine *host.View) map[*Config]error {
	claims := NewClaims(machine)
	for _, c := range configs {
		claims.Set(c.Name, c)
	}
	lost := map[*Config]error{}
	for _, c := range configs {
		if err := claims.Conflict(c.Name); err != nil {
			lost[c] = err
		}
	}
	return lost
}

func TestClaims(t *testing.T) {
	mistake := func(c *Config) *Config {
		c.Err = errors.New("mode: 8888")
		return c
	}
	machine := linked(t)
	for _, tt := range []struct {
		name    string
		configs []*Config
		want    []string // names that lose, each with what it says
	}{
		{"nothing in common", []*Config{claiming("a", 0, "path:/etc/a"), claiming("b", 0, "path:/etc/b"), claiming("c", 0)}, nil},
		{"the name decides", []*Config{claiming("b", 0, "path:/etc/x"), claiming("a", 0, "path:/etc/x")},
			[]string{"b: path:/etc/x belongs to the older NodeConfig a (a.yaml): remove it from one of them"}},
		{"the time decides before the name", []*Config{claiming("a", 2, "package:nginx"), claiming("b", 1, "package:nginx")},
			[]string{"a: package:nginx belongs to the older NodeConfig b (b.yaml): remove it from one of them"}},
		{"a time is older than none", []*Config{claiming("a", 0, "package:nginx"), claiming("b", 9, "package:nginx")},
			[]string{"a: package:nginx belongs to the older NodeConfig b (b.yaml): remove it from one of them"}},
		{"through a link", []*Config{claiming("a", 0, "path:/etc/x"), claiming("b", 0, "path:/link/x")},
			[]string{"b: path:/link/x belongs to the older NodeConfig a (a.yaml, as path:/etc/x): remove it from one of them"}},
		{"through a link, in directories to be made", []*Config{claiming("a", 0, "path:/etc/new/sub/x"), claiming("b", 0, "path:/link/new/sub/x")},
			[]string{"b: path:/link/new/sub/x belongs to the older NodeConfig a (a.yaml, as path:/etc/new/sub/x): remove it from one of them"}},
		{"written in another way", []*Config{claiming("a", 0, "path:/etc/x"), claiming("b", 0, "path:/etc/../etc//./x")},
			[]string{"b: path:/etc/../etc//./x belongs to the older NodeConfig a (a.yaml, as path:/etc/x): remove it from one of them"}},
		{"a directory nobody can find", []*Config{claiming("a", 0, "path:/etc/round/x"), claiming("b", 0, "path:/etc/round/x")},
			[]string{"b: path:/etc/round/x belongs to the older NodeConfig a (a.yaml): remove it from one of them"}},
		{"the same name elsewhere", []*Config{claiming("a", 0, "path:/etc/x"), claiming("b", 0, "path:/srv/x")}, nil},
		{"a package is no path", []*Config{claiming("a", 0, "path:/x"), claiming("b", 0, "package:/x")}, nil},
		{"one of several", []*Config{claiming("a", 0, "x"), claiming("b", 0, "w", "x"), claiming("c", 0, "w")},
			[]string{"b: x belongs to the older NodeConfig a (a.yaml): remove it from one of them"}},
		{"a link that is followed to it", []*Config{claiming("a", 0, "path:/etc/x", "file:/etc/x"), claiming("b", 0, "path:/etc/l", "file:/etc/l")},
			[]string{"b: file:/etc/l belongs to the older NodeConfig a (a.yaml, as path:/etc/x): remove it from one of them"}},
		{"what a link leads to", []*Config{claiming("a", 0, "path:/link/l", "file:/link/l"), claiming("b", 0, "path:/etc/x")},
			[]string{"b: path:/etc/x belongs to the older NodeConfig a (a.yaml, as file:/link/l): remove it from one of them"}},
		{"what a link leads to that is not there", []*Config{claiming("a", 0, "path:/etc/dead", "file:/etc/dead"), claiming("b", 0, "path:/srv/new", "file:/srv/new")},
			[]string{"b: path:/srv/new belongs to the older NodeConfig a (a.yaml, as file:/etc/dead): remove it from one of them"}},
		{"a link that leads nowhere", []*Config{claiming("a", 0, "file:/etc/round"), claiming("b", 0, "path:/etc/round")},
			[]string{"b: path:/etc/round belongs to the older NodeConfig a (a.yaml, as file:/etc/round): remove it from one of them"}},
		{"a link itself", []*Config{claiming("a", 0, "path:/etc/x", "file:/etc/x"), claiming("b", 0, "path:/etc/l")}, nil},
		{"an older one with a mistake", []*Config{mistake(claiming("a", 0, "path:/etc/x")), claiming("b", 0, "path:/etc/x")},
			[]string{"b: path:/etc/x belongs to the older NodeConfig a (a.yaml): remove it from one of them"}},
		{"a younger one with a mistake", []*Config{claiming("a", 0, "path:/etc/x"), mistake(claiming("b", 0, "path:/etc/x", "path:/etc/y")), claiming("c", 0, "path:/etc/y")}, nil},
		{"twice in one", []*Config{claiming("a", 0, "path:/etc/x", "path:/link/x")}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 2 {
				var got []string
				lost := conflicts(tt.configs, machine)
				for _, c := range slices.SortedFunc(maps.Keys(lost), func(a, b *Config) int { return strings.Compare(a.Name, b.Name) }) {
					got = append(got, c.Name+": "+lost[c].Error())
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("conflicts (-want +got):\n%s", diff)
				}
				slices.Reverse(tt.configs) // their order must not matter
			}
		})
	}
}

// Without a machine only the paths count.
func TestClaims_literally(t *testing.T) {
	a, b, c := claiming("a", 0, "path:/etc/x", "file:/etc/x"), claiming("b", 0, "path:/link/x"), claiming("c", 0, "path:/etc/./x")
	lost := conflicts([]*Config{a, b, c}, nil)
	if len(lost) != 1 || lost[c] == nil {
		t.Errorf("lost: %v, want c only", lost)
	}
}

// What changes is told, and only that: a conflict that comes, moves and goes.
func TestClaims_changed(t *testing.T) {
	claims := NewClaims(linked(t))
	steps := []struct {
		name string
		do   func()
		want []string
	}{
		{"alone", func() { claims.Set("b", claiming("b", 2, "path:/etc/x")) }, nil},
		{"a younger one", func() { claims.Set("c", claiming("c", 3, "path:/etc/x", "path:/etc/y")) }, []string{"c"}},
		{"the same again", func() { claims.Set("c", claiming("c", 3, "path:/etc/x", "path:/etc/y")) }, nil},
		{"an older one, through a symlink", func() { claims.Set("a", claiming("a", 1, "path:/link/x")) }, []string{"b", "c"}},
		{"nothing in common", func() { claims.Set("d", claiming("d", 4, "path:/etc/z")) }, nil},
		{"what another lost is free", func() { claims.Set("e", claiming("e", 5, "path:/etc/y")) }, nil},
		{"the oldest goes", func() { claims.Remove("a") }, []string{"b", "c"}},
		{"and claims nothing any more", func() { claims.Set("b", claiming("b", 2)) }, []string{"c", "e"}},
	}
	for _, step := range steps {
		step.do()
		if diff := cmp.Diff(step.want, claims.Changed()); diff != "" {
			t.Errorf("%s: changed (-want +got):\n%s", step.name, diff)
		}
	}
}

// However claims change, what is known afterwards is what all of them, taken down
// afresh, come to.
func TestClaims_areAsIfTakenDownAfresh(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 1))
		claims, now := NewClaims(nil), map[string]*Config{}
		for range 60 {
			name := string(rune('a' + r.IntN(8)))
			if r.IntN(4) == 0 {
				claims.Remove(name)
				delete(now, name)
			} else {
				var some []string
				for range r.IntN(4) {
					some = append(some, "x:"+string(rune('k'+r.IntN(6))))
				}
				now[name] = claiming(name, r.IntN(5), some...)
				claims.Set(name, now[name])
			}
			lost := conflicts(slices.Collect(maps.Values(now)), nil)
			for name, c := range now {
				if got, want := Text(claims.Conflict(name)), Text(lost[c]); got != want {
					t.Fatalf("seed %d: %s: got %q, want %q", seed, name, got, want)
				}
			}
		}
	}
}

// Others is whole only when every NodeConfig is known and tells what it claims.
func TestClaims_others(t *testing.T) {
	claims := NewClaims(nil)
	vague := claiming("c", 0, "path:/etc/c")
	vague.vague = true
	for _, step := range []struct {
		name  string
		do    func()
		want  []string
		known bool
	}{
		{"not all are known", func() {
			claims.Set("a", claiming("a", 0, "path:/etc/a"))
			claims.Set("b", claiming("b", 0, "path:/etc/b", "package:b"))
		}, []string{"path:/etc/b", "package:b"}, false},
		{"all are known", func() { claims.Complete(true) }, []string{"path:/etc/b", "package:b"}, true},
		{"one does not tell all", func() { claims.Set("c", vague) }, []string{"path:/etc/b", "package:b", "path:/etc/c"}, false},
		{"it is gone", func() { claims.Remove("c") }, []string{"path:/etc/b", "package:b"}, true},
	} {
		step.do()
		got, known := claims.Others("a")
		if diff := cmp.Diff(step.want, got); diff != "" || known != step.known {
			t.Errorf("%s: known %v, want %v (-want +got):\n%s", step.name, known, step.known, diff)
		}
	}
	w := newWorld(t)
	for params, want := range map[string]bool{"path: /etc/a, value: x": false, "path: '/etc/{{ .Node.Name }}', value: x": true, "path: /etc/a, value: '{{ .Node.Name }}'": false} {
		doc := plugin.Doc{Source: "a", Data: []byte("apiVersion: keel.tlspu.io/v1alpha1\nkind: NodeConfig\nmetadata: {name: a}\nspec: {type: setting, params: {" + params + "}}\n")}
		if got := read(w.Env, []plugin.Doc{doc}).configs[0].vague; got != want {
			t.Errorf("%s: vague %v, want %v", params, got, want)
		}
	}
}

// A path longer than any system takes is invalid, and nothing is looked up for it:
// neither time nor memory goes into its levels.
func TestClaims_pathsWithoutEnd(t *testing.T) {
	w := newWorld(t)
	w.Env.Handlers.Register("file", filehandler.New())
	long := keptFile("long", "path: "+strings.Repeat("/a", 100_000)+", content: a")
	if set := read(w.Env, []plugin.Doc{long}); len(set.configs[0].claims) > 0 || set.configs[0].Err == nil {
		t.Errorf("%d claims, error %.100v: want none, and an error", len(set.configs[0].claims), set.configs[0].Err)
	}
}

// A directory that the older NodeConfig makes is found behind the symlink of the
// younger one in the same run.
func TestKind_directoryThatARunMakes(t *testing.T) {
	for _, names := range [][2]string{{"a", "b"}, {"b", "a"}} { // the older one is a, whichever comes first
		w := newWorld(t)
		w.Env.Handlers.Register("file", filehandler.New())
		if err := os.Symlink("/opt/app", filepath.Join(w.Env.Root, "srv-link")); err != nil {
			t.Fatal(err)
		}
		docs := []plugin.Doc{keptFile("a", "path: /opt/app/f, content: older"), keptFile("b", "path: /srv-link/f, content: younger")}
		if names[0] == "b" {
			slices.Reverse(docs)
		}
		ts, err := targets(t.Context(), w.Env, docs)
		if err != nil {
			t.Fatal(err)
		}
		said := map[string]string{}
		for _, target := range ts {
			said[target.ID()] = Text(drift.Ensure(t.Context(), target.(drift.Planner), drift.Options{}).Err)
		}
		content, err := os.ReadFile(filepath.Join(w.Env.Root, "opt/app/f"))
		if string(content) != "older" || err != nil || said["a"] != "" {
			t.Errorf("%v: content %q, %v, want that of the older; errors %q", names, content, err, said)
		}
		if names[0] == "a" && !strings.Contains(said["b"], "belongs to the older NodeConfig a") {
			t.Errorf("said of the younger: %q", said["b"])
		}
	}
}

// Claims on one thing by all, and on one each: the cost grows with their number only.
func BenchmarkClaims(b *testing.B) {
	for _, n := range []int{1000, 4000} {
		for name, claim := range map[string]func(i int) string{
			"one thing": func(int) string { return "path:/etc/x" },
			"one each":  func(i int) string { return fmt.Sprintf("path:/etc/%d", i) },
		} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				for b.Loop() {
					claims := NewClaims(nil)
					for i := range n {
						claims.Set(fmt.Sprint(i), claiming(fmt.Sprint(i), 0, claim(i)))
					}
					claims.Changed()
				}
			})
		}
	}
}

func keptFile(name, params string) plugin.Doc {
	return plugin.Doc{Source: name + ".yaml", Data: []byte("apiVersion: keel.tlspu.io/v1alpha1\nkind: NodeConfig\n" +
		"metadata: {name: " + name + "}\nspec: {type: file, params: {" + params + "}}\n")}
}

// Two NodeConfigs for one file are told so, whoever of them has a mistake, and
// the younger changes nothing.
func TestKind_oneFile(t *testing.T) {
	for _, tt := range []struct {
		name     string
		docs     []plugin.Doc
		validate string // what is said of b without a machine
		apply    string
		content  string
	}{
		{"by a link", []plugin.Doc{keptFile("a", "path: /etc/x, content: a"), keptFile("b", "path: /etc/l, content: b")},
			"", "file:/etc/l belongs to the older NodeConfig a (a.yaml, as path:/etc/x): remove it from one of them", "a"},
		{"by one path", []plugin.Doc{keptFile("a", "path: /etc/x, content: a"), keptFile("b", "path: /etc/x, content: b")},
			"path:/etc/x belongs to the older NodeConfig a (a.yaml): remove it from one of them",
			"path:/etc/x belongs to the older NodeConfig a (a.yaml): remove it from one of them", "a"},
		{"the older has a mistake", []plugin.Doc{keptFile("a", `path: /etc/x, content: a, mode: "8888"`), keptFile("b", "path: /etc/x, content: b")},
			"path:/etc/x belongs to the older NodeConfig a (a.yaml): remove it from one of them",
			"path:/etc/x belongs to the older NodeConfig a (a.yaml): remove it from one of them", ""},
		{"the older has a wrong key", []plugin.Doc{keptFile("a", `path: /etc/x, content: 7`), keptFile("b", "path: /etc/x, content: b")},
			"path:/etc/x belongs to the older NodeConfig a (a.yaml): remove it from one of them",
			"path:/etc/x belongs to the older NodeConfig a (a.yaml): remove it from one of them", ""},
		{"the older has no path", []plugin.Doc{keptFile("a", `content: a`), keptFile("b", "path: /etc/x, content: b")}, "", "", "b"},
		{"a link and its file", []plugin.Doc{keptFile("a", "path: /etc/x, content: a"), keptFile("b", "path: /etc/l, link: replace, content: b")}, "", "", "a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.Env.Handlers.Register("file", filehandler.New())
			if err := os.Mkdir(filepath.Join(w.Env.Root, "etc"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("x", filepath.Join(w.Env.Root, "etc/l")); err != nil {
				t.Fatal(err)
			}
			if got := Text(validate(t.Context(), w.Env, tt.docs)[1]); got != tt.validate {
				t.Errorf("validate: %q, want %q", got, tt.validate)
			}
			ts, err := targets(t.Context(), w.Env, tt.docs)
			if err != nil {
				t.Fatal(err)
			}
			var got string
			for _, target := range ts {
				got = Text(drift.Ensure(t.Context(), target.(drift.Planner), drift.Options{}).Err)
			}
			if got != tt.apply {
				t.Errorf("apply: %q, want %q", got, tt.apply)
			}
			content, err := os.ReadFile(filepath.Join(w.Env.Root, "etc/x"))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if string(content) != tt.content {
				t.Errorf("content %q, want %q", content, tt.content)
			}
		})
	}
}

func TestFileName(t *testing.T) {
	if got := FileName("web.nginx"); got != "web.nginx.json" {
		t.Errorf("fileName = %q", got)
	}
	long := strings.Repeat("a", 253)
	if got := FileName(long); len(got) > 255 || !strings.HasSuffix(got, ".json") || got == FileName(long[:252]) {
		t.Errorf("fileName of 253 letters = %q", got)
	}
}
