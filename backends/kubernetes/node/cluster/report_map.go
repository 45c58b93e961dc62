package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tlspu/keel/api/v1alpha1"
)

const (
	// maxSize is the size in bytes of the largest NodeConfig with all its results: etcd
	// takes 1.5 MiB, and an administrator must still be able to edit it.
	maxSize = 1_200_000
	// maxReplaced is that limit for an entry that is there already, which hardly grows:
	// no old success shall stand in the place of a failure.
	maxReplaced = 1_400_000
	// metadataOnly asks for an answer without what a thousand nodes wrote.
	metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
)

// entryPatch is the part of a NodeConfig's status that one node writes.
type entryPatch struct {
	Status struct {
		ObservedGeneration int64                          `json:"observedGeneration,omitempty"`
		Nodes              map[string]v1alpha1.NodeStatus `json:"nodes"`
	} `json:"status"`
}

// sendEntry writes a status to its NodeConfig.
func (r *Reporter) sendEntry(ctx context.Context, e entry) *trouble {
	var patch entryPatch
	patch.Status.Nodes = map[string]v1alpha1.NodeStatus{r.o.Node: e.status}
	// Of a generation that the watch does not show, the server may not know either:
	// then the NodeConfig was restored from a backup.
	if g := e.status.ObservedGeneration; g > e.known.Observed && g <= e.known.Generation {
		patch.Status.ObservedGeneration = g
	}
	t := r.patchEntry(ctx, e, patch)
	if t != nil && patch.Status.ObservedGeneration > 0 && refused(t.err, "status.observedGeneration", metav1.CauseTypeFieldValueInvalid) {
		patch.Status.ObservedGeneration = 0 // another agent has seen a newer one
		t = r.patchEntry(ctx, e, patch)
	}
	return t
}

func (r *Reporter) patchEntry(ctx context.Context, e entry, patch entryPatch) *trouble {
	body, err := json.Marshal(patch)
	if err != nil {
		return &trouble{scope: scopeOne, kind: "refused", err: err}
	}
	most := maxSize
	if e.known.Own != nil {
		most = maxReplaced
	}
	if size := e.known.Size + len(body); size > most {
		return &trouble{scope: scopeSize, kind: "size"}
	}
	request := r.o.Client.keel.Patch(types.MergePatchType).Resource("nodeconfigs").Name(e.name).SubResource("status").
		SetHeader("Accept", metadataOnly).Body(body)
	answer, t := r.write(ctx, request, "patch", "nodeconfigs/status", e.name)
	if t != nil {
		return t
	}
	var now metav1.PartialObjectMetadata
	if err := json.Unmarshal(answer, &now); err != nil {
		return &trouble{scope: scopeOne, kind: "refused", err: fmt.Errorf("patch nodeconfigs/status of %s: read the answer: %w", e.name, err)}
	}
	if r.o.Cluster != nil && newer(e.known.ResourceVersion, now.ResourceVersion) {
		r.o.Cluster.line.relist()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// The server takes metadata.uid in a patch of a status for nothing, so that a
	// NodeConfig that was made anew, which the watch did not show yet, has got the old
	// one's status. Before says that it has none: its first visit writes it over.
	r.sent[e.name] = sent{uid: now.UID, status: e.status, rv: now.ResourceVersion, wrong: now.UID != e.uid}
	return nil
}
