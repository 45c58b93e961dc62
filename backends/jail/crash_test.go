package jail_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apijail "github.com/tlspu/keel/api/jail"
	"github.com/tlspu/keel/backends/jail"
	"github.com/tlspu/keel/backends/jail/memory"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/host"
	"github.com/tlspu/keel/test/contract"
)

// A crashSite is a host and an agent whose state lies in a folder, so that both
// outlive the process.
type crashSite struct {
	testing.TB
	dir     string
	machine *memory.Machine
}

func openSite(t testing.TB, dir string) crashSite {
	t.Helper()
	s := crashSite{TB: t, dir: dir}
	file := filepath.Join(dir, "machine.json")
	snapshot, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	s.machine, err = memory.Load(snapshot, func(b []byte) error {
		if err := os.WriteFile(file+".new", b, 0o600); err != nil {
			return err
		}
		return os.Rename(file+".new", file)
	})
	s.do(err)
	return s
}

func (s crashSite) do(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// visit is an agent that starts, makes one pass and is gone.
func (s crashSite) visit(ctx context.Context, hook drift.Hook) (res drift.Result) {
	k := s.keeper(ctx, hook, &res)
	k.Pass(ctx)
	return res
}

func (s crashSite) keeper(ctx context.Context, hook drift.Hook, res *drift.Result) *jail.Keeper {
	s.Helper()
	records := filepath.Join(s.dir, "records")
	s.do(os.MkdirAll(records, 0o700))
	tree, err := host.OpenTree(records)
	s.do(err)
	s.Cleanup(func() { _ = tree.Close() })
	k, err := jail.NewKeeper(ctx, jail.Options{
		Driver: s.machine.Driver(), Store: jail.NewStore(tree), Pool: pool,
		Visit: drift.Options{Hook: hook}, Now: time.Now, Done: func(r drift.Result) { *res = r },
	})
	s.do(err)
	return k
}

// made is a site on which a jail runs.
func (s crashSite) made(p apijail.RestartPolicy) {
	s.Helper()
	s.recorded(p)
	s.do(s.visit(s.Context(), nil).Err)
}

// recorded is a site on which a jail is to be made.
func (s crashSite) recorded(p apijail.RestartPolicy) {
	s.Helper()
	s.do(s.machine.AddImage(pool + "/keel/" + image))
	k := s.keeper(s.Context(), nil, new(drift.Result))
	s.do(k.Record(s.Context(), spec("web", policy(p))))
}

// ends checks what is on the host, and that the volume is the one from before.
func (s crashSite) ends(want []string, volume int) {
	s.Helper()
	if got := s.machine.Contents(); !slices.Equal(got, want) {
		s.Errorf("host:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := s.machine.Serial("tank/keel/volumes/web-data"); volume != 0 && got != volume {
		s.Errorf("the volume is another one: %d, want %d", got, volume)
	}
}

var (
	whole = []string{
		"bridge keel0 [10.0.60.1/24]",
		"dataset tank/keel/base/15.0-web quota=0",
		"dataset tank/keel/jails/web quota=0",
		"dataset tank/keel/volumes/web-data quota=8589934592",
		"jail keel-web alive=true",
		"limits keel-web cpu=150 memory=536870912",
		"link epair1 of keel-web on keel0 address=10.0.60.5/24",
		"mount /tank/keel/volumes/web-data on /tank/keel/jails/web/var/db",
	}
	emptied = []string{
		"bridge keel0 [10.0.60.1/24]",
		"dataset tank/keel/base/15.0-web quota=0",
		"dataset tank/keel/volumes/web-data quota=8589934592",
	}
)

func crashes(t *testing.T, setup func(crashSite), check func(crashSite)) {
	contract.Crash(t, contract.Crashes{
		Setup: func(t testing.TB, dir string) { setup(openSite(t, dir)) },
		Visit: func(ctx context.Context, dir string, hook drift.Hook) drift.Result {
			return openSite(t, dir).visit(ctx, hook)
		},
		Check: func(t testing.TB, dir string) { check(openSite(t, dir)) },
	})
}

func TestCrash_provision(t *testing.T) {
	for _, p := range []apijail.RestartPolicy{apijail.Always, apijail.Never} {
		t.Run(string(p), func(t *testing.T) {
			crashes(t, func(s crashSite) { s.recorded(p) }, func(s crashSite) {
				s.ends(whole, 0)
				if n := s.machine.Starts("keel-web"); n != 1 {
					s.Errorf("started %d times", n)
				}
			})
		})
	}
}

func TestCrash_provisionAfterReboot(t *testing.T) {
	crashes(t, func(s crashSite) {
		s.made(apijail.Never)
		s.do(s.machine.Reboot())
	}, func(s crashSite) {
		s.ends(whole, 3)
		if root := s.machine.Serial("tank/keel/jails/web"); root != 2 {
			s.Errorf("the root is another one: %d", root)
		}
	})
}

func TestCrash_restart(t *testing.T) {
	crashes(t, func(s crashSite) {
		s.made(apijail.Always)
		d := s.machine.Driver()
		s.do(s.machine.MarkExited("keel-web", 1))
		s.do(d.Mounts.Unmount(s.Context(), "/tank/keel/jails/web/var/db"))
		s.do(d.Network.Detach(s.Context(), "epair1"))
		s.do(d.Jails.RemoveLimits(s.Context(), "keel-web"))
	}, func(s crashSite) {
		s.ends(whole, 3)
		if n := s.machine.Starts("keel-web"); n != 2 {
			s.Errorf("started %d times", n)
		}
	})
}

func TestCrash_delete(t *testing.T) {
	crashes(t, func(s crashSite) {
		s.made(apijail.Always)
		k := s.keeper(s.Context(), nil, new(drift.Result))
		s.do(k.RecordDelete(s.Context(), "web"))
	}, func(s crashSite) {
		s.ends(emptied, 3)
		if _, err := os.Stat(filepath.Join(s.dir, "records", "web.yaml")); !os.IsNotExist(err) {
			s.Errorf("the record is still there: %v", err)
		}
	})
}
