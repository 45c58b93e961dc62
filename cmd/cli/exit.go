package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tlspu/keel/core/plugin"
)

// Exit codes that this package gives itself. Backends give theirs with
// *plugin.Exit.
const (
	exitOK          = 0
	exitUsage       = plugin.ExitUsage
	exitUnreadable  = plugin.ExitUnreadable
	exitInvalid     = plugin.ExitInvalid
	exitIncomplete  = 13
	exitDrift       = 14
	exitNeedsRoot   = plugin.ExitNeedsRoot
	exitFailed      = plugin.ExitFailed
	exitInterrupted = 130
	exitPipe        = 141
)

// exitCode is one row of the table of exit codes, the only one of the binary.
// A reserved code is not given yet and will not be given another meaning.
type exitCode struct {
	code     int
	name     string
	meaning  string
	reserved bool
}

//go:generate go test . -run ^TestReference -update

// exitCodes is the table, in order; docs/cli/exit-codes.md is made from it.
func exitCodes() []exitCode {
	return []exitCode{
		{exitOK, "ok", "Done, or nothing to do; for diff: what is declared is what is there.", false},
		{exitUsage, "usage", "The command line is wrong: unknown command, flag or value.", false},
		{exitUnreadable, "unreadable", "A document, a settings file or the root could not be read: missing, no permission, not YAML, empty, a duplicate key.", false},
		{exitInvalid, "invalid", "A document or a setting was read and is not valid; every error is printed.", false},
		{4, "secret", "A secret that is referred to is missing or badly protected.", true},
		{5, "output", "A result file could not be written.", true},
		{6, "layer-invalid", "A layer's manifest is not valid.", true},
		{7, "layer-mismatch", "A layer's tarball, chain or hash does not match.", true},
		{8, "signature-unverified", "A hash file is present and its signature was not verified.", true},
		{9, "not-implemented", "The command is documented and not built.", true},
		{10, "layer-unavailable", "A layer could not be fetched and is not in the cache.", true},
		{11, "assemble-needs-root", "Assembling a root needs uid 0.", true},
		{12, "assemble-failed", "Assembling a root failed.", true},
		{exitIncomplete, "incomplete", "No drift was found, and something that is declared could not be observed.", false},
		{exitDrift, "drift", "Something differs from what is declared.", false},
		{exitNeedsRoot, "needs-root", "Changing this machine (root /) needs uid 0; nothing was touched.", false},
		{exitFailed, "failed", "At least one action failed or was refused; everything else was done.", false},
		{17, "channel-invalid", "A layer channel's pointer is not valid.", true},
		{18, "channel-unverified", "A layer channel's pointer is not signed by a known key.", true},
		{19, "channel-expired", "A layer channel's pointer has expired.", true},
		{20, "channel-rollback", "A layer channel's pointer is older than the one already seen.", true},
		{21, "network-not-confirmed", "Confirming a network change was refused.", true},
		{22, "notify-failed", "No channel took the message.", true},
		{23, "mesh-token-invalid", "A mesh's join token is not valid.", true},
		{24, "mesh-refused", "The mesh refused the node.", true},
		{30, "not-found", "A remote command: there is nothing of that name.", true},
		{31, "conflict", "A remote command: it contradicts what is there.", true},
		{32, "unreachable", "A remote command: the agent or server did not answer.", true},
		{exitInterrupted, "interrupted", "A signal ended the command: reading at once, writing after the step that ran.", false},
		{exitPipe, "broken-pipe", "The reader of standard output went away; nothing is printed about it.", false},
	}
}

// exitCodesTopic is what `keel help exit-codes` prints.
func exitCodesTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString("Exit codes of keel; codes that are not listed are reserved:\n")
	for _, c := range exitCodes() {
		if !c.reserved {
			fmt.Fprintf(&b, "\n  %3d  %-13s %s", c.code, c.name, c.meaning)
		}
	}
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: b.String()}
}

// usageError is a mistake on the command line: its command's usage line and the
// message are printed, exit 1.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// quiet is an error whose message was printed already, or has none: only the
// code is left to give.
type quiet struct{ code int }

func (q quiet) Error() string { return fmt.Sprintf("exit %d", q.code) }

// exitWith wraps err with a code; nil stays nil.
func exitWith(code int, err error) error {
	if err == nil {
		return nil
	}
	return &plugin.Exit{Code: code, Err: err}
}

// codeOf is the exit code for an error.
func codeOf(err error) int {
	var usage *usageError
	var exit *plugin.Exit
	var done quiet
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &done):
		return done.code
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &exit):
		return exit.Code
	}
	return exitFailed
}

// worst is the first code of order that is among codes, else 0: which code the
// program ends with when several things went wrong.
func worst(order []int, codes map[int]bool) int {
	for _, code := range order {
		if codes[code] {
			return code
		}
	}
	return exitOK
}
