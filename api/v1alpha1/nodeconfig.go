// Package v1alpha1 holds the Kubernetes types of group keel.tlspu.io, version
// v1alpha1, and the strict parser of the same documents in files. It is made to
// be imported by others and stays light.
// +kubebuilder:object:generate=true
// +groupName=keel.tlspu.io
package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

//go:generate controller-gen object paths=.
//go:generate controller-gen crd paths=. output:crd:dir=../../deploy/kubernetes/crd

const (
	// MinInterval is the shortest interval a NodeConfig may ask for.
	MinInterval = 10 * time.Second
	// MaxInterval is the longest interval a NodeConfig may ask for, a year.
	MaxInterval = 8760 * time.Hour
	// MaxServices is how many systemd units a NodeConfig may restart.
	MaxServices = 64
	// MaxParams is how many parameters a NodeConfig may have.
	MaxParams = 256
	// DefaultInterval is used where neither NodeConfig nor agent says otherwise.
	DefaultInterval = 10 * time.Minute
	// MaxUnitName is the longest name of a systemd unit, in bytes.
	MaxUnitName = 255
	// MaxUnitTemplate is the longest template of such a name, in bytes.
	MaxUnitTemplate = 1024
	// MaxMessage is the longest message of a NodeStatus, in bytes.
	MaxMessage = 256
	// MaxRefs is how many ConfigMaps, and how many Secrets, a NodeConfig may read.
	MaxRefs = 64
)

// A NodeConfig is one setting of a node's operating system, kept by the agent of
// every node.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=nc,categories=keel
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Interval",type=string,JSONPath=`.spec.interval`,priority=1
// +kubebuilder:printcolumn:name="Suspend",type=boolean,JSONPath=`.spec.suspend`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.observedGeneration) || (has(self.status) && has(self.status.observedGeneration) && self.status.observedGeneration >= oldSelf.status.observedGeneration)",message="never goes back; leave it out of the patch",fieldPath=".status.observedGeneration"
type NodeConfig struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the node shall be like.
	// +required
	Spec NodeConfigSpec `json:"spec"`
	// Status is what the agents found and did.
	// +optional
	Status NodeConfigStatus `json:"status,omitempty"`
}

// NodeConfigSpec is what the node shall be like.
type NodeConfigSpec struct {
	// Type names the handler that keeps this setting; `keel handlers` lists them.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Type string `json:"type"`
	// Params are the handler's parameters. Every value is a string, and a template
	// where it holds "{{".
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	Params map[string]string `json:"params,omitempty"`
	// Services are the systemd units restarted after a change. A name is a template
	// where it holds "{{".
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=1024
	// +kubebuilder:validation:items:Pattern=`^([A-Za-z0-9@._:\\][A-Za-z0-9@._:\\-]{0,254}|[\s\S]*\{\{[\s\S]*)$`
	Services []string `json:"services,omitempty"`
	// Interval is the time between two runs, 10s to 8760h. Absent: the agent's
	// default interval.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}([.][0-9]+)?h|[0-9]{1,7}([.][0-9]+)?m|[0-9]{1,9}([.][0-9]+)?s|[0-9]{1,12}([.][0-9]+)?ms|[0-9]{1,15}([.][0-9]+)?(us|µs)|[0-9]{1,18}([.][0-9]+)?ns)+$') && duration(self) >= duration('10s') && duration(self) <= duration('8760h')",message="must be from 10s to 8760h"
	Interval *metav1.Duration `json:"interval,omitempty"`
	// NodeSelector selects the nodes that are kept, by their labels. Absent: every
	// node.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && !has(e.values))",message="has an operator that is none of In, NotIn, Exists and DoesNotExist, or values that do not go with it"
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// ConfigMaps are what templates may read as .ConfigMaps.<as>.<key>.
	// +optional
	// +listType=map
	// +listMapKey=as
	// +kubebuilder:validation:MaxItems=64
	ConfigMaps []DataRef `json:"configMaps,omitempty"`
	// Secrets are what templates may read as .Secrets.<as>.<key>.
	// +optional
	// +listType=map
	// +listMapKey=as
	// +kubebuilder:validation:MaxItems=64
	Secrets []DataRef `json:"secrets,omitempty"`
	// Suspend leaves the node alone, and the status says so.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// A DataRef names a ConfigMap or a Secret.
type DataRef struct {
	// Namespace it is in.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace"`
	// Name it has there.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
	// As is its name in templates: letters, digits and "_".
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	As string `json:"as"`
	// Optional says that it need not be there.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// NodeConfigStatus is what the agents found and did.
type NodeConfigStatus struct {
	// ObservedGeneration is the newest generation an agent has seen. It never goes
	// back.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Nodes holds the result of each node by the node's name. An agent writes
	// only the entry of its own node.
	// +optional
	// +kubebuilder:validation:MaxProperties=5000
	Nodes map[string]NodeStatus `json:"nodes,omitempty"`
}

// A Result is the outcome of a run.
// +kubebuilder:validation:Enum=success;error
type Result string

const (
	// Success means that the node is as the NodeConfig says.
	Success Result = "success"
	// Error means that it is not, or that nobody knows; the message says why.
	Error Result = "error"
)

// NodeStatus is the result on one node. It is written when the outcome, the
// generation, the digest or a pending restart changed, so LastRunTime is the time
// of the run that changed one of them. Fields without a value are written too:
// a merge patch clears what it names.
type NodeStatus struct {
	// LastRunTime is the time of the run that this result is of.
	LastRunTime metav1.Time `json:"lastRunTime"`
	// LastResult is the outcome of that run.
	LastResult Result `json:"lastResult"`
	// Changed says that this run changed something on the node.
	// +optional
	Changed bool `json:"changed"`
	// RestartPending says that services wait for a restart that a change needs.
	// +optional
	RestartPending bool `json:"restartPending"`
	// Message says what was done or what is wrong, in at most 256 bytes.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="bytes(self).size() <= 256",message="is too long, at most 256 bytes"
	Message string `json:"message"`
	// ObservedGeneration is the generation this result is of; 0 for a NodeConfig
	// that has none.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration"`
	// TriggerDigest is the digest of the content this result is of. Another
	// digest makes the NodeConfig due at once.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	TriggerDigest string `json:"triggerDigest"`
}

// NodeConfigList is a list of NodeConfigs.
// +kubebuilder:object:root=true
type NodeConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeConfig `json:"items"`
}
