package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	"gopkg.in/yaml.v3"

	yamldoc "github.com/tlspu/keel/api/document"
	"github.com/tlspu/keel/core/plugin"
)

// defaultConfig is read when neither --config nor $KEEL_CONFIG names a file.
const defaultConfig = "/etc/keel/keel.yaml"

// load fills settings for a subcommand: the defaults they hold, then the
// section of the settings file, then the environment, then flags. What is
// misspelt or of another type is an error that names the key and where it is.
func (a *app) load(ctx context.Context, cmd *cobra.Command, section string, settings []setting) error {
	a.form = outputVariable(settings)
	path, file, err := a.readConfig(ctx, cmd)
	if err != nil {
		return err
	}
	a.checkFile(path, file, cmd, section)
	keys, err := inSection(path, file, section, settings)
	if err := errors.Join(err, a.checkEnvironment(cmd, section)); err != nil {
		return exitWith(exitInvalid, err)
	}
	v := viper.New()
	if err := v.MergeConfigMap(map[string]any{section: keys}); err != nil {
		return err
	}
	var errs []error
	for _, s := range settings {
		key := section + "." + s.name
		flag := cmd.Flags().Lookup(s.name)
		if err := errors.Join(v.BindEnv(append([]string{key}, s.env...)...), v.BindPFlag(key, flag)); err != nil {
			return err
		}
		v.SetDefault(key, s.value.Interface())
		raw := v.Get(key)
		if list, ok := flag.Value.(pflag.SliceValue); ok && flag.Changed {
			raw = list.GetSlice() // viper loses a list of one empty text
		}
		if err := s.set(raw); err != nil {
			where := source(v, cmd, path, key, s)
			if flag.Changed {
				return usagef("%s: %w", where, err)
			}
			errs = append(errs, fmt.Errorf("%s: %w", where, err))
		}
		if s.name == outputFlagName {
			a.form, _ = s.value.Interface().(string)
		}
	}
	return exitWith(exitInvalid, errors.Join(errs...))
}

// outputVariable is the form of the output that the environment asks for, or "":
// it is wanted for the message, too, that a settings file cannot be read.
func outputVariable(settings []setting) string {
	for _, s := range settings {
		if s.name != outputFlagName {
			continue
		}
		for _, name := range s.env {
			if form := os.Getenv(name); form != "" {
				return form
			}
		}
	}
	return ""
}

// readConfig reads the settings file: its path, and what it holds by the names
// of its sections. Only the default file may be missing. The file is not given to
// viper, which takes names for the same that differ in case, and a dot in a name
// for a level.
func (a *app) readConfig(ctx context.Context, cmd *cobra.Command) (path string, file map[string]any, err error) {
	path, must := os.Getenv("KEEL_CONFIG"), true
	if flag := cmd.Flag("config"); flag != nil && flag.Changed {
		path = flag.Value.String()
	}
	if path == "" {
		path, must = defaultConfig, false
	}
	if path == os.DevNull { // how one says "none"
		return path, nil, nil
	}
	data, err := readFile(ctx, path)
	if errors.Is(err, fs.ErrNotExist) && !must && !isLink(path) {
		return path, nil, nil
	}
	if ctx.Err() != nil {
		return path, nil, ctx.Err()
	}
	if err == nil {
		file, err = decodeConfig(data)
	}
	if err != nil {
		return path, nil, exitWith(exitUnreadable, named("settings file", named(plugin.Printable(path), err)))
	}
	return path, file, nil
}

// decodeConfig reads one document, a mapping in which no key comes twice, or
// nothing.
func decodeConfig(data []byte) (file map[string]any, err error) {
	nodes, err := yamldoc.Nodes(data)
	nodes = yamldoc.Filled(nodes)
	switch {
	case err != nil:
		return nil, err
	case len(nodes) == 0:
		return nil, nil
	case len(nodes) > 1:
		return nil, fmt.Errorf("not valid YAML: line %d: a second document", nodes[1].Line)
	}
	if err := sectioned(nodes[0]); err != nil {
		return nil, err
	}
	err = nodes[0].Decode(&file)
	if wrong := (*yaml.TypeError)(nil); errors.As(err, &wrong) { // what is left of these: keys that come twice
		return nil, errors.New(strings.Join(wrong.Errors, "\n"))
	}
	if err != nil {
		return nil, fmt.Errorf("not valid YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	return file, nil
}

// sectioned refuses a document that is no mapping of texts.
func sectioned(doc *yaml.Node) error {
	n := doc.Content[0]
	if yamldoc.Empty(doc) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: top level must be a mapping of sections", n.Line)
	}
	for i := 0; i < len(n.Content); i += 2 {
		if key := n.Content[i]; key.Kind != yaml.ScalarNode {
			return fmt.Errorf("line %d: the name of a section must be text", key.Line)
		}
	}
	return nil
}

// inSection gives what the file says in a section, and refuses keys that are no
// settings. Names count to the letter.
func inSection(path string, file map[string]any, section string, settings []setting) (map[string]any, error) {
	keys := map[string]any{}
	switch content := file[section].(type) {
	case nil:
	case map[string]any:
		keys = content
	case map[any]any: // with a key that is no text
		for key, value := range content {
			keys[fmt.Sprint(key)] = value
		}
	default:
		return nil, fmt.Errorf("%s: section %s must be a mapping of settings, not %s", path, section, describe(content))
	}
	names := names(settings)
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !slices.Contains(names, key) {
			errs = append(errs, fmt.Errorf("%s: section %s: unknown key %s%s", path, section, plugin.Printable(key), hint(key, names)))
		}
	}
	return keys, errors.Join(errs...)
}

