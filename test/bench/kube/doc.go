// Package kube measures the built bin/keel against a real API server. It has
// benchmarks only, which print rows for the table of docs/develop/performance.md;
// make bench runs each once. Linux only.
package kube
