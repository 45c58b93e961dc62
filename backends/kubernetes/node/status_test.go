package node

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tlspu/keel/api/v1alpha1"
)

func TestCut(t *testing.T) {
	for _, tt := range []struct{ name, give, want string }{
		{"short", "in order", "in order"},
		{"as long as may be", strings.Repeat("a", 256), strings.Repeat("a", 256)},
		{"one byte more", strings.Repeat("a", 257), strings.Repeat("a", 253) + "…"},
		{"inside a letter", strings.Repeat("ü", 200), strings.Repeat("ü", 126) + "…"},
		{"inside a wide letter", strings.Repeat("😀", 100), strings.Repeat("😀", 63) + "…"},
		{"no text", "a\xff", "a\uFFFD"},
		{"what steers a terminal", "a\x1b[2Jb\rc\u202ed\te\nf", `a\x1b[2Jb\rc\u202ed e f`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := cut(tt.give, v1alpha1.MaxMessage)
			if got != tt.want || len(got) > v1alpha1.MaxMessage || !utf8.ValidString(got) {
				t.Errorf("cut = %q (%d bytes), want %q", got, len(got), tt.want)
			}
		})
	}
}

func TestNews(t *testing.T) {
	good := v1alpha1.NodeStatus{LastResult: v1alpha1.Success, Changed: true, Message: "configuration applied", ObservedGeneration: 1, TriggerDigest: "a"}
	bad := v1alpha1.NodeStatus{LastResult: v1alpha1.Error, Message: "disk full", ObservedGeneration: 1, TriggerDigest: "a"}
	idle := good
	idle.Changed, idle.Message = false, "configuration in place"
	with := func(s v1alpha1.NodeStatus, f func(*v1alpha1.NodeStatus)) v1alpha1.NodeStatus { f(&s); return s }
	for _, tt := range []struct {
		name      string
		before, s v1alpha1.NodeStatus
		want      bool
	}{
		{"nothing to do after a change", good, idle, false},
		{"nothing to do again", idle, idle, false},
		{"another change", good, good, true},
		{"a failure", idle, bad, true},
		{"the same failure", bad, bad, false},
		{"another failure", bad, with(bad, func(s *v1alpha1.NodeStatus) { s.Message = "read-only" }), true},
		{"recovered", bad, idle, true},
		{"another generation", idle, with(idle, func(s *v1alpha1.NodeStatus) { s.ObservedGeneration = 2 }), true},
		{"another digest", idle, with(idle, func(s *v1alpha1.NodeStatus) { s.TriggerDigest = "b" }), true},
		{"a pending restart", idle, with(idle, func(s *v1alpha1.NodeStatus) { s.RestartPending = true }), true},
		{"suspended no more", with(idle, func(s *v1alpha1.NodeStatus) { s.Message = "suspended" }), idle, true},
	} {
		if got := news(tt.before, tt.s); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
