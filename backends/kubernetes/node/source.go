package node

import (
	"context"

	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/node/facts"
	"github.com/tlspu/keel/core/host"
)

// A source is where NodeConfigs come from, and what they read: a folder of files,
// or an API server. Its methods are called by the goroutine that visits and never
// wait for long.
type source interface {
	// look takes in what is new, and reports whether anything is; eager takes in what
	// may still be about to change, too, for a run that does not come back. An error says why the source cannot be read:
	// what it said before stays.
	look(eager bool) (changed bool, err error)
	// configs lists the NodeConfigs; find gives what they read, as inputs.find does.
	configs() []*nodeconfig.Config
	find() func(title string) (*v1alpha1.Data, error)
	// want says which ConfigMaps and Secrets are read from now on.
	want(titles []string)
	// edition is a number that grows with every change of what find gives.
	edition() int
	// gather collects facts of the machine and adds what the source knows. told is a
	// number that grows when the source knows something else.
	gather(files *host.View) (f facts.Facts, overruled []string, err error)
	told() int
	// whole reports whether a name that no NodeConfig has is gone for certain.
	whole() bool
	// nameless lists what is wrong with what has no NodeConfig's name to go with.
	nameless() (unread, invalid []error)
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
