package plugin

import "testing"

func TestPrintable(t *testing.T) {
	tests := []struct{ name, give, want string }{
		{"plain", "größer 日本 \U0001f600", "größer 日本 \U0001f600"},
		{"escape", "\x1b[31m", `\x1b[31m`},
		{"line ends", "a\nb\r\tc", `a\nb\r\tc`},
		{"C1", "\u009b31m", `\u009b31m`},
		{"turned round", "\u202eabc", `\u202eabc`},
		{"not UTF-8", "a\xffb", `a\xffb`},
		{"the replacement itself", "a\ufffdb", "a\ufffdb"},
		{"quotes and backslashes stay", `a"b\c`, `a"b\c`},
		{"empty", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Printable(tt.give); got != tt.want {
				t.Errorf("Printable(%q) = %q, want %q", tt.give, got, tt.want)
			}
		})
	}
}
