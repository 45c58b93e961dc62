// Package contract holds the suites that every implementation of an interface
// runs: the fake and each real one.
package contract
