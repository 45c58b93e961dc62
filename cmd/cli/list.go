package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tlspu/keel/core/handler"
)

// Forms of output.
const (
	formText = "text"
	formJSON = "json"
)

// outputFlagName is the flag that chooses the form.
const outputFlagName = "output"

// form is the value of -o in a command that has no other settings.
type form string

func (f *form) String() string { return string(*f) }
func (f *form) Type() string   { return "string" }
func (f *form) Set(text string) error {
	if text != formText && text != formJSON {
		return fmt.Errorf("must be one of text, json")
	}
	*f = form(text)
	return nil
}

// outputFlag gives cmd the flag -o.
func outputFlag(cmd *cobra.Command) *form {
	f := form(formText)
	cmd.Flags().VarP(&f, outputFlagName, "o", "form of the output (text, json)")
	_ = cmd.RegisterFlagCompletionFunc(outputFlagName, cobra.FixedCompletions([]string{formText, formJSON}, cobra.ShellCompDirectiveNoFileComp))
	return &f
}

// parameter is a handler.Param in JSON.
type parameter struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"`
	Required bool   `json:"required"`
	Default  string `json:"default"`
	Help     string `json:"help"`
}

func parameters(h handler.Handler) []parameter {
	list := []parameter{}
	if d, ok := h.(handler.Described); ok {
		for _, p := range d.Params() {
			list = append(list, parameter{p.Name, p.Kind, p.Required, p.Default, p.Help})
		}
	}
	return list
}

func (a *app) handlersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "handlers",
		Short: "List the handlers in this binary: the values of spec.type",
		Long: `List the handlers in this binary, which are the values of spec.type in a
NodeConfig, with their parameters; those in brackets may be left out.`,
		Example: "  keel handlers\n" +
			"  keel handlers -o json",
		Args: cobra.NoArgs,
	}
	form := outputFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		type entry struct {
			Name   string      `json:"name"`
			Params []parameter `json:"params"`
		}
		handlers := a.set.Handlers(nowhere)
		entries := []entry{}
		rows := [][]string{{"HANDLER", "PARAMETERS"}}
		for _, name := range handlers.Names() {
			h, _ := handlers.Lookup(name) // it was just listed
			params := parameters(h)
			entries = append(entries, entry{name, params})
			words := make([]string, len(params))
			for i, p := range params {
				if words[i] = p.Name; !p.Required {
					words[i] = "[" + p.Name + "]"
				}
			}
			rows = append(rows, []string{name, orDash(strings.Join(words, " "))})
		}
		if *form == formJSON {
			return writeJSON(a.out, entries)
		}
		return writeTable(a.out, rows)
	}
	return cmd
}

func (a *app) backendsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backends",
		Short: "List the backends in this binary, their documents and subcommands",
		Args:  cobra.NoArgs,
	}
	form := outputFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		type entry struct {
			Name        string   `json:"name"`
			Summary     string   `json:"summary"`
			Kinds       []string `json:"kinds"`
			Subcommands []string `json:"subcommands"`
		}
		entries := []entry{}
		rows := [][]string{{"BACKEND", "KINDS", "SUBCOMMANDS", "SUMMARY"}}
		for _, name := range a.set.Backends.Names() {
			backend, _ := a.set.Backends.Lookup(name) // it was just listed
			e := entry{name, backend.Summary, []string{}, []string{}}
			for _, k := range backend.Kinds {
				e.Kinds = append(append(e.Kinds, k.Name), k.Data...)
			}
			for _, r := range backend.Roles {
				e.Subcommands = append(e.Subcommands, r.Name)
			}
			entries = append(entries, e)
			rows = append(rows, []string{
				name, orDash(strings.Join(e.Kinds, ", ")), orDash(strings.Join(e.Subcommands, ", ")), orDash(e.Summary),
			})
		}
		if *form == formJSON {
			return writeJSON(a.out, entries)
		}
		return writeTable(a.out, rows)
	}
	return cmd
}

// helpWidth is how wide the help of a parameter is in a table.
const helpWidth = 60

func (a *app) explainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain HANDLER",
		Short: "Explain the parameters of a handler",
		Long: `Explain the parameters of a handler: what may stand below spec.params in a
NodeConfig whose spec.type is the handler's name.`,
		Example: "  keel explain file\n" +
			"  keel explain file -o json",
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return a.set.Handlers(nowhere).Names(), cobra.ShellCompDirectiveNoFileComp
		},
	}
	form := outputFlag(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		h, err := a.set.Handlers(nowhere).Lookup(args[0])
		if err != nil {
			return &usageError{err}
		}
		params := parameters(h)
		if *form == formJSON {
			return writeJSON(a.out, params)
		}
		if len(params) == 0 {
			_, err := fmt.Fprintf(a.out, "%s does not describe its parameters\n", h.Name())
			return err
		}
		rows := [][]string{{"PARAMETER", "KIND", "DEFAULT", "HELP"}}
		for _, p := range params {
			if p.Required {
				p.Default = "(required)"
			}
			help := wrap(p.Help, helpWidth)
			rows = append(rows, []string{p.Name, strings.ReplaceAll(p.Kind, "|", " | "), orDash(p.Default), orDash(help[0])})
			for _, more := range help[1:] {
				rows = append(rows, []string{"", "", "", more})
			}
		}
		return writeTable(a.out, rows)
	}
	return cmd
}
