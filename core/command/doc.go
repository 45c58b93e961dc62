// Package command runs commands on a machine, and is the only code that does:
// argument vectors with a deadline and bounded output, queries apart from
// changes, and the ways into the root of a machine.
package command
