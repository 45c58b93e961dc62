package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// Kind is the kind of a NodeConfig document.
	Kind = "NodeConfig"
	// ConfigMapKind is the kind of a document that holds data for templates.
	ConfigMapKind = "ConfigMap"
	// SecretKind is the kind of one whose data is withheld everywhere.
	SecretKind = "Secret"
)

// GroupVersion is the group and version of the types in this package.
var GroupVersion = schema.GroupVersion{Group: "keel.tlspu.io", Version: "v1alpha1"}

// AddToScheme registers the types of this package with s.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &NodeConfig{}, &NodeConfigList{}, &NodeState{}, &NodeStateList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
