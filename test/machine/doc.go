// Package machine boots Debian hosts with systemd as PID 1, in namespaces and
// without a container engine, and starts processes on them as pods are started:
// in the host's PID namespace with the host's root at a folder. Linux only, as
// uid 0.
package machine
