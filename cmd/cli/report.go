package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
)

// named puts the name of what an error is about in front of each of its lines,
// where it does not stand there already.
func named(name string, err error) error {
	texts := strings.Split(err.Error(), "\n")
	for i, text := range texts {
		if !strings.HasPrefix(text, name+":") {
			texts[i] = name + ": " + text
		}
	}
	return errors.New(strings.Join(texts, "\n"))
}

// failure prints the JSON document of a command that ends before it has one:
// what reads standard output as JSON always finds some.
func (a *app) failure(cmd *cobra.Command, code int, err error) error {
	var said quiet
	if err == nil || errors.As(err, &said) || a.out.begun() || a.formOf(cmd) != formJSON {
		return nil
	}
	document := struct {
		Errors   []string `json:"errors"`
		ExitCode int      `json:"exit_code"`
	}{strings.Split(err.Error(), "\n"), code}
	if code == exitInterrupted {
		document.Errors = []string{"interrupted"}
	}
	return writeJSON(a.out, document)
}

// formOf is the form of output that a command was asked for, as far as that was
// understood.
func (a *app) formOf(cmd *cobra.Command) string {
	flag := cmd.Flag(outputFlagName)
	if flag == nil {
		return formText
	}
	if flag.Changed || a.form == "" {
		return flag.Value.String()
	}
	return a.form
}

// ended is how a command ends that has printed what went wrong: with a code and
// no more words.
func ended(code int) error {
	if code == exitOK {
		return nil
	}
	return quiet{code}
}
