package command

// canEnter says that this system has namespaces.
const canEnter = false

// enter answers that there is nothing to enter.
func enter(process string, _ func() error) error {
	return &EntryError{Into: "the namespaces of " + process, Why: "this system has none: use exec mode chroot or direct"}
}
