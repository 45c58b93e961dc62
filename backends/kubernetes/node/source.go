package node

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/node/facts"
	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"
	"github.com/tlspu/keel/core/host"
)

// A source is where NodeConfigs come from, and the ConfigMaps and Secrets that they
// reference: a directory of files, or an API server. Its methods are called on the
// loop's goroutine and never wait for long.
type source interface {
	// changes takes what is new since it was called last. eager takes what may still be
	// about to change, too, for a run that does not come back. An error says why the
	// source cannot be read: what it gave before stays valid.
	changes(eager bool) (changes, error)
	// watch says which ConfigMaps and Secrets are referenced from now on, by title.
	watch(titles []string)
	// get gives one of those, as nodeconfig.Inputs.Find does.
	get(title string) (*v1alpha1.Data, error)
	// collectFacts collects facts of the machine and adds what the source knows.
	// factsVersion is a number that grows when the source knows something else.
	collectFacts(files *host.View) (f facts.Facts, overruled []string, err error)
	factsVersion() int
	// complete reports whether a name that no NodeConfig has is gone for certain.
	complete() bool
	// nameless lists errors that belong to no NodeConfig's name: of files that cannot be
	// read, and of documents that are invalid.
	nameless() (unread, invalid []error)
}

// changes are what is new in a source.
type changes struct {
	updated []*nodeconfig.Config // new ones too, each with a name
	deleted []string             // names
	data    []string             // titles of ConfigMaps and Secrets that get answers differently
}

// reports is where the results of visits go. They are only told, nothing depends on
// them: that one cannot be written is logged, and the next visit tells again.
type reports interface {
	// save writes the status of the NodeConfig with that UID if it is news.
	save(ctx context.Context, name string, uid types.UID, s v1alpha1.NodeStatus)
	// err says why none can be written at the moment.
	err() error
	// sweep removes the statuses of NodeConfigs that are not among names.
	sweep(names map[string]bool)
}
