package node

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// claiming is a config of a name, made at hour created (0: nobody knows), that
// claims things.
func claiming(name string, created int, claims ...string) *config {
	c := &config{name: name, source: name + ".yaml", claims: claims}
	if created > 0 {
		c.created = time.Date(2026, 10, 15, created, 0, 0, 0, time.UTC)
	}
	return c
}

// linked resolves folders of a machine on which /link leads to /etc, and nothing
// but /, /etc and /link is there.
func linked(path string) (string, error) {
	switch path {
	case "/", "/etc":
		return path, nil
	case "/link":
		return "/etc", nil
	case "/locked":
		return "", errors.New("permission denied")
	}
	return "", fs.ErrNotExist
}

func TestConflicts(t *testing.T) {
	for _, tt := range []struct {
		name    string
		configs []*config
		want    []string // names that lose, each with what it says
	}{
		{"nothing in common", []*config{claiming("a", 0, "path:/etc/a"), claiming("b", 0, "path:/etc/b"), claiming("c", 0)}, nil},
		{"the name decides", []*config{claiming("b", 0, "path:/etc/x"), claiming("a", 0, "path:/etc/x")},
			[]string{"b: path:/etc/x belongs to the older NodeConfig a (a.yaml): remove it from one of them"}},
		{"the time decides before the name", []*config{claiming("a", 2, "package:nginx"), claiming("b", 1, "package:nginx")},
			[]string{"a: package:nginx belongs to the older NodeConfig b (b.yaml): remove it from one of them"}},
		{"a time is older than none", []*config{claiming("a", 0, "package:nginx"), claiming("b", 9, "package:nginx")},
			[]string{"a: package:nginx belongs to the older NodeConfig b (b.yaml): remove it from one of them"}},
		{"through a link", []*config{claiming("a", 0, "path:/etc/x"), claiming("b", 0, "path:/link/x")},
			[]string{"b: path:/link/x belongs to the older NodeConfig a (a.yaml): remove it from one of them"}},
		{"through a link, in folders to be made", []*config{claiming("a", 0, "path:/etc/new/sub/x"), claiming("b", 0, "path:/link/new/sub/x")},
			[]string{"b: path:/link/new/sub/x belongs to the older NodeConfig a (a.yaml): remove it from one of them"}},
		{"written in another way", []*config{claiming("a", 0, "path:/etc/x"), claiming("b", 0, "path:/etc/../etc//./x")},
			[]string{"b: path:/etc/../etc//./x belongs to the older NodeConfig a (a.yaml): remove it from one of them"}},
		{"a folder nobody may read", []*config{claiming("a", 0, "path:/locked/x"), claiming("b", 0, "path:/locked/x")},
			[]string{"b: path:/locked/x belongs to the older NodeConfig a (a.yaml): remove it from one of them"}},
		{"the same name elsewhere", []*config{claiming("a", 0, "path:/etc/x"), claiming("b", 0, "path:/srv/x")}, nil},
		{"a package is no path", []*config{claiming("a", 0, "path:/x"), claiming("b", 0, "package:/x")}, nil},
		{"one of several", []*config{claiming("a", 0, "x"), claiming("b", 0, "w", "x"), claiming("c", 0, "w")},
			[]string{"b: x belongs to the older NodeConfig a (a.yaml): remove it from one of them"}},
		{"twice in one", []*config{claiming("a", 0, "path:/etc/x", "path:/link/x")}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 2 {
				var got []string
				lost := conflicts(tt.configs, linked)
				for _, c := range slices.SortedFunc(maps.Keys(lost), func(a, b *config) int { return strings.Compare(a.name, b.name) }) {
					got = append(got, c.name+": "+lost[c].Error())
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("conflicts (-want +got):\n%s", diff)
				}
				slices.Reverse(tt.configs) // their order must not matter
			}
		})
	}
}

func TestFileName(t *testing.T) {
	if got := fileName("web.nginx"); got != "web.nginx.json" {
		t.Errorf("fileName = %q", got)
	}
	long := strings.Repeat("a", 253)
	if got := fileName(long); len(got) > 255 || !strings.HasSuffix(got, ".json") || got == fileName(long[:252]) {
		t.Errorf("fileName of 253 letters = %q", got)
	}
}
