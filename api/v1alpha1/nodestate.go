package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// A NodeState holds what one node's agent found and did, for all NodeConfigs: the
// other form of NodeConfig's status.nodes, which a cluster of many nodes outgrows.
// It has the name of its Node and is written by the agent of that node alone. The
// Node owns it, so the garbage collector removes it after the Node; an agent never
// does.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=nst,categories=keel
type NodeState struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Status is what the agent found and did.
	// +optional
	Status NodeStateStatus `json:"status,omitempty"`
}

// NodeStateStatus is what the agent of one node found and did.
type NodeStateStatus struct {
	// Configs holds the result of each NodeConfig by its name, at most 1000. The
	// agent removes the entry of a NodeConfig that is gone.
	// +optional
	// +kubebuilder:validation:MaxProperties=1000
	Configs map[string]NodeStatus `json:"configs,omitempty"`
}

// NodeStateList is a list of NodeStates.
// +kubebuilder:object:root=true
type NodeStateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeState `json:"items"`
}
