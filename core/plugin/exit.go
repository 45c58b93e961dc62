package plugin

// Exit codes of the program that more than one package gives. docs/cli/exit-codes.md
// says what each means; none gets another meaning.
const (
	ExitUsage      = 1  // the command line is wrong
	ExitUnreadable = 2  // a document, a settings file or the root could not be read
	ExitInvalid    = 3  // a document or a setting was read and is not valid
	ExitNeedsRoot  = 15 // changing this machine needs uid 0
	ExitFailed     = 16 // at least one action failed or was refused
)

// Exit is an error with an exit code of the program; any other error is
// ExitFailed. It may be wrapped: errors.As finds it.
type Exit struct {
	Code int
	Err  error
}

func (e *Exit) Error() string { return e.Err.Error() }

// Unwrap gives the error that carries the message.
func (e *Exit) Unwrap() error { return e.Err }
