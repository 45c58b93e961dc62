package cli

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// setting is one exported field of a settings struct: a flag, an environment
// variable and a key of the settings file.
type setting struct {
	name  string // of the flag and the key
	short string // one letter, or none
	usage string
	env   []string // variables, the first that is set counts
	enum  []string // legal values; nil: any
	value reflect.Value
}

// Annotations of a flag, from which the reference is made.
const annotationEnv = "keel-env"

// settingsOf lists the fields of settings structs, embedded ones included, in
// their order. section is the subcommand, "node-agent" or "spec-apply". A field
// without a flag tag is none. Tags:
//
//	flag:"output" short:"o" usage:"text or json" enum:"text|json" env:"KEEL_OUTPUT"
//
// A struct that cannot be used is a mistake in the program: it panics.
func settingsOf(section string, structs ...any) []setting {
	var list []setting
	for _, s := range structs {
		if s == nil {
			continue
		}
		v := reflect.ValueOf(s)
		if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
			panic(fmt.Sprintf("cli: settings of %s are a %T, want a pointer to a struct", section, s))
		}
		list = walk(list, section, v.Elem())
	}
	return list
}

func walk(list []setting, section string, v reflect.Value) []setting {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if field.Anonymous && field.Type.Kind() == reflect.Struct {
			list = walk(list, section, v.Field(i))
			continue
		}
		name := field.Tag.Get("flag")
		if name == "" {
			continue
		}
		s := setting{
			name:  name,
			short: field.Tag.Get("short"),
			usage: field.Tag.Get("usage"),
			env:   []string{variable(section, name)},
			value: v.Field(i),
		}
		if more := field.Tag.Get("env"); more != "" {
			s.env = append(s.env, more)
		}
		if enum := field.Tag.Get("enum"); enum != "" {
			s.enum = strings.Split(enum, "|")
		}
		list = append(list, s)
	}
	return list
}

// variable is the environment variable of a flag: KEEL_NODE_AGENT_CONFIG_DIR.
func variable(section, flag string) string {
	return "KEEL_" + strings.ToUpper(strings.ReplaceAll(section+"_"+flag, "-", "_"))
}

// addFlags gives cmd a flag for each setting; its default is the setting's
// present value.
func addFlags(cmd *cobra.Command, settings []setting) {
	for _, s := range settings {
		usage := s.usage
		if s.enum != nil {
			usage += " (" + strings.Join(s.enum, ", ") + ")"
		}
		flags := cmd.Flags()
		switch v := s.value.Interface().(type) {
		case string:
			flags.StringP(s.name, s.short, v, usage)
		case bool:
			flags.BoolP(s.name, s.short, v, usage)
		case int:
			flags.IntP(s.name, s.short, v, usage)
		case time.Duration:
			flags.DurationP(s.name, s.short, v, usage)
		case []string:
			flags.StringArrayP(s.name, s.short, v, usage)
		default:
			panic(fmt.Sprintf("cli: setting %s is a %T: not a kind of setting", s.name, v))
		}
		_ = flags.SetAnnotation(s.name, annotationEnv, s.env) // the flag exists
		if s.enum != nil {
			_ = cmd.RegisterFlagCompletionFunc(s.name, cobra.FixedCompletions(s.enum, cobra.ShellCompDirectiveNoFileComp))
		}
	}
}

// set gives the setting a value as a flag, the environment or a file holds it:
// text from the first two, what YAML made of it from the last.
func (s setting) set(raw any) error {
	value, err := s.convert(raw)
	if err != nil {
		return err
	}
	unset := s.value.Interface() // the default, which may say that none of them is chosen
	if text, ok := value.(string); ok && s.enum != nil && value != unset && !slices.Contains(s.enum, text) {
		return fmt.Errorf("must be one of %s, not %q", strings.Join(s.enum, ", "), text)
	}
	s.value.Set(reflect.ValueOf(value))
	return nil
}

// convert brings raw to the type of the setting and guesses nothing.
func (s setting) convert(raw any) (any, error) {
	text, isText := raw.(string)
	switch s.value.Interface().(type) {
	case string:
		if isText {
			return text, nil
		}
		return nil, fmt.Errorf("must be text, not %s", describe(raw))
	case bool:
		if b, ok := raw.(bool); ok {
			return b, nil
		}
		if b, err := strconv.ParseBool(text); isText && err == nil {
			return b, nil
		}
		return nil, fmt.Errorf("must be true or false, not %s", describe(raw))
	case int:
		if n, ok := raw.(int); ok {
			return n, nil
		}
		if n, err := strconv.Atoi(text); isText && err == nil {
			return n, nil
		}
		return nil, fmt.Errorf("must be a whole number, not %s", describe(raw))
	case time.Duration:
		d, ok := raw.(time.Duration)
		if !ok {
			var err error
			d, err = time.ParseDuration(text)
			ok = isText && err == nil
		}
		switch {
		case !ok:
			return nil, fmt.Errorf("must be a duration such as 30s or 5m, not %s", describe(raw))
		case d < 0:
			return nil, fmt.Errorf("must not be negative, not %s", d)
		}
		return d, nil
	}
	return filled(texts(raw))
}

// filled refuses an empty text in a list: it names nothing.
func filled(list []string, err error) ([]string, error) {
	if i := slices.Index(list, ""); i >= 0 {
		return nil, fmt.Errorf("must be a list of texts; item %d is empty", i+1)
	}
	return list, err
}

// texts brings a list to []string. Text is a list separated by commas: it comes
// from the environment.
func texts(raw any) ([]string, error) {
	switch list := raw.(type) {
	case []string:
		return list, nil
	case string:
		return strings.Split(list, ","), nil
	case []any:
		values := make([]string, len(list))
		for i, item := range list {
			text, ok := item.(string)
			if !ok {
				return nil, fmt.Errorf("must be a list of texts; item %d is %s", i+1, describe(item))
			}
			values[i] = text
		}
		return values, nil
	}
	return nil, fmt.Errorf("must be a list of texts, not %s", describe(raw))
}

// describe names a value of a settings file in a message.
func describe(raw any) string {
	switch v := raw.(type) {
	case string:
		return strconv.Quote(v)
	case bool, int, int64, uint64, float64:
		return fmt.Sprint(v)
	case []any:
		return "a list"
	case map[string]any, map[any]any:
		return "a mapping"
	}
	return fmt.Sprintf("a %T", raw)
}

// changed reports whether the flag was given on the command line.
func changed(flags *pflag.FlagSet, name string) bool {
	f := flags.Lookup(name)
	return f != nil && f.Changed
}
