package render

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// eq reports whether a value equals one of others of its kind.
func (r *Run) eq(v any, others ...any) (bool, error) {
	if len(others) == 0 {
		return false, failure("eq", "there is nothing to compare with")
	}
	for _, other := range others {
		if same, err := r.same("eq", v, other); err != nil || same {
			return same, err
		}
	}
	return false, nil
}

func (r *Run) ne(v, other any) (bool, error) {
	same, err := r.same("ne", v, other)
	return !same, err
}

func (r *Run) same(function string, a, b any) (bool, error) {
	_, ok := scalar(a)
	if !ok || kind(a) != kind(b) {
		return false, failure(function, "%s and %s cannot be compared", kind(a), kind(b))
	}
	if isNumber(a) {
		return number(a) == number(b), nil
	}
	s, _ := a.(string)
	return a == b, r.spend(len(s))
}

// ordered makes a function that compares two numbers. Texts have no order here:
// "9" would come after "10".
func (r *Run) ordered(name string) func(a, b any) (bool, error) {
	return func(a, b any) (bool, error) {
		if !isNumber(a) || !isNumber(b) {
			return false, failure(name, "%s and %s have no order: compare numbers, which int makes of text", kind(a), kind(b))
		}
		x, y := number(a), number(b)
		switch name {
		case "lt":
			return x < y, nil
		case "le":
			return x <= y, nil
		case "gt":
			return x > y, nil
		}
		return x >= y, nil
	}
}

func isNumber(v any) bool { return kind(v) == "a number" }

// number is a number as one that can be compared with any other.
func number(v any) float64 {
	switch v := v.(type) {
	case int:
		return float64(v)
	case float64:
		return v
	}
	return 0
}

// len counts the bytes of a text, or what is in a list or a mapping.
func (r *Run) len(v any) (int, error) {
	switch v := v.(type) {
	case string:
		return len(v), nil
	case []string:
		return len(v), nil
	case []map[string]string:
		return len(v), nil
	case map[string]string:
		return len(v), nil
	case *object:
		return len(v.values()), nil
	}
	return 0, failure("len", "%s has no length", kind(v))
}

// index gives a part of a list by its number from 0, or of a mapping by its key;
// with several, part by part.
func (r *Run) index(v any, keys ...any) (any, error) {
	for _, key := range keys {
		name, isName := key.(string)
		n, isNumber := key.(int)
		switch list := v.(type) {
		case parts, map[string]string:
			if !isName {
				return nil, failure("index", "%s has no part by the number", kind(v))
			}
			part, err := r.field(list, name)
			if err != nil {
				return nil, failure("index", "%v", err)
			}
			v = part
		case []string:
			if !isNumber || n < 0 || n >= len(list) {
				return nil, failure("index", "the list has no such part, only 0 to %d", len(list)-1)
			}
			v = list[n]
		case []map[string]string:
			if !isNumber || n < 0 || n >= len(list) {
				return nil, failure("index", "the list has no such part, only 0 to %d", len(list)-1)
			}
			v = list[n]
		default:
			return nil, failure("index", "%s has no parts", kind(v))
		}
	}
	return v, nil
}

// hasKey says whether a mapping has a key, a group of facts a value, or a
// NodeConfig the optional ConfigMap or Secret. A fact that is not known is an
// error: nobody can say.
func (r *Run) hasKey(v any, key string) (bool, error) {
	switch v := v.(type) {
	case parts:
		return v.has(key)
	case map[string]string:
		_, ok := v[key]
		return ok, nil
	}
	return false, failure("hasKey", "%s has no keys", kind(v))
}

// plain is a value without types of ours, for encoders.
func (r *Run) plain(function string, v any) (any, error) {
	size, valid := 0, true
	count := func(s string) {
		size, valid = add(size, 16+len(s)), valid && utf8.ValidString(s)
	}
	countMap := func(m map[string]string) {
		for key, value := range m {
			count(key)
			count(value)
		}
	}
	switch list := v.(type) {
	case []string:
		for _, s := range list {
			count(s)
		}
	case []map[string]string:
		for _, m := range list {
			countMap(m)
		}
	case map[string]string:
		countMap(list)
	case *object:
		v = list.values()
		countMap(list.values())
	default:
		s, ok := scalar(v)
		if !ok {
			return nil, failure(function, "%s cannot be encoded", kind(v))
		}
		count(s)
	}
	switch {
	case !valid:
		return nil, failure(function, "a text in it is not UTF-8")
	case size > MaxOutput:
		return nil, tooLong(function)
	}
	return v, r.spend(size)
}

// toJSON writes a value as JSON.
func (r *Run) toJSON(v any) (string, error) {
	v, err := r.plain("toJson", v)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return "", failure("toJson", "the value cannot be encoded")
	}
	return r.give("toJson", string(bytes.TrimSuffix(b.Bytes(), []byte("\n"))))
}

// toYAML writes a value as YAML, without the line end.
func (r *Run) toYAML(v any) (string, error) {
	v, err := r.plain("toYaml", v)
	if err != nil {
		return "", err
	}
	b, err := yaml.Marshal(v)
	if err != nil {
		return "", failure("toYaml", "the value cannot be encoded")
	}
	return r.give("toYaml", string(bytes.TrimSuffix(b, []byte("\n"))))
}
