package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tlspu/keel/plugins/all"
)

const generated = "<!-- Made from the code by `make generate`; do not edit. -->\n\n"

// TestReference_isFresh compares docs/cli with the commands of the binary: a
// page a command, their list, and the table of exit codes.
func TestReference_isFresh(t *testing.T) {
	dir := filepath.Join("..", "..", "docs", "cli")
	root := (&app{set: all.Set(), out: &output{w: io.Discard}, err: io.Discard}).command()
	want := map[string]string{"exit-codes.md": exitCodesPage(), "commands.md": commandsPage(root)}
	for _, cmd := range pages(root) {
		want[pageName(cmd)] = page(cmd)
	}
	got := map[string]string{}
	files, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(content), generated) { // others are written by hand
			got[filepath.Base(file)] = string(content)
		}
	}
	if *update {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name := range got {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		for name, content := range want {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/cli is not what `make generate` makes of it (-want +got):\n%s", diff)
	}
}

// pages are the commands that have a page: those that do something.
func pages(cmd *cobra.Command) []*cobra.Command {
	var list []*cobra.Command
	for _, sub := range cmd.Commands() {
		if sub.Name() == "help" || sub.Name() == "completion" || sub.IsAdditionalHelpTopicCommand() {
			continue
		}
		if !sub.HasSubCommands() || sub.Annotations[annotationSection] != "" {
			list = append(list, sub)
		}
		list = append(list, pages(sub)...)
	}
	return list
}

func pageName(cmd *cobra.Command) string {
	return section(strings.TrimPrefix(cmd.CommandPath(), "keel ")) + ".md"
}

func commandsPage(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(generated + "# Commands\n\n| command | |\n|---|---|\n")
	for _, cmd := range pages(root) {
		fmt.Fprintf(&b, "| [%s](%s) | %s |\n", cmd.CommandPath(), pageName(cmd), cmd.Short)
	}
	b.WriteString("\n`keel completion SHELL` prints a completion script for bash, zsh, fish or powershell; `keel COMMAND --help` prints text, examples and flags; which environment variable and key of the settings file sets a flag is on the command's page, and follows the rule in [settings](settings.md).\n")
	return b.String()
}

func page(cmd *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s# %s\n\n", generated, cmd.CommandPath())
	about := cmd.Long
	if about == "" {
		about = cmd.Short + "."
	}
	fmt.Fprintf(&b, "%s\n\n```\n%s\n```\n", about, cmd.UseLine())
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\n```sh\n%s\n```\n", strings.ReplaceAll(cmd.Example, "  keel", "keel"))
	}
	section := cmd.Annotations[annotationSection]
	if section == "" {
		b.WriteString("\n| flag | default | |\n|---|---|---|\n")
	} else {
		b.WriteString("\n| flag | default | environment | |\n|---|---|---|---|\n")
	}
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		fmt.Fprintf(&b, "| %s | %s |", flagName(f), code(f.DefValue))
		if section != "" {
			fmt.Fprintf(&b, " %s |", strings.Join(coded(f.Annotations[annotationEnv]), ", "))
		}
		fmt.Fprintf(&b, " %s |\n", f.Usage)
	})
	if section != "" {
		fmt.Fprintf(&b, "\nWithout its dashes each flag is also a key in section `%s` of the [settings file](settings.md).\n", section)
	}
	b.WriteString("\nSee also [output](output.md) and [exit codes](exit-codes.md).\n")
	return b.String()
}

func flagName(f *pflag.Flag) string {
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	if f.Value.Type() != "bool" {
		kind := map[string]string{"stringArray": "TEXT", "string": "TEXT", "int": "NUMBER", "duration": "DURATION"}[f.Value.Type()]
		name += " " + kind
	}
	return code(name)
}

func code(text string) string {
	if text == "" || text == "[]" {
		return ""
	}
	return "`" + text + "`"
}

func coded(texts []string) []string {
	list := make([]string, len(texts))
	for i, text := range texts {
		list[i] = code(text)
	}
	return list
}

func exitCodesPage() string {
	var b strings.Builder
	b.WriteString(generated + "# Exit codes\n\nOne table for every command. A reserved code is not given yet, and will not be given another meaning.\n\n" +
		"Where several things went wrong, `apply` and `validate` end with the first of 2, 3, 15, 16 that occurred, and `diff` with the first of 2, 3, 14, 13.\n\n" +
		"| code | name | meaning |\n|---|---|---|\n")
	for _, c := range exitCodes() {
		meaning := c.meaning
		if c.reserved {
			meaning = "Reserved. " + meaning
		}
		fmt.Fprintf(&b, "| %d | %s | %s |\n", c.code, c.name, meaning)
	}
	return b.String()
}
