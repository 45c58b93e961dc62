package file

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tlspu/keel/core/host"
)

// etcPasswd holds what real files hold beside plain lines: comments, NIS compat
// lines, blanks, fragments, numbers that are none, two names for one number and
// one name twice.
const etcPasswd = `# kept by hand
root:x:0:0:root:/root:/bin/bash
toor:x:0:0:second name of root:/root:/bin/bash

daemon:x:1:1::/usr/sbin:/usr/sbin/nologin
  spaced:x:7:7::/:/bin/sh
+@admins:x:0:0:::
-mallory:x:0:0:::
+::::::
empty:x::0::/:/bin/sh
minus:x:-1:0::/:/bin/sh
wide:x:4294967295:0::/:/bin/sh
plus:x:+3:0::/:/bin/sh
space:x: 3:0::/:/bin/sh
hex:x:0x3:0::/:/bin/sh
fragment
fragment2:x
:x:9:9::/:/bin/sh
twice:x:20:20::/:/bin/sh
twice:x:21:21::/:/bin/sh
mended:x::0::/:/bin/sh
mended:x:22:22::/:/bin/sh
1000:x:5:5::/:/bin/sh
big:x:4294967294:0::/:/bin/sh
crlf:x:30:30::/:/bin/sh` + "\r\nlast:x:31:31"

func TestAccounts_id(t *testing.T) {
	tests := []struct {
		name    string
		who     string
		want    int
		wantErr string
	}{
		{"the first line", "root", 0, ""},
		{"a plain line", "daemon", 1, ""},
		{"a second name of a number", "toor", 0, ""},
		{"blanks before the name", "spaced", 7, ""},
		{"the first of two lines", "twice", 20, ""},
		{"a damaged line and then a good one", "mended", 22, ""},
		{"the highest number", "big", 4294967294, ""},
		{"a line that ends in CR", "crlf", 30, ""},
		{"the last line without a newline", "last", 31, ""},
		{"a number is itself", "42", 42, ""},
		{"a number that is also a name is the number", "1000", 1000, ""},
		{"an empty number is not 0", "empty", 0, "broken line in /etc/passwd"},
		{"a negative number", "minus", 0, "broken line in /etc/passwd"},
		{"a number with a sign", "plus", 0, "broken line in /etc/passwd"},
		{"a number with a blank", "space", 0, "broken line in /etc/passwd"},
		{"a number in hexadecimal", "hex", 0, "broken line in /etc/passwd"},
		{"the number that means keep", "wide", 0, "broken line in /etc/passwd"},
		{"nobody of that name", "mallory", 0, "is no user in /etc/passwd: create it first"},
		{"a compat line", "+@admins", 0, "is no user"},
		{"a compat line without its sign", "@admins", 0, "is no user"},
		{"a removed compat line", "-mallory", 0, "is no user"},
		{"a fragment", "fragment", 0, "is no user"},
		{"a fragment with a colon", "fragment2", 0, "is no user"},
		{"a comment", "# kept by hand", 0, "is no user"},
		{"no name", "", 0, "is no user"},
		{"a number that is too high", "4294967295", 0, "higher"},
		{"a number far too high", "99999999999999999999", 0, "higher"},
	}
	a := accounts{source: users(), files: "/etc/passwd", text: etcPasswd}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := a.id(tt.who)
			if tt.wantErr == "" {
				if err != nil || got != tt.want {
					t.Errorf("id(%q) = %d, %v, want %d", tt.who, got, err, tt.want)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("id(%q) = %d, %v, want an error with %q", tt.who, got, err, tt.wantErr)
			}
		})
	}
}

func TestAccounts_name(t *testing.T) {
	a := accounts{source: users(), files: "/etc/passwd", text: etcPasswd}
	tests := []struct {
		id   int
		want string
	}{
		{0, "root"},
		{1, "daemon"},
		{20, "twice"},
		{21, "21"}, // its name leads to 20
		{5, "5"},   // its name would be read as the number 1000
		{4242, "4242"},
	}
	for _, tt := range tests {
		if got := a.name(tt.id); got != tt.want {
			t.Errorf("name(%d) = %q, want %q", tt.id, got, tt.want)
		}
		if back, err := a.id(a.name(tt.id)); err != nil || back != tt.id {
			t.Errorf("name(%d) = %q leads to %d, %v", tt.id, a.name(tt.id), back, err)
		}
	}
}

// FuzzAccounts holds that whatever the file says, no name leads to a number
// that its line does not spell out.
func FuzzAccounts(f *testing.F) {
	for line := range strings.Lines(etcPasswd) {
		f.Add(line, strings.Split(line, ":")[0])
	}
	f.Fuzz(func(t *testing.T, text, who string) {
		a := accounts{source: users(), text: text}
		id, err := a.id(who)
		if err == nil && id == 0 && !strings.Contains(text+who, "0") {
			t.Errorf("%q is 0 by %q", who, text)
		}
		if err == nil {
			if back, err := a.id(a.name(id)); err != nil || back != id {
				t.Errorf("%d is called %q, which is %d, %v", id, a.name(id), back, err)
			}
		}
	})
}

// On Flatcar, rpm-ostree and SUSE most accounts are listed below /usr, and /etc has
// the first say.
func TestSource_load(t *testing.T) {
	const own = "root:x:0:\nlocal:x:100:"
	tests := []struct {
		name    string
		files   map[string]string
		who     string
		want    int
		wantErr string
	}{
		{"only in /usr/lib", map[string]string{"etc": own, "usr/lib": "chrony:x:996:\n"}, "chrony", 996, ""},
		{"only in /usr/share/baselayout", map[string]string{"etc": own, "usr/share/baselayout": "systemd-journal:x:248:\n"}, "systemd-journal", 248, ""},
		{"in both, with other numbers", map[string]string{"etc": own, "usr/lib": "local:x:7:\n"}, "local", 100, ""},
		{"no /etc/group", map[string]string{"usr/lib": "chrony:x:996:\n"}, "chrony", 996, ""},
		{"in none", map[string]string{"etc": own, "usr/lib": "chrony:x:996:\n"}, "ntp", 0, "is no group in /etc/group, /usr/lib/group: create it first"},
		{"no file", nil, "ntp", 0, "read /etc/group: no such file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := rooted(t)
			for dir, text := range tt.files {
				check(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
				check(t, os.WriteFile(filepath.Join(root, dir, "group"), []byte(text), 0o600))
			}
			view, err := host.OpenView(root)
			check(t, err)
			defer view.Close() //nolint:errcheck // only read through
			got, err := account{key: "group", text: tt.who, shown: tt.who, from: groups()}.id(view)
			switch {
			case tt.wantErr != "":
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("id = %v, want %s", err, tt.wantErr)
				}
			case err != nil || *got != tt.want:
				t.Errorf("id = %v, %v, want %d", got, err, tt.want)
			}
		})
	}
}
