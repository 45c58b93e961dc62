package facts

import (
	"encoding/json"

	"gopkg.in/yaml.v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/version"
)

const (
	// nameAnnotation of the namespace kube-system is the name of the cluster for
	// people.
	nameAnnotation = "keel.tlspu.io/cluster-name"
	systemSpace    = "kube-system"

	// notReported is why the status of a Node is not known when it is new.
	notReported = "the kubelet has not reported it yet"
)

// SetNode takes what a Node object says of the node. A kubelet that has reported
// nothing leaves all that it reports unknown.
func (f *Facts) SetNode(n *corev1.Node) {
	info := n.Status.NodeInfo
	f.Node = Node{
		Name: n.Name, Labels: clone(n.Labels), ProviderID: n.Spec.ProviderID,
		Conditions: map[string]string{}, Capacity: amounts(n.Status.Capacity), Allocatable: amounts(n.Status.Allocatable),
		KubeletVersion: info.KubeletVersion, ContainerRuntime: info.ContainerRuntimeVersion, MachineID: info.MachineID,
		BootID: info.BootID, SystemUUID: info.SystemUUID, Architecture: info.Architecture,
	}
	for _, c := range n.Status.Conditions {
		f.Node.Conditions[string(c.Type)] = string(c.Status)
	}
	first := map[corev1.NodeAddressType]*string{
		corev1.NodeInternalIP: &f.Node.InternalIP, corev1.NodeExternalIP: &f.Node.ExternalIP, corev1.NodeHostName: &f.Node.Hostname,
	}
	for _, a := range n.Status.Addresses {
		f.Node.Addresses = append(f.Node.Addresses, Address{string(a.Type), a.Address})
		if to := first[a.Type]; to != nil && *to == "" {
			*to = a.Address
		}
	}
	why := ""
	if info.KubeletVersion == "" {
		why = notReported
	}
	f.note("Node", why)
	f.note("Node.Name", "")
	f.note("Node.Labels", "")
	f.note("Node.ProviderID", "")
}

// SetSystem takes what the namespace kube-system says of the cluster.
func (f *Facts) SetSystem(ns *corev1.Namespace) {
	f.Cluster.ID, f.Cluster.Name = string(ns.UID), ns.Annotations[nameAnnotation]
	f.note("Cluster.ID", "")
	f.note("Cluster.Name", "")
}

// amounts are quantities by the name of the resource, as Kubernetes writes them.
func amounts(list corev1.ResourceList) map[string]string {
	m := make(map[string]string, len(list))
	for name, amount := range list {
		m[string(name)] = amount.String()
	}
	return m
}

// object reads a document that kubectl printed: a Node, or the namespace
// kube-system. What is not a fact is not looked at.
func (p *reader) object(kind string, n *yaml.Node, f *Facts) {
	var v any
	var data []byte
	node, ns := new(corev1.Node), new(corev1.Namespace)
	err := n.Decode(&v)
	if err == nil {
		data, err = json.Marshal(v)
	}
	switch {
	case err != nil:
	case kind == "Node":
		err = json.Unmarshal(data, node)
	default:
		err = json.Unmarshal(data, ns)
	}
	switch {
	case err != nil:
		p.fail(n, "", "is no %s: %v", kind, err)
	case kind == "Node" && node.Name == "":
		p.fail(n, "metadata.name", "is missing")
	case kind == "Node":
		f.SetNode(node)
	case ns.Name != systemSpace || ns.UID == "":
		p.fail(n, "metadata", "must be that of the namespace %s, with its uid", systemSpace)
	default:
		f.SetSystem(ns)
	}
}

// kindOf is what a document says it is, or "" where it is a mapping of facts.
func kindOf(n *yaml.Node) string {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "kind" {
			return n.Content[i+1].Value
		}
	}
	return ""
}

// SetServer takes the URL that the API server is reached by and what it says of
// itself.
func (f *Facts) SetServer(url string, v *version.Info) {
	f.Cluster.Server, f.Cluster.Version, f.Cluster.Platform = url, v.GitVersion, v.Platform
	f.note("Cluster.Server", "")
	f.note("Cluster.Version", "")
	f.note("Cluster.Platform", "")
}
