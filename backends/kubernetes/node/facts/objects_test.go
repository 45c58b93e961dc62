package facts

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// What kubectl prints of a Node and of kube-system, cut down, and facts beside it.
const printed = `apiVersion: v1
kind: Node
metadata:
  name: web-1
  uid: 9d5c
  creationTimestamp: 2026-10-15T12:00:00Z
  labels: {kubernetes.io/arch: amd64, role: web}
spec: {podCIDR: 10.1.0.0/24, providerID: "kind://docker/kind/web-1"}
status:
  addresses:
  - {address: 10.0.0.7, type: InternalIP}
  - {address: "fd00::7", type: InternalIP}
  - {address: web-1.example.org, type: Hostname}
  allocatable: {cpu: 3800m, memory: 16106Mi, pods: "110"}
  capacity: {cpu: "4", memory: 16318812Ki}
  conditions:
  - {type: MemoryPressure, status: "False", lastHeartbeatTime: 2026-10-15T12:00:00Z}
  - {type: Ready, status: "True"}
  fieldOfAnotherVersion: {a: 1}
  nodeInfo:
    architecture: amd64
    bootID: 7d3f
    containerRuntimeVersion: containerd://2.1.4
    kernelVersion: 6.12.94
    kubeletVersion: v1.37.2
    machineID: 5c1d
    operatingSystem: linux
    osImage: Debian GNU/Linux 13 (trixie)
    systemUUID: 5c1d-99
---
apiVersion: v1
kind: Namespace
metadata: {name: kube-system, uid: 0a1b, annotations: {keel.tlspu.io/cluster-name: test}}
---
cluster: {server: "https://10.0.0.1:6443"}
`

func TestParse_objects(t *testing.T) {
	f, err := Parse([]byte(printed))
	if err != nil {
		t.Fatal(err)
	}
	want := Node{
		Name: "web-1", InternalIP: "10.0.0.7", Hostname: "web-1.example.org",
		Addresses:      []Address{{"InternalIP", "10.0.0.7"}, {"InternalIP", "fd00::7"}, {"Hostname", "web-1.example.org"}},
		Labels:         map[string]string{"kubernetes.io/arch": "amd64", "role": "web"},
		Conditions:     map[string]string{"MemoryPressure": "False", "Ready": "True"},
		Capacity:       map[string]string{"cpu": "4", "memory": "16318812Ki"},
		Allocatable:    map[string]string{"cpu": "3800m", "memory": "16106Mi", "pods": "110"},
		KubeletVersion: "v1.37.2", ContainerRuntime: "containerd://2.1.4", MachineID: "5c1d", BootID: "7d3f", SystemUUID: "5c1d-99",
		ProviderID: "kind://docker/kind/web-1", Architecture: "amd64",
	}
	if diff := cmp.Diff(want, f.Node); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Cluster{ID: "0a1b", Name: "test", Server: "https://10.0.0.1:6443"}, f.Cluster); diff != "" {
		t.Errorf("cluster (-want +got):\n%s", diff)
	}
	missing := map[string]any{
		"Node.ExternalIP": ".Node.ExternalIP: this node has none",
		"Cluster.Version": ".Cluster.Version is not known: " + notGiven,
		"OS.ID":           ".OS.ID is not known: " + notGiven,
	}
	if diff := cmp.Diff(missing, got(f, "Node.ExternalIP", "Cluster.Version", "OS.ID")); diff != "" {
		t.Error(diff)
	}

	// Beside a machine it says the same.
	machine := FromHost(root(t, map[string]string{"etc/os-release": "ID=debian\n"}))
	if overruled := machine.Add(f); overruled != nil {
		t.Errorf("overruled %v", overruled)
	}
	missing["OS.ID"], missing["Node.Name"] = "debian", "web-1"
	if diff := cmp.Diff(missing, got(machine, "Node.ExternalIP", "Cluster.Version", "OS.ID", "Node.Name")); diff != "" {
		t.Error(diff)
	}
}

// A Node that was just made has no status yet, and nobody knows what it will be.
func TestSetNode_withoutStatus(t *testing.T) {
	f := Given()
	n := &corev1.Node{}
	n.Name, n.Labels = "a", map[string]string{"role": "web"}
	f.SetNode(n)
	n.Labels["role"] = "db"
	want := map[string]any{
		"Node.Name": "a", "Node.Labels": map[string]string{"role": "web"},
		"Node.ProviderID": ".Node.ProviderID: this node has none",
		"Node.InternalIP": ".Node.InternalIP is not known: " + notReported,
		"Node.MachineID":  ".Node.MachineID is not known: " + notReported,
		"Node.Conditions": ".Node.Conditions is not known: " + notReported,
		"Node.Addresses":  ".Node.Addresses is not known: " + notReported,
	}
	if diff := cmp.Diff(want, got(f, "Node.Name", "Node.Labels", "Node.ProviderID", "Node.InternalIP", "Node.MachineID", "Node.Conditions", "Node.Addresses")); diff != "" {
		t.Error(diff)
	}
	// Another Node under the same name brings nothing of the old one along.
	f.SetNode(&corev1.Node{})
	if f.Node.Labels["role"] != "" || f.Node.Name != "" {
		t.Errorf("left of the old node: %+v", f.Node)
	}
}

func TestSetSystem_withoutAName(t *testing.T) {
	f := Given()
	ns := &corev1.Namespace{}
	ns.UID = "0a1b"
	f.SetSystem(ns)
	want := map[string]any{"Cluster.ID": "0a1b", "Cluster.Name": ".Cluster.Name: this node has none"}
	if diff := cmp.Diff(want, got(f, "Cluster.ID", "Cluster.Name")); diff != "" {
		t.Error(diff)
	}
}
