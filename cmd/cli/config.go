package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/viper"
	"gopkg.in/yaml.v3"

	"github.com/tlspu/keel/core/plugin"
)

// defaultConfig is read when neither --config nor $KEEL_CONFIG names a file.
const defaultConfig = "/etc/keel/keel.yaml"

// load fills settings for a subcommand: the defaults they hold, then the
// section of the settings file, then the environment, then flags. What is
// misspelt or of another type is an error that names the key and where it is.
func (a *app) load(ctx context.Context, cmd *cobra.Command, section string, settings []setting) error {
	v := viper.New()
	file, err := a.readConfig(ctx, cmd, v)
	if err != nil {
		return err
	}
	if err := checkSection(v, file, section, settings); err != nil {
		return exitWith(exitInvalid, err)
	}
	a.checkFile(v, file, cmd)
	a.checkEnvironment(section, settings)
	var errs []error
	for _, s := range settings {
		key := section + "." + s.name
		flag := cmd.Flags().Lookup(s.name)
		if err := errors.Join(v.BindEnv(append([]string{key}, s.env...)...), v.BindPFlag(key, flag)); err != nil {
			return err
		}
		v.SetDefault(key, s.value.Interface())
		if err := s.set(v.Get(key)); err != nil {
			where := source(v, cmd, file, key, s)
			if flag.Changed {
				return usagef("%s: %w", where, err)
			}
			errs = append(errs, fmt.Errorf("%s: %w", where, err))
		}
	}
	return exitWith(exitInvalid, errors.Join(errs...))
}

// readConfig reads the settings file into v and returns its path. Only the
// default file may be missing.
func (a *app) readConfig(ctx context.Context, cmd *cobra.Command, v *viper.Viper) (path string, err error) {
	path, named := os.Getenv("KEEL_CONFIG"), true
	if flag := cmd.Flag("config"); flag != nil && flag.Changed {
		path = flag.Value.String()
	}
	if path == "" {
		path, named = defaultConfig, false
	}
	if path == os.DevNull { // how one says "none"
		return path, nil
	}
	data, err := readFile(ctx, path)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return path, nil
	}
	if ctx.Err() != nil {
		return path, ctx.Err()
	}
	if err != nil {
		return path, exitWith(exitUnreadable, fmt.Errorf("settings file: %w", err))
	}
	v.SetConfigType("yaml")
	err = v.ReadConfig(bytes.NewReader(data))
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	if err == nil {
		err = oneDocument(data)
	}
	if err != nil {
		return path, exitWith(exitUnreadable, fmt.Errorf("settings file: %s: not valid YAML: %s",
			path, strings.TrimPrefix(err.Error(), "yaml: ")))
	}
	return path, nil
}

// oneDocument refuses a second document, of which viper would not tell.
func oneDocument(data []byte) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for n := 1; ; n++ {
		var node yaml.Node
		err := dec.Decode(&node)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case n > 1:
			return fmt.Errorf("line %d: a second document", node.Line)
		}
	}
}

// checkSection refuses keys of the section that are no settings.
func checkSection(v *viper.Viper, file, section string, settings []setting) error {
	if _, isMap := v.Get(section).(map[string]any); v.Get(section) != nil && !isMap {
		return fmt.Errorf("%s: section %s must be a mapping of settings, not %s", file, section, describe(v.Get(section)))
	}
	names := names(settings)
	unknown := map[string]bool{}
	var errs []error
	for _, key := range v.AllKeys() {
		name, ok := strings.CutPrefix(key, section+".")
		if !ok {
			continue
		}
		// A mapping below a key is listed leaf by leaf.
		top, _, _ := strings.Cut(name, ".")
		if slices.Contains(names, top) || unknown[top] {
			continue
		}
		unknown[top] = true
		errs = append(errs, fmt.Errorf("%s: section %s: unknown key %s%s", file, section, printable(top), hint(top, names)))
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// checkFile warns of sections that no subcommand reads: one of another build, or
// a misspelt one.
func (a *app) checkFile(v *viper.Viper, file string, cmd *cobra.Command) {
	known := sections(cmd.Root())
	warned := map[string]bool{}
	keys := v.AllKeys()
	slices.Sort(keys)
	for _, key := range keys {
		top, _, _ := strings.Cut(key, ".")
		if slices.Contains(known, top) || warned[top] {
			continue
		}
		warned[top] = true
		a.log().Warn("no subcommand reads this section", withNearest(top, known, "file", file, "section", top)...)
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

// checkEnvironment warns of variables that look like settings of the subcommand
// and are none.
func (a *app) checkEnvironment(section string, settings []setting) {
	prefix := variable(section, "")
	var known []string
	for _, s := range settings {
		known = append(known, s.env...)
	}
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, prefix) || slices.Contains(known, name) || serviceLink().MatchString(name) {
			continue
		}
		a.log().Warn("no setting has this environment variable", withNearest(name, known, "variable", name)...)
	}
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
	if near := plugin.Nearest(name, known); near != "" {
		attrs = append(attrs, "nearest", near)
	}
	return attrs
}

// hint ends the message about an unknown name.
func hint(name string, known []string) string {
	if near := plugin.Nearest(name, known); near != "" {
		return fmt.Sprintf(" (did you mean %s?)", near)
	}
	return fmt.Sprintf(" (known: %s)", strings.Join(known, ", "))
}
