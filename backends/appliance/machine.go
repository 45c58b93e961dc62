package appliance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/host"
)

const (
	// maxFile bounds what is read of one file. The largest are lists of hosts that
	// are to be blocked, in /etc/hosts.
	maxFile = 16 << 20
	// blanks are what programs in C take for space: not what Unicode adds to it.
	blanks = " \t\n\v\f\r"
	// commandTimeout is for a question that a healthy machine answers at once.
	commandTimeout = 10 * time.Second
	// maxLinks is how far a link is followed to say where it leads.
	maxLinks = 40
)

// files is what readers need of a host.View.
type files interface {
	Read(path string, max int64) ([]byte, error)
	List(path string) ([]string, error)
	Readlink(path string) (string, error)
	Stat(path string) (host.Info, error)
}

// A machine is what the readers look at: the files below root and, where root
// is the running system, commands. Nothing here can change it.
type machine struct {
	root  string // absolute, for messages
	live  bool   // root is the running system
	files files
	run   command.Runner
}

// An answer is what one file or command gave: its text, or the problem that
// kept it from answering.
type answer struct {
	source  string // as operators know it: the path with the root, or the command line
	text    string // valid UTF-8
	problem *drift.Unknown
}

// ok reports whether there is a text.
func (a answer) ok() bool { return a.problem == nil }

// absent reports that there is nothing to read, which is an answer; every other
// problem is none.
func (a answer) absent() bool { return a.problem != nil && a.problem.Kind == drift.Absent }

// shown is a path as operators know it.
func (m machine) shown(name string) string { return path.Join(m.root, name) }

// file reads the file with that path on the machine. Bytes that are no UTF-8
// become the replacement character.
func (m machine) file(name string) answer {
	a := answer{source: m.shown(name)}
	data, err := m.files.Read(name, maxFile)
	switch {
	case err == nil:
		a.text = strings.ToValidUTF8(string(data), "\uFFFD")
	case errors.Is(err, fs.ErrNotExist):
		a.problem = m.missing(name)
	default:
		a.problem = problem(a.source, err)
	}
	return a
}

// missing is the problem of a file that is not there. A link into a folder that
// is filled at run time says nothing about a machine that does not run.
func (m machine) missing(name string) *drift.Unknown {
	target := m.destination(name)
	switch {
	case target == name:
		return &drift.Unknown{Kind: drift.Absent, Reason: m.shown(name) + " not present"}
	case m.live || !strings.HasPrefix(target, "/run/"):
		return &drift.Unknown{Kind: drift.Absent, Reason: fmt.Sprintf("%s leads to %s: not present", m.shown(name), target)}
	}
	return &drift.Unknown{Kind: drift.Offline, Reason: fmt.Sprintf("%s leads to %s, which is written at run time: not present", m.shown(name), target)}
}

// destination is the path that links make of name, as far as there are links;
// nothing needs to be there.
func (m machine) destination(name string) string {
	at, todo := "/", strings.Split(name, "/")
	for links := 0; len(todo) > 0; {
		next := path.Join(at, todo[0])
		todo = todo[1:]
		target, err := m.files.Readlink(next)
		if links++; err != nil || target == "" || links > maxLinks {
			at = next
			continue
		}
		if path.IsAbs(target) {
			at = "/"
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return at
}

// command asks the running system. Offline nothing is run.
func (m machine) command(ctx context.Context, argv ...string) answer {
	a := answer{source: strings.Join(argv, " ")}
	if !m.live {
		a.problem = &drift.Unknown{Kind: drift.Offline, Reason: a.source + " not run: the root is not the live system"}
		return a
	}
	out, err := m.run.Run(ctx, command.Cmd{Argv: argv, Query: true, Timeout: commandTimeout})
	exit := new(command.ExitError)
	switch {
	case err == nil:
		a.text = strings.ToValidUTF8(string(out), "\uFFFD")
	case errors.Is(err, context.DeadlineExceeded):
		a.problem = &drift.Unknown{Kind: drift.Timeout, Reason: fmt.Sprintf("%s timed out after %v", a.source, commandTimeout)}
	case errors.As(err, &exit):
		a.problem = &drift.Unknown{Kind: drift.Malformed, Reason: fmt.Sprintf("%s exited %d", a.source, exit.Code)}
	default:
		a.problem = &drift.Unknown{Kind: drift.Unread(err).Kind, Reason: fmt.Sprintf("%s failed: %s", a.source, cause(err))}
	}
	return a
}

// problem says why source gave no answer.
func problem(source string, err error) *drift.Unknown {
	u := drift.Unread(err)
	switch u.Kind {
	case drift.Absent:
		u.Reason = source + " not present"
	case drift.Permission:
		u.Reason = source + " permission denied (root only)"
	case drift.Timeout:
		u.Reason = source + " not read: " + cause(err)
	default:
		u.Reason = source + " not readable: " + cause(err)
	}
	return &u
}

// cause is the text of err without what was tried, which the reason names.
func cause(err error) string {
	if inner := errors.Unwrap(err); inner != nil {
		return inner.Error()
	}
	return err.Error()
}

// lines returns the trimmed lines of a text that are neither blank nor a
// comment. What follows a value on its line is kept.
func lines(text string) []string {
	var kept []string
	for line := range strings.Lines(text) {
		if line = strings.Trim(line, blanks); line != "" && line[0] != '#' {
			kept = append(kept, line)
		}
	}
	return kept
}

// words splits a line at blanks.
func words(line string) []string {
	return strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(blanks, r) })
}
