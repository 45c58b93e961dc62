// Package kubetest starts a real kube-apiserver with its etcd on loopback, and
// gives tests what they need to talk to it: an administrator's credentials,
// tokens bound to a node, an audit log. Linux only.
package kubetest
