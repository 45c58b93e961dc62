package plugin

// Exit is an error with an exit code of the program; any other error is 16. It
// may be wrapped: errors.As finds it. The codes are listed in cmd/cli.
type Exit struct {
	Code int
	Err  error
}

func (e *Exit) Error() string { return e.Err.Error() }

// Unwrap gives the error that carries the message.
func (e *Exit) Unwrap() error { return e.Err }
