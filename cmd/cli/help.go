package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// usageTemplate is cobra's with one line of usage, which says all there is.
const usageTemplate = `Usage:
  {{.UseLine}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasHelpSubCommands}}

Topics:{{range .Commands}}{{if .IsAdditionalHelpTopicCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableInheritedFlags}}

Flags of every command:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableSubCommands}}

"{{.CommandPath}} COMMAND --help" says more about a command{{if .HasHelpSubCommands}}, "{{.CommandPath}} help TOPIC" about a topic{{end}}.{{end}}
`

// describeCompletion gives cobra's command the words of the others.
func describeCompletion(root *cobra.Command) {
	examples := map[string]string{
		"bash":       "  source <(keel completion bash)\n  keel completion bash > /etc/bash_completion.d/keel",
		"fish":       "  keel completion fish | source\n  keel completion fish > ~/.config/fish/completions/keel.fish",
		"powershell": "  keel completion powershell | Out-String | Invoke-Expression",
		"zsh":        "  source <(keel completion zsh)\n  keel completion zsh > \"${fpath[1]}/_keel\"",
	}
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" {
			continue
		}
		cmd.Use, cmd.DisableFlagsInUseLine = "completion SHELL", true
		cmd.Short, cmd.Long = "Print a script that completes command lines in a shell", ""
		for _, shell := range cmd.Commands() {
			shell.Use, shell.DisableFlagsInUseLine = shell.Name()+" [flags]", true
			shell.Short, shell.Long = "Print the completion script for "+shell.Name(), ""
			shell.Example = examples[shell.Name()]
			if f := shell.Flags().Lookup("no-descriptions"); f != nil {
				f.Usage = "complete without descriptions"
			}
		}
	}
}

// helpCommand is cobra's, but for a mistake in a name, which is an error.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "help [COMMAND]",
		Short:                 "Help about any command",
		DisableFlagsInUseLine: true,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			of, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return subcommands(of), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("unknown command %q%s", strings.Join(args, " "), hint(strings.Join(args, " "), subcommands(cmd.Root())))
			}
			return of.Help()
		},
	}
}
