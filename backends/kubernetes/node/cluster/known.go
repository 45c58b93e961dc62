package cluster

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/tlspu/keel/api/v1alpha1"
)

// A Known is what the watch last said of a NodeConfig beside its specification.
type Known struct {
	UID             types.UID
	ResourceVersion string
	Generation      int64
	Observed        int64                // status.observedGeneration
	Own             *v1alpha1.NodeStatus // this node's entry of status.nodes; nil: there is none
	Size            int                  // bytes that the API server stores, about
}
