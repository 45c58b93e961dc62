package nodeconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/tlspu/keel/backends/kubernetes/node/facts"
	"github.com/tlspu/keel/core/host"
	"github.com/tlspu/keel/core/plugin"
)

// Gather collects what is known about the node: what the machine tells, where there
// is one to look at, and what the file of an operator adds to it. Without a
// file's name there is no such file. overruled are the facts of which the machine
// tells another value, which counts. Of the Node the file counts, and the machine
// tells what is left.
func Gather(files *host.View, file string) (f facts.Facts, overruled []string, err error) {
	f = facts.Given()
	if files != nil {
		f = facts.FromHost(files)
		defer func() { f.AddMachine(files) }()
	}
	if file == "" {
		return f, nil, nil
	}
	data, err := ReadFile(file)
	if err != nil {
		return f, nil, &plugin.Exit{Code: plugin.ExitUnreadable, Err: fmt.Errorf("facts %s: %w", file, err)}
	}
	given, err := facts.Parse(data)
	if err != nil {
		return f, nil, &plugin.Exit{Code: plugin.ExitInvalid, Err: eachLine("facts "+file, err)}
	}
	return f, f.Add(given), nil
}

// WarnOfFacts says which facts of a file have no effect.
func WarnOfFacts(log *slog.Logger, overruled []string, file string) {
	for _, fact := range overruled {
		log.Warn("ignoring fact from file: the host reports a different value", "fact", fact, "file", file)
	}
}

// eachLine puts a prefix before every line of an error.
func eachLine(prefix string, err error) error {
	var errs []error
	for line := range strings.SplitSeq(err.Error(), "\n") {
		errs = append(errs, errors.New(prefix+": "+line))
	}
	return errors.Join(errs...)
}

// factSettings are those of the subcommand facts.
type factSettings struct {
	Root   string `flag:"root" usage:"directory of the machine's root file system"`
	Facts  string `flag:"facts" usage:"file of what the machine itself cannot know"`
	Output string `flag:"output" short:"o" enum:"text|json" usage:"form of the output"`
}

// Machine says which machine is looked at.
func (s *factSettings) Machine() (root, execMode string) { return s.Root, "" }

// FactsRole is the subcommand facts.
func FactsRole() plugin.Role {
	return plugin.Role{
		Name:    "facts",
		Summary: "print what is known about this node",
		Long: `Print what is known about this node: all facts, or those that are named as
templates name them.`,
		Args: "[FACT...]",
		Example: "  keel facts --facts facts.yaml\n" +
			"  keel facts .OS.ID .Node.Labels -o json",
		Settings: func() any { return &factSettings{Root: "/", Output: "text"} },
		Run: func(_ context.Context, env plugin.Env, settings any) error {
			s := settings.(*factSettings)
			names, err := factNames(env.Args)
			if err != nil {
				return &plugin.Exit{Code: plugin.ExitUsage, Err: err}
			}
			files, err := host.OpenView(env.Root)
			if err != nil {
				return &plugin.Exit{Code: plugin.ExitUnreadable, Err: err}
			}
			f, overruled, err := Gather(files, s.Facts)
			WarnOfFacts(env.Log, overruled, s.Facts)
			if err := errors.Join(err, files.Close()); err != nil {
				return err
			}
			if s.Output == "json" {
				return factsAsJSON(env.Out, f, names)
			}
			return factsAsText(env.Out, f, names)
		},
	}
}

// A fact is one line of what is printed.
type fact struct {
	Name   string `json:"name"`
	State  string `json:"state"` // known, none, unknown
	Value  any    `json:"value"`
	Reason string `json:"reason"`
}

// factNames are the names of the facts that were asked for, with or without the
// dot in front; of all facts where none is named.
func factNames(args []string) (names []string, err error) {
	all := facts.Names()
	for _, arg := range args {
		name := strings.TrimPrefix(arg, ".")
		if !slices.Contains(all, name) {
			return nil, facts.Unknown(name)
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		names = all
	}
	return names, nil
}

func lines(f facts.Facts, names []string) []fact {
	var list []fact
	for _, name := range names {
		line := fact{Name: "." + name, State: "known"}
		value, err := f.Lookup(name)
		missing := (*facts.Missing)(nil)
		switch {
		case err == nil:
			line.Value = value
		case errors.As(err, &missing) && missing.Reason == "":
			line.State = "none"
		case errors.As(err, &missing):
			line.State, line.Reason = "unknown", missing.Reason
		default:
			line.State, line.Reason = "unknown", err.Error()
		}
		list = append(list, line)
	}
	return list
}

func factsAsJSON(out io.Writer, f facts.Facts, names []string) error {
	document := struct {
		Facts []fact `json:"facts"`
	}{lines(f, names)}
	data, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return err
	}
	_, err = out.Write(append(data, '\n'))
	return err
}

func factsAsText(out io.Writer, f facts.Facts, names []string) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, fact := range lines(f, names) {
		text := "(none)"
		switch v := fact.Value.(type) {
		case string:
			text = v
		case map[string]string:
			text = pairs(v)
		case []facts.Address:
			var list []string
			for _, a := range v {
				list = append(list, a.Type+"="+a.Address)
			}
			text = strings.Join(list, ", ")
		}
		switch {
		case fact.State == "unknown":
			text = "unknown: " + fact.Reason
		case text == "":
			text = "(empty)"
		}
		if _, err := fmt.Fprintf(t, "%s\t%s\n", fact.Name, plugin.Printable(strings.ReplaceAll(text, "\n", " "))); err != nil {
			return err
		}
	}
	return t.Flush()
}

func pairs(m map[string]string) string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		list = append(list, key+"="+m[key])
	}
	return strings.Join(list, ", ")
}
