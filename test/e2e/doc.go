// Package e2e tests the built binary from outside, and holds what make run shows.
package e2e
