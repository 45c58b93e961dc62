package plugin

import "testing"

func TestNearest(t *testing.T) {
	keys := []string{"content", "contentBase64", "group", "link", "mode", "owner", "path"}
	tests := []struct{ name, give, want string }{
		{"letters swapped", "onwer", "owner"},
		{"letter missing", "grup", "group"},
		{"letter too much", "contents", "content"},
		{"letter changed", "mods", "mode"},
		{"another case", "contentbase64", "contentBase64"},
		{"the same", "link", "link"},
		{"nothing alike", "recurse", ""},
		{"short and different", "uid", ""},
		{"empty", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Nearest(tt.give, keys); got != tt.want {
				t.Errorf("Nearest(%q) = %q, want %q", tt.give, got, tt.want)
			}
		})
	}
	for give, want := range map[string]string{"mdoe": "mode", "mo": "mode", "m": "", "contents64": "", "zz": ""} {
		if got := Typo(give, keys); got != want {
			t.Errorf("Typo(%q) = %q, want %q", give, got, want)
		}
	}
	if got := Nearest("anything", nil); got != "" {
		t.Errorf("Nearest among none = %q", got)
	}
}
