package jail_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	apijail "github.com/tlspu/keel/api/jail"
	"github.com/tlspu/keel/backends/jail"
	"github.com/tlspu/keel/backends/jail/memory"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/host"
)

const (
	pool  = "tank"
	image = "base/15.0-web"
)

// bench is a host with an agent whose passes and clock the test drives.
type bench struct {
	*testing.T
	machine *memory.Machine
	dir     string // of the records
	visit   drift.Options
	wrap    func(*jail.Driver) // nil: the machine's own driver
	now     time.Time
	keeper  *jail.Keeper
	results map[string]drift.Result // of the last pass, by target
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, machine: memory.New(), dir: t.TempDir(), now: time.Unix(1_800_000_000, 0)}
	b.do(b.machine.AddImage(pool + "/keel/" + image))
	b.start()
	return b
}

// start is an agent that starts, again perhaps: the host and the records are as
// they were.
func (b *bench) start() {
	b.Helper()
	k, err := jail.NewKeeper(b.Context(), b.options())
	b.do(err)
	b.keeper = k
}

func (b *bench) options() jail.Options {
	driver := b.machine.Driver()
	if b.wrap != nil {
		b.wrap(&driver)
	}
	return jail.Options{
		Driver: driver, Store: b.store(), Pool: pool, Visit: b.visit,
		Now:  func() time.Time { return b.now },
		Done: func(r drift.Result) { b.results[r.Target] = r },
	}
}

func (b *bench) store() *jail.Store {
	b.Helper()
	tree, err := host.OpenTree(b.dir)
	b.do(err)
	b.Cleanup(func() { _ = tree.Close() })
	return jail.NewStore(tree)
}

func (b *bench) do(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// pass lets time go by and makes one pass.
func (b *bench) pass(later time.Duration) {
	b.Helper()
	b.now = b.now.Add(later)
	b.results = map[string]drift.Result{}
	b.keeper.Pass(b.Context())
}

// up applies a jail and sees it come up.
func (b *bench) up(name string, edit func(*apijail.Spec)) {
	b.Helper()
	b.do(b.keeper.Record(b.Context(), spec(name, edit)))
	b.pass(0)
	b.ok(name)
	b.running(name, true)
}

func (b *bench) result(name string) drift.Result {
	b.Helper()
	r, ok := b.results["jail/"+name]
	if !ok {
		b.Fatalf("%s was not visited", name)
	}
	return r
}

func (b *bench) ok(name string) {
	b.Helper()
	if r := b.result(name); r.Err != nil {
		b.Fatalf("visit of %s: %v", name, r.Err)
	}
}

func (b *bench) fails(name, want string) {
	b.Helper()
	if r := b.result(name); r.Err == nil || !strings.Contains(r.Err.Error(), want) {
		b.Fatalf("visit of %s: got %v, want %s", name, r.Err, want)
	}
}

func (b *bench) running(name string, want bool) {
	b.Helper()
	list, err := b.machine.Driver().Jails.List(b.Context())
	b.do(err)
	if got := list[jail.HostName(name)].Alive; got != want {
		b.Fatalf("%s: running is %v, want %v", name, got, want)
	}
}

// took lists what the steps of a visit did.
func (b *bench) took(name string) []string {
	b.Helper()
	var texts []string
	for _, o := range b.result(name).Steps {
		texts = append(texts, o.Step.Text)
	}
	return texts
}

func (b *bench) equal(what string, got, want any) {
	b.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		b.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// contents is everything on the host but images and bridges, which stay.
func (b *bench) contents() []string {
	var lines []string
	for _, line := range b.machine.Contents() {
		if !strings.HasPrefix(line, "dataset tank/keel/base/") && !strings.HasPrefix(line, "bridge ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// records lists the files of the store.
func (b *bench) records() []string {
	b.Helper()
	entries, err := os.ReadDir(b.dir)
	b.do(err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (b *bench) read(file string) string {
	b.Helper()
	data, err := os.ReadFile(filepath.Join(b.dir, file))
	b.do(err)
	return string(data)
}

// spec is a jail with one volume.
func spec(name string, edit func(*apijail.Spec)) *apijail.Jail {
	j := &apijail.Jail{APIVersion: apijail.APIVersion, Kind: apijail.Kind, Metadata: apijail.Metadata{Name: name},
		Spec: apijail.Spec{
			Image:         image,
			Command:       []string{"/usr/local/sbin/" + name, "-f"},
			Network:       apijail.Network{VNET: true, Bridge: "keel0", Address: "10.0.60.5/24"},
			Resources:     apijail.Resources{CPU: "1.5", Memory: "512M"},
			RestartPolicy: apijail.Always,
			Volumes:       []apijail.Volume{{Name: name + "-data", MountPath: "/var/db", Size: "8G"}},
		}}
	if edit != nil {
		edit(&j.Spec)
	}
	return j
}

// has reports that a line is among the host's contents.
func (b *bench) has(line string) bool { return slices.Contains(b.machine.Contents(), line) }

// breakStore makes writing records impossible, for root too: a folder stands
// where the file is.
func (b *bench) breakStore() {
	b.Helper()
	file := filepath.Join(b.dir, "web.yaml")
	b.do(os.Rename(file, file+".away"))
	b.do(os.MkdirAll(filepath.Join(file, "full"), 0o700))
}

func (b *bench) mendStore() {
	b.Helper()
	file := filepath.Join(b.dir, "web.yaml")
	b.do(os.RemoveAll(file))
	b.do(os.Rename(file+".away", file))
}
