package render

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"unicode/utf8"
)

// Functions lists the names of the functions that templates may use.
func Functions() []string {
	names := append(slices.Collect(maps.Keys(New(Data{}).callable)), "and", "or", "not")
	slices.Sort(names)
	return names
}

// functions are those of ours. Each fails on what it was not made for: a wrong
// kind of value, text that cannot be read, a result that is too long. None shows a
// value in an error, sleeps, or knows time, chance or the environment.
func (r *Run) functions() template.FuncMap {
	return template.FuncMap{
		"eq": r.eq, "ne": r.ne, "lt": r.ordered("lt"), "le": r.ordered("le"), "gt": r.ordered("gt"), "ge": r.ordered("ge"),
		"len": r.len, "index": r.index, "hasKey": r.hasKey, "split": r.split, "join": r.join,
		"default": r.orElse, "required": r.required, "fail": r.fail, "int": r.int,
		"print": r.print, "printf": r.printf, "quote": r.quote, "toJson": r.toJSON, "toYaml": r.toYAML,
		"upper": r.text("upper", strings.ToUpper), "lower": r.text("lower", strings.ToLower), "trim": r.text("trim", strings.TrimSpace),
		"trimPrefix": r.trimPrefix, "trimSuffix": r.trimSuffix, "replace": r.replace, "indent": r.indent, "nindent": r.nindent,
		"contains": r.asks(strings.Contains), "hasPrefix": r.asks(strings.HasPrefix), "hasSuffix": r.asks(strings.HasSuffix),
		"b64enc": r.text("b64enc", func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }), "b64dec": r.b64dec,
		"sha256sum": r.text("sha256sum", func(s string) string {
			sum := sha256.Sum256([]byte(s))
			return hex.EncodeToString(sum[:])
		}),
	}
}

// give is a text that a function made.
func (r *Run) give(function, s string) (string, error) {
	if len(s) > MaxOutput {
		return "", tooLong(function)
	}
	return s, r.spend(len(s))
}

// text makes a function of one text and one result, which grows little.
func (r *Run) text(name string, f func(string) string) func(string) (string, error) {
	return func(s string) (string, error) {
		if err := r.spend(len(s)); err != nil {
			return "", err
		}
		return r.give(name, f(s))
	}
}

// asks makes a function that looks for a part, given first, in a text.
func (r *Run) asks(f func(s, part string) bool) func(part, s string) (bool, error) {
	return func(part, s string) (bool, error) { return f(s, part), r.spend(len(part) + len(s)) }
}

func (r *Run) trimPrefix(prefix, s string) (string, error) {
	return r.give("trimPrefix", strings.TrimPrefix(s, prefix))
}

func (r *Run) trimSuffix(suffix, s string) (string, error) {
	return r.give("trimSuffix", strings.TrimSuffix(s, suffix))
}

func (r *Run) replace(old, with, s string) (string, error) {
	if old == "" {
		return "", failure("replace", "the text to replace is empty")
	}
	n := strings.Count(s, old)
	if add(len(s)-n*len(old), times(n, len(with))) > MaxOutput {
		return "", tooLong("replace")
	}
	if err := r.spend(len(s)); err != nil {
		return "", err
	}
	return r.give("replace", strings.ReplaceAll(s, old, with))
}

// indent puts n spaces before every line.
func (r *Run) indent(n int, s string) (string, error) { return r.indented("indent", "", n, s) }

// nindent does so on a new line.
func (r *Run) nindent(n int, s string) (string, error) { return r.indented("nindent", "\n", n, s) }

func (r *Run) indented(name, start string, n int, s string) (string, error) {
	if n < 0 {
		return "", failure(name, "the number of spaces is less than none")
	}
	if add(len(start)+len(s), times(n, 1+strings.Count(s, "\n"))) > MaxOutput {
		return "", tooLong(name)
	}
	pad := strings.Repeat(" ", n)
	return r.give(name, start+pad+strings.ReplaceAll(s, "\n", "\n"+pad))
}

func (r *Run) b64dec(s string) (string, error) {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return "", failure("b64dec", "the text is no base64 (standard alphabet, with padding)")
	}
	return r.give("b64dec", string(b))
}

