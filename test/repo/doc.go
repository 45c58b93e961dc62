// Package repo holds the rules of this repository that no linter can: what may
// be linked and imported on each system, directly and by way of others, that
// documents agree with the tree, and that generated files are fresh.
package repo