// checkFile warns of sections that no subcommand reads: one of another build, or
// a misspelt one, or a setting that stands outside of its section.
func (a *app) checkFile(path string, file map[string]any, cmd *cobra.Command, section string) {
	known := sections(cmd.Root())
	for _, name := range slices.Sorted(maps.Keys(file)) {
		switch {
		case slices.Contains(known, name):
		case cmd.Flags().Lookup(name) != nil:
			a.log().Warn("this setting stands outside of a section and is not read", "file", path, "setting", name, "section", section)
		default:
			a.log().Warn("no subcommand reads this section", withNearest(name, known, "file", path, "section", name)...)
		}
	}
}

// sections are the sections of the settings file: one for each command that has
// settings.
func sections(root *cobra.Command) []string {
	var list []string
	for _, cmd := range root.Commands() {
		if s := cmd.Annotations[annotationSection]; s != "" {
			list = append(list, s)
		}
		list = append(list, sections(cmd)...)
	}
	return list
}

// checkEnvironment refuses variables that are named like settings of the
// subcommand and are none, and warns of those that leave the subcommand out. An
// empty variable is none.
func (a *app) checkEnvironment(cmd *cobra.Command, section string) error {
	known := variables(cmd.Root())
	mine := variables(cmd)
	var errs []error
	for _, entry := range slices.Sorted(slices.Values(os.Environ())) {
		name, value, _ := strings.Cut(entry, "=")
		if value == "" || slices.Contains(known, name) || serviceLink().MatchString(name) {
			continue
		}
		if owner(name, sections(cmd.Root())) == section {
			errs = append(errs, fmt.Errorf("environment variable %s: %s has no such setting%s", plugin.Printable(name), section, hint(name, mine)))
			continue
		}
		flag, ok := strings.CutPrefix(name, "KEEL_")
		if full := variable(section, flag); ok && slices.Contains(mine, full) {
			a.log().Warn("no setting has this environment variable", "variable", name, "nearest", full)
		}
	}
	return errors.Join(errs...)
}

// owner is the section whose settings have variables that begin like name: the
// longest, where one begins like another.
func owner(name string, sections []string) string {
	longest := ""
	for _, s := range sections {
		if strings.HasPrefix(name, variable(s, "")) && len(s) > len(longest) {
			longest = s
		}
	}
	return longest
}

// variables are the environment variables of a command's settings, and of those
// below it.
func variables(cmd *cobra.Command) []string {
	var list []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { list = append(list, f.Annotations[annotationEnv]...) })
	for _, sub := range cmd.Commands() {
		list = append(list, variables(sub)...)
	}
	return list
}

// serviceLink matches what Kubernetes puts into every pod for a Service that
// happens to be called like a subcommand.
func serviceLink() *regexp.Regexp {
	return regexp.MustCompile(`_SERVICE_(HOST|PORT(_\w+)?)$|_PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$`)
}

// source names where the value of a setting comes from.
func source(v *viper.Viper, cmd *cobra.Command, file, key string, s setting) string {
	if changed(cmd.Flags(), s.name) {
		return "--" + s.name
	}
	for _, name := range s.env {
		if os.Getenv(name) != "" {
			return "environment variable " + name
		}
	}
	if v.InConfig(key) {
		return file + ": " + strings.ReplaceAll(key, ".", ": ")
	}
	return "default of --" + s.name
}

func names(settings []setting) []string {
	list := make([]string, len(settings))
	for i, s := range settings {
		list[i] = s.name
	}
	return list
}

// withNearest adds to the attributes of a warning what was probably meant.
func withNearest(name string, known []string, attrs ...any) []any {
	if near := nearest(name, known); near != "" {
		attrs = append(attrs, "nearest", near)
	}
	return attrs
}

// hint ends the message about an unknown name.
func hint(name string, known []string) string {
	if near := nearest(name, known); near != "" {
		return fmt.Sprintf(" (did you mean %s?)", near)
	}
	return fmt.Sprintf(" (known: %s)", strings.Join(known, ", "))
}

// nearest is the known name that was probably meant: one that differs in case
// only, or the first words of a dotted one, before what looks alike.
func nearest(name string, known []string) string {
	if near := plugin.Nearest(name, known); near != "" {
		return near
	}
	top, _, _ := strings.Cut(strings.ToLower(name), ".")
	return plugin.Nearest(top, known)
}
