package cli

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/tlspu/keel/core/plugin"
)

// candidate is a role and the backend it belongs to.
type candidate struct {
	backend string
	role    plugin.Role
}

// addRoles adds a subcommand for each role of the backends; a role of several
// words is nested: "spec apply" is apply below spec.
func (a *app) addRoles(root *cobra.Command) {
	roles := map[string][]candidate{}
	var order []string
	for _, name := range a.set.Backends.Names() {
		backend, _ := a.set.Backends.Lookup(name) // it was just listed
		for _, role := range backend.Roles {
			if roles[role.Name] == nil {
				order = append(order, role.Name)
			}
			roles[role.Name] = append(roles[role.Name], candidate{name, role})
		}
	}
	slices.Sort(order) // a parent comes before what is nested in it
	for _, name := range order {
		words := strings.Fields(name)
		parent := root
		for _, word := range words[:len(words)-1] {
			parent = child(parent, word)
		}
		last := words[len(words)-1]
		for _, sub := range parent.Commands() {
			if sub.Name() == last {
				panic(fmt.Sprintf("cli: role %q: the name of another command", name))
			}
		}
		parent.AddCommand(a.roleCommand(last, roles[name]))
	}
}

// child is the command called word below parent; it is made if there is none.
func child(parent *cobra.Command, word string) *cobra.Command {
	for _, sub := range parent.Commands() {
		if sub.Name() == word {
			return sub
		}
	}
	sub := &cobra.Command{Use: word + " COMMAND", Short: "Commands about " + word, DisableFlagsInUseLine: true}
	parent.AddCommand(sub)
	return sub
}

// roleCommand is the subcommand for a role. Where several backends have it, one
// is chosen before flags are parsed, because flags are the chosen one's.
func (a *app) roleCommand(name string, candidates []candidate) *cobra.Command {
	chosen, err := a.choose(candidates)
	cmd := &cobra.Command{Use: name, Short: sentence(chosen.role.Summary), Long: chosen.role.Long, Example: chosen.role.Example, DisableFlagsInUseLine: true}
	logging := &logSettings{Format: "text", Level: "info"}
	var settings any
	if chosen.role.Settings != nil {
		settings = chosen.role.Settings()
	}
	run := func(cmd *cobra.Command, args []string) error {
		if err != nil {
			return &usageError{err}
		}
		env := a.env(logging.logger(a.err))
		env.Args = args
		if m, ok := settings.(plugin.OnMachine); ok {
			root, execMode := m.Machine()
			var err error
			if env, err = a.reach(env, rootFlag(settings, root), root, execMode, false); err != nil {
				return err
			}
		}
		return chosen.role.Run(cmd.Context(), env, settings)
	}
	a.withSettings(cmd, section(chosen.role.Name), run, settings, logging)
	cmd.Use += " [flags]"
	cmd.Args = cobra.NoArgs
	if chosen.role.Args != "" {
		cmd.Use, cmd.Args = name+" "+chosen.role.Args+" [flags]", cobra.ArbitraryArgs
	}
	if len(candidates) > 1 {
		cmd.Flags().String("backend", candidates[0].backend, "kind of machine ("+strings.Join(backendNames(candidates), ", ")+")")
	}
	return cmd
}

// rootFlag is the flag of the settings that holds the machine's root.
func rootFlag(settings any, root string) string {
	for _, s := range settingsOf("", settings) {
		if value, ok := s.value.Interface().(string); ok && value == root && strings.HasSuffix(s.name, "root") {
			return s.name
		}
	}
	return "root"
}

// sentence gives a summary the capital of the other commands'.
func sentence(summary string) string {
	r, size := utf8.DecodeRuneInString(summary)
	return string(unicode.ToUpper(r)) + summary[size:]
}

// choose finds the backend that --backend names, or the first.
func (a *app) choose(candidates []candidate) (candidate, error) {
	if len(candidates) == 1 {
		return candidates[0], nil
	}
	name := candidates[0].backend
	for i, arg := range a.args {
		if arg == "--" {
			break
		}
		if value, ok := strings.CutPrefix(arg, "--backend="); ok {
			name = value
		} else if arg == "--backend" && i+1 < len(a.args) {
			name = a.args[i+1]
		}
	}
	for _, c := range candidates {
		if c.backend == name {
			return c, nil
		}
	}
	return candidates[0], plugin.Unknown("backend", name, backendNames(candidates))
}

func backendNames(candidates []candidate) []string {
	names := make([]string, len(candidates))
	for i, c := range candidates {
		names[i] = c.backend
	}
	return names
}
