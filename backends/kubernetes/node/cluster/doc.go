// Package cluster is the API server as the agent of one node sees it: the Node, the
// NodeConfigs and what they read, each kept up to date by a watch, and what the
// agent tells in return: statuses and Events.
//
// It stands on client-go's REST client and reflectors alone. An informer, or
// controller-runtime's cache, would hold every object once more beside what the
// agent makes of it, and one cache cannot watch single objects by their names.
package cluster
