// Package host is the only code that changes a machine.
package host
