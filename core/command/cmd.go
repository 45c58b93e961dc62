package command

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Cmd is a command as data: an argument vector, never a shell line. Argv goes
// into errors and logs and shows in process listings, so it never holds a
// secret; Env and Stdin are never printed.
type Cmd struct {
	Argv    []string
	Env     []string // KEY=VALUE, added to the small clean environment
	Stdin   []byte
	Query   bool          // reads only
	Timeout time.Duration // 0: 60 s, 30 min with Finish
	Finish  bool          // a transaction: cancel does not signal it, only Timeout does (TERM, 30 s, KILL)
	Unit    string        // with Finish, where systemd is PID 1: run as this transient unit, once one that runs has ended
}

// A Runner runs one command to its end and returns its standard output. A
// non-zero exit is an *ExitError, and comes with the output. Any other error
// means that there is no answer: the command did not run, was cut off, or was
// cancelled. Such an error is fs.ErrNotExist when the machine has no such
// command, and context.DeadlineExceeded when its time was up.
type Runner interface {
	Run(ctx context.Context, c Cmd) (stdout []byte, err error)
}

// ExitError reports a command that ran and failed.
type ExitError struct {
	Cmd    Cmd
	Code   int    // 128 and the signal's number for one that a signal ended
	Stderr string // last 4 KiB
}

// Error holds the arguments, the exit code and the end of standard error.
func (e *ExitError) Error() string {
	text := fmt.Sprintf("run %s: exit status %d", e.Cmd, e.Code)
	if said := lastLines(e.Stderr, maxSaid); said != "" {
		text += ": " + said
	}
	return text
}

// maxSaid is how many bytes of standard error an error's text may hold.
const maxSaid = 512

// maxLine is how many bytes of a command an error's text may hold.
const maxLine = 300

// String is the argument vector on one line, for people, quoted where a word
// would not be clear; never the environment and never the input.
func (c Cmd) String() string {
	var b strings.Builder
	for i, word := range c.Argv {
		if i > 0 {
			b.WriteByte(' ')
		}
		if word == "" || strings.ContainsFunc(word, unclear) {
			word = strconv.Quote(word)
		}
		b.WriteString(word)
		if b.Len() > maxLine {
			return strings.ToValidUTF8(b.String()[:maxLine], "") + "…"
		}
	}
	return b.String()
}

// GoString keeps Env and Stdin out of %#v.
func (c Cmd) GoString() string { return "command.Cmd(" + c.String() + ")" }

// LogValue keeps Env and Stdin out of logs.
func (c Cmd) LogValue() slog.Value { return slog.StringValue(c.String()) }

func unclear(r rune) bool {
	return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == '"' || r == '\'' || r == '\\' || r == '`'
}

// lastLines joins the last lines of text that fit into max bytes to one line
// that is safe to print.
func lastLines(text string, max int) string {
	var kept []string
	size := 0
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i := len(lines) - 1; i >= 0; i-- {
		line := strings.TrimSpace(strings.Map(printable, lines[i]))
		if line == "" {
			continue
		}
		if size+len(line) > max {
			if size == 0 {
				kept = append(kept, strings.ToValidUTF8(line[:max], "")+"…")
			}
			break
		}
		size += len(line)
		kept = append([]string{line}, kept...)
	}
	return strings.Join(kept, "; ")
}

// printable drops what could steer a terminal.
func printable(r rune) rune {
	switch {
	case r == '\t':
		return ' '
	case !unicode.IsPrint(r):
		return -1
	}
	return r
}
