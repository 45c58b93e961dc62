package drift

import (
	"fmt"
	"strings"
	"testing"
)

// list writes a report as lines, so that a table reads like its specification.
func list(r Report) string {
	var b strings.Builder
	for _, f := range r {
		fmt.Fprintf(&b, "%s: %s", f.Path, f.Verdict)
		if f.Declared != nil || f.Observed != nil || f.Verdict == Same || f.Verdict == Drift {
			fmt.Fprintf(&b, " %s/%s", Text(f.Declared), Text(f.Observed))
		}
		if f.Reason != "" {
			fmt.Fprintf(&b, " (%s)", f.Reason)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func at(path string, v any) Leaf { return Leaf{Path: strings.Split(path, "/"), Value: v} }

func TestCompare(t *testing.T) {
	tests := []struct {
		name               string
		declared, observed State
		want               string
	}{
		{"same and drift", State{at("a", "x"), at("b", 1)}, State{at("b", int64(1)), at("a", "y")}, "a: drift x/y\nb: same 1/1\n"},
		{"nil is an answer", State{at("a", nil), at("b", "x")}, State{at("a", nil), at("b", nil)}, "a: same nothing/nothing\nb: drift x/nothing\n"},
		{"nil is not the empty list", State{at("a", nil)}, State{at("a", []string{})}, "a: drift nothing/(empty)\n"},
		{"no answer is unknown", State{at("a", "x")}, nil, "a: unknown x/nothing (not observed)\n"},
		{"unknown leaf", State{at("a", "x")}, State{at("a", Unknown{Timeout, "timed out"})}, "a: unknown x/nothing (timed out)\n"},
		{
			"the longest prefix answers",
			State{at("a/b/c", "x"), at("a/d", "y"), at("e", "z")},
			State{{Value: Unknown{Absent, "no machine"}}, at("a", Unknown{Permission, "root only"}), at("a/b", Unknown{Malformed, "line 3"})},
			"a.b.c: unknown x/nothing (line 3)\na.d: unknown y/nothing (root only)\ne: unknown z/nothing (no machine)\n",
		},
		{
			"a value is compared although its prefix is unknown",
			State{at("a/b", "x")},
			State{at("a", Unknown{Malformed, "line 3"}), at("a/b", "x"), at("a/b", Unknown{Malformed, "line 4"})},
			"a.b: same x/x\n",
		},
		{"a prefix is no text prefix", State{at("ab", "x")}, State{at("a", Unknown{Timeout, "t"})}, "ab: unknown x/nothing (not observed)\n"},
		{"dots in a segment", State{at("a.b", "x")}, State{at("a/b", "x")}, "a.b: unknown x/nothing (not observed)\na.b: not declared nothing/x\n"},
		{
			"reasons join",
			State{at("a", "x")},
			State{at("a", Unknown{Absent, "no file"}), at("a", Unknown{Absent, "no file"}), at("a", Unknown{Timeout, "no answer"})},
			"a: unknown x/nothing (no file; no answer)\n",
		},
		{
			"a reader that contradicts itself has not answered",
			State{at("a", "x")},
			State{at("a", "x"), at("a", "y"), at("a", "x")},
			"a: unknown x/nothing (observed twice, with different values)\n",
		},
		{"said twice alike", State{at("a", "x")}, State{at("a", "x"), at("a", "x")}, "a: same x/x\n"},
		{
			"undeclared, in observed order, once",
			State{at("b", "x")},
			State{at("z", "1"), at("b", "x"), at("a", "2"), at("z", "1"), at("n", nil), at("u", Unknown{Timeout, "t"})},
			"b: same x/x\nz: not declared nothing/1\na: not declared nothing/2\n",
		},
		{
			"skip shows both values",
			State{at("a", Skip{Value: "x", Reason: "off"})},
			State{at("a", "y")},
			"a: not compared x/y (off)\n",
		},
		{
			"skip with withhold shows none, nor what lies below",
			State{at("a", Skip{Value: "x", Reason: "channels", Withhold: true})},
			State{at("a", "y"), at("a/url", "https://token@host")},
			"a: not compared (channels)\n",
		},
		{"skip hides no unknown value", State{at("a", Skip{Reason: "off"})}, State{at("a", Unknown{Timeout, "t"})}, "a: not compared (off)\n"},
		{
			"a reader withholds an undeclared leaf",
			nil,
			State{at("a", Skip{Value: "x", Reason: "channels", Withhold: true}), at("b", Skip{Value: "y", Reason: "off"})},
			"a: not compared (channels)\nb: not compared nothing/y (off)\n",
		},
		{
			"a reader cannot excuse a declared leaf",
			State{at("a", "x")},
			State{at("a", Skip{Reason: "no"})},
			"a: unknown x/nothing (its reader does not answer: no)\n",
		},
		{
			"a declared value that cannot be compared",
			State{at("a", map[string]int{})},
			State{at("a", "x")},
			"a: unknown (a value of type map[string]int cannot be compared)\n",
		},
		{"secrets", State{at("a", NewSecret([]byte("1"))), at("b", NewSecret([]byte("1")))}, State{at("a", NewSecret([]byte("1"))), at("b", NewSecret([]byte("2")))}, "a: same (withheld)/(withheld)\nb: drift (withheld)/(withheld)\n"},
		{
			"compared in one form, shown as each side spells it",
			State{{Path: Path{"a"}, Value: "2001:db8::1", Shown: "2001:DB8::1"}, {Path: Path{"b"}, Value: "x", Shown: "X"}},
			State{{Path: Path{"a"}, Value: "2001:db8::1", Shown: "2001:db8:0::1"}, {Path: Path{"b"}, Value: "y", Shown: "Y"}, {Path: Path{"c"}, Value: "z", Shown: "Z"}},
			"a: same 2001:DB8::1/2001:db8:0::1\nb: drift X/Y\nc: not declared nothing/Z\n",
		},
		{"types are not mixed", State{at("a", "1"), at("b", 2)}, State{at("a", 1), at("b", 2.0)}, "a: drift 1/1\nb: drift 2/2\n"},
		{"a list is no string", State{at("a", []string{"x"}), at("b", "x")}, State{at("a", "x"), at("b", []string{"x"})}, "a: drift x/x\nb: drift x/x\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := list(Compare(tt.declared, tt.observed)); got != tt.want {
				t.Errorf("got:\n%swant:\n%s", got, tt.want)
			}
		})
	}
}

func TestCompare_withoutAnswerNeverSameNorDrift(t *testing.T) {
	full := State{at("a", "x"), at("b", []string{"y"}), at("c/d", true), at("e", nil)}
	for i := range full {
		observed := append(append(State{}, full[:i]...), full[i+1:]...)
		for j, f := range Compare(full, observed) {
			want := Same
			if j == i {
				want = NotRead
			}
			if f.Verdict != want {
				t.Errorf("without %s: %s is %s, want %s", full[i].Path, f.Path, f.Verdict, want)
			}
		}
	}
}

func BenchmarkCompare(b *testing.B) {
	var s State
	for i := range 1000 {
		s = append(s, Leaf{Path: Path{"section", fmt.Sprint(i)}, Value: fmt.Sprint(i)})
	}
	for b.Loop() {
		Compare(s, s)
	}
}

func TestCompare_onlyDriftIsNoted(t *testing.T) {
	observed := State{{Path: Path{"a"}, Value: "x", Note: "destroys"}, {Path: Path{"b"}, Value: "y", Note: "destroys"}, {Path: Path{"c"}, Value: "z", Note: "destroys"}}
	var got []string
	for _, f := range Compare(State{at("a", "x"), at("b", "x")}, observed) {
		got = append(got, f.Path.String()+"="+f.Note)
	}
	if want := "a= b=destroys c="; strings.Join(got, " ") != want {
		t.Errorf("notes %q, want %q", got, want)
	}
}

func TestReport_At(t *testing.T) {
	r := Compare(State{at("a/b", "x"), at("a.b", "y")}, nil)
	for _, leaf := range []Leaf{at("a/b", "x"), at("a.b", "y")} {
		if f, ok := r.At(leaf.Path); !ok || f.Declared != leaf.Value {
			t.Errorf("at %q: %+v, %v", []string(leaf.Path), f, ok)
		}
	}
	if f, ok := r.At(Path{"a"}); ok {
		t.Errorf("found %+v", f)
	}
}
