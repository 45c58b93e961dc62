package host

import "fmt"

// Noting is the same Tree with its notes given to f: one sentence for each thing
// that an operator should know of and that is no error, such as attributes a file
// lost with its previous content, or whom the lock waits for. f is called on the
// goroutine of the call, and never with content. It is closed with t.
func (t *Tree) Noting(f func(note string)) *Tree {
	with := *t
	with.notes = f
	return &with
}

// note gives a note to whoever asked for them.
func (t *Tree) note(format string, args ...any) {
	if t.notes != nil {
		t.notes(fmt.Sprintf(format, args...))
	}
}
