// Package kubernetes is the folder of the manifests of a cluster. Its tests apply
// them to a real API server.
package kubernetes
