package cli

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// annotationSection is the annotation of a command that holds the name of its
// section in the settings file.
const annotationSection = "keel-section"

// command builds the tree: cli's own commands and one for each role of a
// backend.
func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:           "keel COMMAND",
		Short:         "Manage machines as they are declared",
		Version:       thisBuild().Version,
		Long:          "Keel observes machines, compares them with what is declared, and corrects the difference.",
		SilenceErrors: true,
		SilenceUsage:  true,

		DisableFlagsInUseLine: true,
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().String("config", "", "settings file (default $KEEL_CONFIG, else "+defaultConfig+")")
	root.AddCommand(
		a.applyCommand(),
		a.diffCommand(),
		a.validateCommand(),
		a.handlersCommand(),
		a.backendsCommand(),
		a.explainCommand(),
		a.versionCommand(),
		exitCodesTopic(),
	)
	a.addRoles(root)
	root.SetHelpCommand(helpCommand())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(a.args...)
	describeCompletion(root)
	root.SetUsageTemplate(usageTemplate)
	finish(root)
	return root
}

// flagError says of a flag that is none which one is like it, and of a value
// what it must be, in the words that are used for variables too.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	switch {
	case cmd.HasSubCommands() && cmd.Flags().NArg() > 0:
		return unknownCommand(cmd, cmd.Flags().Arg(0)) // whose flags are unknown, too
	case errors.As(err, &unknown):
		more := fmt.Sprintf(" (see %s --help)", cmd.CommandPath())
		if near := nearest(unknown.GetSpecifiedName(), flagNames(cmd)); near != "" && unknown.GetSpecifiedShortnames() == "" {
			more = fmt.Sprintf(" (did you mean --%s?)", near)
		}
		return usagef("%w%s", err, more)
	case errors.As(err, &value):
		kinds := map[string]any{"bool": false, "int": 0, "duration": time.Duration(0)}
		if kind, ok := kinds[value.GetFlag().Value.Type()]; ok {
			if _, better := (setting{value: reflect.ValueOf(kind)}).convert(value.GetValue()); better != nil {
				return usagef("--%s: %w", value.GetFlag().Name, better)
			}
		}
	}
	return &usageError{err}
}

func flagNames(cmd *cobra.Command) []string {
	var list []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { list = append(list, f.Name) })
	return list
}

// finish makes a command without work of its own say what there is below it, and
// every mistake in arguments a usage error.
func finish(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		finish(sub)
	}
	if !cmd.Runnable() && cmd.HasSubCommands() {
		cmd.Args = cobra.ArbitraryArgs
		cmd.RunE = group
		return
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return &usageError{err}
			}
			return nil
		}
	}
}

// group is the work of a command that only holds others: help on standard
// error, and exit 1.
func group(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownCommand(cmd, args[0])
	}
	cmd.SetOut(cmd.ErrOrStderr())
	if err := cmd.Help(); err != nil {
		return err
	}
	return quiet{exitUsage}
}

// unknownCommand says of a subcommand that there is not which one is meant: one
// that looks alike, or one that says of itself that it is what others call so.
func unknownCommand(cmd *cobra.Command, name string) error {
	for _, sub := range cmd.Commands() {
		if slices.Contains(sub.SuggestFor, name) {
			return usagef("unknown command %q for %q (did you mean %s?)", name, cmd.CommandPath(), sub.Name())
		}
	}
	return usagef("unknown command %q for %q%s", name, cmd.CommandPath(), hint(name, subcommands(cmd)))
}

func subcommands(cmd *cobra.Command) []string {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

// withSettings gives cmd the flags of settings structs. Before run they are
// filled from the settings file, the environment and the flags.
func (a *app) withSettings(cmd *cobra.Command, section string, run func(cmd *cobra.Command, args []string) error, structs ...any) *cobra.Command {
	settings := settingsOf(section, structs...)
	addFlags(cmd, settings)
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[annotationSection] = section
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := a.load(cmd.Context(), cmd, section, settings); err != nil {
			return err
		}
		return run(cmd, args)
	}
	return cmd
}

// section is the name of a subcommand's section: "spec apply" has "spec-apply".
func section(name string) string { return strings.ReplaceAll(name, " ", "-") }
