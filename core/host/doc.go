// Package host looks at the files of a machine and writes them, and is the only
// code that does: walks that no symlink leads astray, files that are old or new
// and never between, and the lock of the machine.
package host
