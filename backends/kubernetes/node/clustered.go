package node

import (
	"errors"
	"log/slog"
	"maps"
	"slices"

	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/node/cluster"
	"github.com/tlspu/keel/backends/kubernetes/node/facts"
	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/core/host"
	"github.com/tlspu/keel/core/plugin"
)

// A clustered source gives the NodeConfigs of an API server.
type clustered struct {
	cluster  *cluster.Cluster
	handlers *plugin.Registry[handler.Handler]
	log      *slog.Logger
	known    map[string]*nodeconfig.Config // by name
	seen     int                           // edition of the last look
}

// look takes what the watch brought. It cannot be read before everything was read
// once; later, what is known stays while the API server is away.
func (s *clustered) look(bool) (changed bool, err error) {
	news, gone, synced := s.cluster.Take()
	for _, n := range news {
		s.known[n.Name] = s.config(n)
	}
	for _, name := range gone {
		delete(s.known, name)
	}
	err = s.cluster.Err()
	if !synced && err == nil {
		err = errors.New("the NodeConfigs were not read yet")
	}
	edition := s.cluster.Edition()
	changed = len(news)+len(gone) > 0 || edition != s.seen
	s.seen = edition
	return changed, err
}

func (s *clustered) config(n cluster.NodeConfig) *nodeconfig.Config {
	c := nodeconfig.New(n.Name, n.Document, s.handlers)
	c.Uid, c.Ignored = n.UID, append(c.Ignored, n.Ignored...)
	nodeconfig.Warn(s.log, "API server", n.Document, s.handlers) // also beside a mistake, which may come from it
	if len(n.Ignored) > 0 {
		s.log.Warn("fields have no effect: this version does not know them", "target", n.Name, "fields", n.Ignored)
	}
	c.Pack()
	return c
}

func (s *clustered) configs() []*nodeconfig.Config {
	return slices.Collect(maps.Values(s.known))
}

func (s *clustered) find() func(title string) (*v1alpha1.Data, error) { return s.cluster.Find }

func (s *clustered) want(titles []string) { s.cluster.Want(titles) }

func (s *clustered) edition() int { return s.cluster.Edition() }

func (s *clustered) gather(files *host.View) (f facts.Facts, overruled []string, err error) {
	f = facts.FromHost(files)
	return f, nil, s.cluster.SetFacts(&f)
}

func (s *clustered) told() int { return s.cluster.FactsEdition() }

// whole is always so: one object that cannot be read hides no other.
func (s *clustered) whole() bool { return true }

func (s *clustered) nameless() (unread, invalid []error) { return nil, nil }
