package node

import (
	"errors"
	"log/slog"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/node/cluster"
	"github.com/tlspu/keel/backends/kubernetes/node/facts"
	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"
	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/core/host"
	"github.com/tlspu/keel/core/plugin"
)

// A clustered source gives the NodeConfigs of an API server.
type clustered struct {
	cluster  *cluster.Cluster
	handlers *plugin.Registry[handler.Handler]
	log      *slog.Logger
}

// changes takes what the watches brought. The source cannot be read before everything
// was read once; later, what is known stays while the API server is away.
func (s *clustered) changes(bool) (c changes, err error) {
	news, gone, synced := s.cluster.Take()
	for _, n := range news {
		c.updated = append(c.updated, s.config(n))
	}
	c.deleted, c.data = gone, s.cluster.TakeData()
	err = s.cluster.Err()
	if !synced && err == nil {
		err = errors.New("the NodeConfigs were not read yet")
	}
	return c, err
}

func (s *clustered) config(n cluster.NodeConfig) *nodeconfig.Config {
	c := nodeconfig.New(n.Name, n.Document, s.handlers)
	c.UID, c.Ignored = n.UID, append(c.Ignored, n.Ignored...)
	nodeconfig.Warn(s.log, "API server", n.Document, s.handlers) // also beside a mistake, which may come from it
	if len(n.Ignored) > 0 {
		s.log.Warn("fields have no effect: this version does not know them", "target", n.Name, "fields", n.Ignored)
	}
	c.Pack()
	return c
}

func (s *clustered) watch(titles []string) { s.cluster.Want(titles) }

func (s *clustered) get(title string) (*v1alpha1.Data, error) { return s.cluster.Find(title) }

func (s *clustered) collectFacts(files *host.View) (f facts.Facts, overruled []string, err error) {
	f = facts.FromHost(files)
	return f, nil, s.cluster.SetFacts(&f)
}

func (s *clustered) factsVersion() int { return s.cluster.FactsEdition() }

// complete is always so: one object that cannot be read hides no other.
func (s *clustered) complete() bool { return true }

func (s *clustered) nameless() (unread, invalid []error) { return nil, nil }
