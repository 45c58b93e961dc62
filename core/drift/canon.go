package drift

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Canon brings a value to one of the legal forms: integers to int64, float32 to
// float64, lists of strings and other scalars to []string, a list that is nil to
// the empty list. A value that has no legal form is an Unknown of kind Bug. Canon
// of a legal value is that value.
func Canon(v any) any {
	switch v := v.(type) {
	case nil, string, bool, int64, Secret, Unknown, Skip:
		return v
	case float64:
		return canonFloat(v)
	case float32:
		return canonFloat(float64(v))
	case int:
		return int64(v)
	case int8:
		return int64(v)
	case int16:
		return int64(v)
	case int32:
		return int64(v)
	case uint8:
		return int64(v)
	case uint16:
		return int64(v)
	case uint32:
		return int64(v)
	case uint:
		return canonUint(uint64(v))
	case uint64:
		return canonUint(v)
	case []string:
		if v == nil {
			return []string{}
		}
		return v
	case []any:
		return canonList(v)
	}
	return Unknown{Bug, fmt.Sprintf("a value of type %T cannot be compared", v)}
}

// canonFloat refuses NaN, which is not even equal to itself.
func canonFloat(f float64) any {
	if math.IsNaN(f) {
		return Unknown{Bug, "a value that is not a number (NaN) cannot be compared"}
	}
	return f
}

func canonUint(u uint64) any {
	if u > math.MaxInt64 {
		return Unknown{Bug, fmt.Sprintf("the number %d is too large to be compared", u)}
	}
	return int64(u)
}

func canonList(list []any) any {
	out := make([]string, 0, len(list))
	for i, item := range list {
		switch c := Canon(item).(type) {
		case string:
			out = append(out, c)
		case bool, int64, float64:
			out = append(out, Text(c))
		default:
			return Unknown{Bug, fmt.Sprintf("item %d of a list is of type %T, not a plain value", i, item)}
		}
	}
	return out
}

// Text is a value as it is shown to people: "nothing" for nil, list items joined
// by ", ", "(empty)" for an empty list, "(withheld)" for a Secret, the reason of
// an Unknown or a Skip.
func Text(v any) string {
	switch v := Canon(v).(type) {
	case nil:
		return "nothing"
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case []string:
		if len(v) == 0 {
			return "(empty)"
		}
		return strings.Join(v, ", ")
	case Secret:
		return v.String()
	case Unknown:
		return v.Reason
	case Skip:
		return v.Reason
	}
	return "" // unreachable: Canon returns nothing else
}

// equal compares two canonical values.
func equal(a, b any) bool {
	switch a := a.(type) {
	case []string:
		b, ok := b.([]string)
		return ok && slices.Equal(a, b)
	case Skip:
		return false
	}
	return a == b
}
