package command

import "fmt"

// EntryError reports that a command did not run, because Keel could not enter
// the root that it is for. It wraps nothing: what is missing on the way in is
// never the command.
type EntryError struct {
	Into string // what could not be entered: a root, or a namespace
	Why  string // what is wrong, and what to do
}

// Error names what could not be entered, and what to do.
func (e *EntryError) Error() string { return fmt.Sprintf("enter %s: %s", e.Into, e.Why) }

// privileges is what to do where the namespaces of PID 1 are closed.
const privileges = "give the pod hostPID and privileged, or use exec mode chroot"
