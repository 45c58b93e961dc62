package repo

import "testing"

// unwanted lists what the binary must not link, on any system: what costs every
// start for what few use, and what has no business there.
var unwanted = []struct{ pkg, why string }{
	{"cloud.google.com/go", "a cloud's SDK"},
	{"github.com/aws", "a cloud's SDK"},
	{"github.com/Azure", "a cloud's SDK"},
	{"k8s.io/client-go/kubernetes", "registers every API group at start, 12 ms; ask for the few kinds needed"},
	{"sigs.k8s.io/controller-runtime/pkg/metrics", "13 ms at every start"},
	{"net/http/pprof", "opens a door by being imported"},
	{"plugin", "needs cgo, and a dynamic binary"},
	{"testing", "test code"},
}

func TestBinary_linksNothingUnwanted(t *testing.T) {
	onEach(t, func(t *testing.T, l listing) {
		keel, ok := l.all[module+"/cmd/keel"]
		if !ok {
			t.Fatal("there is no cmd/keel")
		}
		for _, dep := range keel.Deps {
			for _, u := range unwanted {
				if under(dep, u.pkg) {
					t.Errorf("cmd/keel links %s (%s)%s", dep, u.why, chain(l, keel.ImportPath, dep))
				}
			}
		}
	})
}

func TestPackages_useNoCgo(t *testing.T) {
	onEach(t, func(t *testing.T, l listing) {
		for _, p := range l.own {
			if len(p.CgoFiles) > 0 {
				t.Errorf("%s uses cgo in %v", p.path(), p.CgoFiles)
			}
		}
	})
}
