package example

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/test/contract"
)

func TestHandler_contract(t *testing.T) {
	zone := map[string]string{"path": "/etc/localtime", "target": "/usr/share/zoneinfo/Europe/Zurich"}
	etc := func(link, file string) func(testing.TB, string) {
		return func(t testing.TB, root string) {
			if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(root, "etc/localtime")
			if link != "" {
				if err := os.Symlink(link, path); err != nil {
					t.Fatal(err)
				}
			}
			if file != "" {
				if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	contract.Handler(t, contract.Handlers{
		New: func() handler.Handler { return New() },
		Doc: "page.md",
		Good: []contract.Good{
			{Name: "a new link", Params: zone, Setup: etc("", "")},
			{Name: "another link", Params: zone, Setup: etc("../usr/share/zoneinfo/UTC", "")},
			{Name: "a file in its place", Params: zone, Setup: etc("", "TZif")},
			{Name: "the link is right", Params: zone, Setup: etc(zone["target"], ""), Met: true},
		},
		Bad: []contract.Bad{
			{Name: "no path", Key: "path", Params: map[string]string{"target": "x"}},
			{Name: "a relative path", Key: "path", Params: map[string]string{"path": "etc/localtime", "target": "x"}},
			{Name: "a path that climbs", Key: "path", Params: map[string]string{"path": "/etc/../etc/localtime", "target": "x"}},
			{Name: "no target", Key: "target", Params: map[string]string{"path": "/etc/localtime"}},
		},
	})
}
