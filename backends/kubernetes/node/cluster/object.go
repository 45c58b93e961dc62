package cluster

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// An object is a NodeConfig as it comes over the wire, with the parts that are
// large left as they came: of a status that thousands of nodes write, an agent
// needs one entry.
type object struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   json.RawMessage `json:"spec"`
	Status struct {
		ObservedGeneration int64           `json:"observedGeneration"`
		Nodes              json.RawMessage `json:"nodes"`
	} `json:"status"`

	bytes int // that the API server stores, about; 0: not counted yet
}

type objects struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []object `json:"items"`
}

// DeepCopyObject shares the raw parts, which nobody changes.
func (o *object) DeepCopyObject() runtime.Object {
	c := *o
	o.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// DeepCopyObject copies every item as its own method does.
func (l *objects) DeepCopyObject() runtime.Object {
	c := objects{TypeMeta: l.TypeMeta, Items: make([]object, len(l.Items))}
	l.DeepCopyInto(&c.ListMeta)
	for i := range l.Items {
		c.Items[i] = *l.Items[i].DeepCopyObject().(*object)
	}
	return &c
}

// size is about what the API server stores of the object.
func (o *object) size() int {
	size := len(o.Spec) + len(o.Status.Nodes)
	for _, f := range o.ManagedFields {
		if f.FieldsV1 != nil {
			size += len(f.FieldsV1.GetRawBytes())
		}
	}
	return size
}
