package drift

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPath_segmentsKeepTheirDots(t *testing.T) {
	a, b := Path{"users", "a.b"}, Path{"users", "a", "b"}
	if a.String() != b.String() {
		t.Errorf("for people both read the same: %q, %q", a, b)
	}
	if a.key() == b.key() {
		t.Error("two paths share one key")
	}
}

func TestPath_Covers(t *testing.T) {
	tests := []struct {
		p, q Path
		want bool
	}{
		{nil, Path{"a"}, true},
		{nil, nil, true},
		{Path{"a"}, Path{"a"}, true},
		{Path{"a"}, Path{"a", "b"}, true},
		{Path{"a", "b"}, Path{"a"}, false},
		{Path{"a"}, Path{"ab"}, false},
		{Path{"a.b"}, Path{"a", "b"}, false},
	}
	for _, tt := range tests {
		if got := tt.p.Covers(tt.q); got != tt.want {
			t.Errorf("%q covers %q: %v, want %v", []string(tt.p), []string(tt.q), got, tt.want)
		}
	}
}

func FuzzPath_keyIsUnique(f *testing.F) {
	f.Add("a", "b", "a.b", "")
	f.Add("1:a", "", "1", "a")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		for _, pair := range [][2]Path{{{a, b}, {c, d}}, {{a, b}, {c}}, {{a}, {c, d}}} {
			same := len(pair[0]) == len(pair[1]) && pair[0].Covers(pair[1])
			if (pair[0].key() == pair[1].key()) != same {
				t.Errorf("keys of %q and %q: %q, %q", []string(pair[0]), []string(pair[1]), pair[0].key(), pair[1].key())
			}
		}
	})
}

func TestCanon(t *testing.T) {
	secret := NewSecret([]byte("x"))
	tests := []struct {
		name     string
		in, want any
	}{
		{"nil", nil, nil},
		{"string", "a", "a"},
		{"int", 1, int64(1)},
		{"int32", int32(-1), int64(-1)},
		{"uint64", uint64(7), int64(7)},
		{"bool", true, true},
		{"float32", float32(0.5), 0.5},
		{"float64", 2.0, 2.0},
		{"list", []string{"a"}, []string{"a"}},
		{"list of any", []any{"a", 1, true, 0.5}, []string{"a", "1", "true", "0.5"}},
		{"nil list", []string(nil), []string{}},
		{"empty list of any", []any{}, []string{}},
		{"secret", secret, secret},
		{"unknown", Unknown{Timeout, "r"}, Unknown{Timeout, "r"}},
		{"huge", uint64(math.MaxUint64), Unknown{Bug, "the number 18446744073709551615 is too large to be compared"}},
		{"nan", math.NaN(), Unknown{Bug, "a value that is not a number (NaN) cannot be compared"}},
		{"map", map[string]any{}, Unknown{Bug, "a value of type map[string]interface {} cannot be compared"}},
		{"time", time.Time{}, Unknown{Bug, "a value of type time.Time cannot be compared"}},
		{"nil in list", []any{"a", nil}, Unknown{Bug, "item 1 of a list is of type <nil>, not a plain value"}},
		{"list in list", []any{[]any{"a"}}, Unknown{Bug, "item 0 of a list is of type []interface {}, not a plain value"}},
		{"secret in list", []any{secret}, Unknown{Bug, "item 0 of a list is of type drift.Secret, not a plain value"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Canon(tt.in)
			if !equal(got, tt.want) {
				t.Errorf("got %#v, want %#v", got, tt.want)
			}
			if again := Canon(got); !equal(again, got) {
				t.Errorf("Canon of the result is %#v", again)
			}
		})
	}
}

func TestText(t *testing.T) {
	tests := []struct {
		in   any
		want string
	}{
		{nil, "nothing"},
		{"", ""},
		{true, "true"},
		{3306, "3306"},
		{2.5, "2.5"},
		{[]string{"a", "b"}, "a, b"},
		{[]any{}, "(empty)"},
		{NewSecret([]byte("hunter2")), "(withheld)"},
		{Unknown{Timeout, "timed out after 10 s"}, "timed out after 10 s"},
	}
	for _, tt := range tests {
		if got := Text(tt.in); got != tt.want {
			t.Errorf("Text(%v) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestSecret_isNeverShown(t *testing.T) {
	const value = "hunter2"
	s := NewSecret([]byte(value))
	leaf := Leaf{Path: Path{"password"}, Value: s, Shown: s}
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%T"} {
		fmt.Fprintf(&out, verb+" "+verb+" "+verb+"\n", s, &s, leaf)
	}
	j, err := json.Marshal(map[string]any{"s": s, "p": &s, "leaf": leaf})
	if err != nil {
		t.Fatal(err)
	}
	out.Write(j)
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("x", "s", s, "leaf", leaf, "state", State{leaf})
	}
	if got := out.String(); strings.Contains(got, value) || strings.Contains(got, fmt.Sprintf("%x", s.digest[:4])) {
		t.Errorf("shown: %s", got)
	}
	if !bytes.Contains(j, []byte("(withheld)")) {
		t.Errorf("JSON holds no mark: %s", j)
	}
}

func TestSecret_compares(t *testing.T) {
	a, again, b := NewSecret([]byte("a")), NewSecret([]byte("a")), NewSecret([]byte("b"))
	if a != again {
		t.Error("equal values differ")
	}
	if a == b {
		t.Error("different values are equal")
	}
}

func FuzzCanon(f *testing.F) {
	f.Add(`{"a":[1,"b",null,2.5,true,{"c":[]}]}`)
	f.Fuzz(func(t *testing.T, doc string) {
		var v any
		if json.Unmarshal([]byte(doc), &v) != nil {
			return
		}
		got := Canon(v)
		switch got.(type) {
		case nil, string, bool, int64, float64, []string, Unknown:
		default:
			t.Errorf("%T is not a legal form", got)
		}
		if diff := cmp.Diff(got, Canon(got)); diff != "" {
			t.Error(diff)
		}
	})
}