// quote puts a value into double quotes, as YAML and Go read them.
func (r *Run) quote(v any) (string, error) {
	s, ok := scalar(v)
	if !ok {
		return "", failure("quote", "%s cannot be quoted", kind(v))
	}
	if !utf8.ValidString(s) {
		return "", failure("quote", "the text is not UTF-8")
	}
	return r.give("quote", strconv.Quote(s))
}

// split gives the parts of a text between separators.
func (r *Run) split(separator, s string) ([]string, error) {
	if separator == "" {
		return nil, failure("split", "the separator is empty")
	}
	if err := r.spend(add(len(s), times(16, strings.Count(s, separator)))); err != nil {
		return nil, err
	}
	return strings.Split(s, separator), nil
}

func (r *Run) join(separator string, list []string) (string, error) {
	size := times(len(list), len(separator))
	for _, s := range list {
		size = add(size, len(s))
	}
	if size > add(MaxOutput, len(separator)) {
		return "", tooLong("join")
	}
	return r.give("join", strings.Join(list, separator))
}

// orElse is the value, or where that is an empty text the other.
func (r *Run) orElse(other, value string) string {
	if value == "" {
		return other
	}
	return value
}

// required is the value, unless it is empty.
func (r *Run) required(message string, value any) (any, error) {
	n, err := r.len(value)
	if err != nil {
		n = 1 // a number or a truth value is never empty
	}
	if n == 0 || value == nil {
		return nil, failure("required", "%s", message)
	}
	return value, nil
}

func (r *Run) fail(message string) (string, error) { return "", failure("fail", "%s", message) }

// int reads a whole number, in decimal.
func (r *Run) int(v any) (int, error) {
	switch v := v.(type) {
	case int:
		return v, nil
	case string:
		if n, err := strconv.Atoi(v); err == nil && v[0] != '+' {
			return n, nil
		}
		return 0, failure("int", "the text is no whole number")
	}
	return 0, failure("int", "%s is no whole number", kind(v))
}

// print joins texts, numbers and truth values.
func (r *Run) print(values ...any) (string, error) {
	var b strings.Builder
	for _, v := range values {
		s, ok := scalar(v)
		if !ok {
			return "", failure("print", "%s cannot be printed", kind(v))
		}
		if b.Len()+len(s) > MaxOutput {
			return "", tooLong("print")
		}
		b.WriteString(s)
	}
	return r.give("print", b.String())
}

// maxFormat is the length of the longest format.
const maxFormat = 4 << 10

// verb is what a format may hold beside text.
var verb = regexp.MustCompile(`%(?:%|[-0]?\d{0,2}([sqdxv]))`)

// printf knows the verbs %s %q %d %x %v %% with at most two digits of width. Verbs
// and values must fit.
func (r *Run) printf(format string, values ...any) (string, error) {
	if len(format) > maxFormat {
		return "", failure("printf", "the format is longer than %d bytes", maxFormat)
	}
	rest, size := values, len(format)
	for _, m := range verb.FindAllStringSubmatch(format, -1) {
		if m[1] == "" {
			continue
		}
		if len(rest) == 0 {
			return "", failure("printf", "the format wants more values")
		}
		_, isText := rest[0].(string)
		_, isInt := rest[0].(int)
		s, ok := scalar(rest[0])
		if !ok || m[1] == "d" && !isInt || m[1] == "s" && !isText || m[1] == "q" && !isText || m[1] == "x" && !isText && !isInt {
			return "", failure("printf", "%%%s does not take %s", m[1], kind(rest[0]))
		}
		size, rest = add(size, 100+4*len(s)), rest[1:]
	}
	switch {
	case len(rest) > 0:
		return "", failure("printf", "the format wants fewer values")
	case strings.Contains(verb.ReplaceAllString(format, ""), "%"):
		return "", failure("printf", "the format has a verb that is not known: use %%s %%q %%d %%x %%v %%%%")
	case size > 4*MaxOutput:
		return "", tooLong("printf")
	}
	if err := r.spend(size); err != nil {
		return "", err
	}
	return r.give("printf", fmt.Sprintf(format, values...))
}
