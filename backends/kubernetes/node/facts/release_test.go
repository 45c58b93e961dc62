package facts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/core/host"
)

// root makes a machine of files; a content that begins with "-> " is a link.
func root(t *testing.T, files map[string]string) *host.View {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if to, ok := strings.CutPrefix(content, "-> "); ok {
			err = os.Symlink(to, path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	v, err := host.OpenView(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Close() })
	return v
}

// got looks facts up; an error stands for what has no value.
func got(f Facts, names ...string) map[string]any {
	m := map[string]any{}
	for _, name := range names {
		value, err := f.Lookup(name)
		if err != nil {
			value = err.Error()
		}
		m[name] = value
	}
	return m
}

func TestFromHost_findsTheRelease(t *testing.T) {
	const other = "ID=other\n"
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"in /etc", map[string]string{"etc/os-release": "ID=here\n", "usr/lib/os-release": other}, "here"},
		{"by a relative link", map[string]string{"etc/os-release": "-> ../usr/lib/os-release", "usr/lib/os-release": "ID=linked\n"}, "linked"},
		{"by an absolute link, which stays below the root", map[string]string{"etc/os-release": "-> /usr/lib/os-release", "usr/lib/os-release": "ID=linked\n"}, "linked"},
		{"in /usr/lib alone", map[string]string{"usr/lib/os-release": "ID=vendor\n"}, "vendor"},
		{"a link to nothing", map[string]string{"etc/os-release": "-> nowhere", "usr/lib/os-release": "ID=vendor\n"}, "vendor"},
		{"nowhere", map[string]string{"etc/hosts": ""}, ".OS.ID is not known: neither /etc/os-release nor /usr/lib/os-release is there"},
		{"empty", map[string]string{"etc/os-release": ""}, ".OS.ID: this node has none"},
		{"what cannot be read is not absent", map[string]string{"etc/os-release/x": "", "usr/lib/os-release": other},
			".OS.ID is not known: read /etc/os-release: is a directory, not a regular file"},
		{"larger than any", map[string]string{"etc/os-release": "ID=a\n" + strings.Repeat("#", maxRelease), "usr/lib/os-release": other},
			".OS.ID is not known: read /etc/os-release: holds more than the 65536 bytes that are read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := FromHost(root(t, tt.files))
			if got := got(f, "OS.ID")["OS.ID"]; got != tt.want {
				t.Errorf("OS.ID = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestFromHost_kernel(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"there", map[string]string{"proc/sys/kernel/osrelease": "6.12.94-amd64\n"}, "6.12.94-amd64"},
		{"no /proc: the kernel below Keel is no answer", map[string]string{"etc/hosts": ""},
			".Kernel.Release is not known: /proc/sys/kernel/osrelease is not there: is /proc mounted below the root?"},
		{"empty", map[string]string{"proc/sys/kernel/osrelease": "\n"}, ".Kernel.Release is not known: /proc/sys/kernel/osrelease: is empty"},
		{"not for people", map[string]string{"proc/sys/kernel/osrelease": "6\x1b[2J\n"},
			".Kernel.Release is not known: /proc/sys/kernel/osrelease: holds what cannot be printed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := got(FromHost(root(t, tt.files)), "Kernel.Release")["Kernel.Release"]; got != tt.want {
				t.Errorf("Kernel.Release = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestParseRelease(t *testing.T) {
	const f = "/etc/os-release"
	for _, tt := range []struct{ name, line, want string }{
		{"bare", `NAME=Debian`, "Debian"},
		{"bare with marks", `NAME=a.b-c_d/e:f+g@h,i%j`, "a.b-c_d/e:f+g@h,i%j"},
		{"bare, escaped", `NAME=a\ b\$`, "a b$"},
		{"double quotes", `NAME="Debian GNU/Linux"`, "Debian GNU/Linux"},
		{"escapes in double quotes", `NAME="a \$b \"c\" \\ \` + "`" + `d\` + "`" + ` \e"`, "a $b \"c\" \\ `d` \\e"},
		{"single quotes", `NAME='a "b" \c $d'`, `a "b" \c $d`},
		{"empty quotes", `NAME=""`, ".OS.Name: this node has none"},
		{"nothing", `NAME=`, ".OS.Name: this node has none"},
		{"spaces around", "  NAME=a\t \r", "a"},
		{"a comment", `# NAME=a`, ".OS.Name: this node has none"},
		{"another case", `name=a`, ".OS.Name: this node has none"},
		{"no last line end", "ID=b\nNAME=a", "a"},
		{"twice, the last counts", "NAME=a\nNAME=b", "b"},
		{"a mistake, then none", "NAME='a\nNAME=b", "b"},
		{"equals signs", `NAME="a=b"`, "a=b"},
		{"other scripts", `NAME="Čajová"`, "Čajová"},
		{"no closing quote", `NAME="Debian`, ".OS.Name is not known: line 1 of " + f + ": the closing quote is missing"},
		{"a closing quote that is escaped", `NAME="Debian\"`, ".OS.Name is not known: line 1 of " + f + ": the closing quote is missing"},
		{"joined quotes", `NAME="a"'b'`, ".OS.Name is not known: line 1 of " + f + ": something follows the closing quote"},
		{"a comment behind", `NAME="a" # b`, ".OS.Name is not known: line 1 of " + f + ": something follows the closing quote"},
		{"a space without quotes", `NAME=a b`, `.OS.Name is not known: line 1 of ` + f + `: ' ' must be escaped, or the value put in quotes`},
		{"another variable", `NAME="$ID"`, `.OS.Name is not known: line 1 of ` + f + `: '$' must be escaped, or the value put in quotes`},
		{"a command", "NAME=`id`", ".OS.Name is not known: line 1 of " + f + ": '`' must be escaped, or the value put in quotes"},
		{"a backslash at the end", `NAME=a\`, ".OS.Name is not known: line 1 of " + f + ": ends with a backslash"},
		{"an escape sequence", "NAME=\"\x1b[2J\"", ".OS.Name is not known: line 1 of " + f + ": holds what cannot be printed"},
		{"no UTF-8", "NAME=\"\xff\"", ".OS.Name is not known: line 1 of " + f + ": holds what cannot be printed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := FromHost(root(t, map[string]string{"etc/os-release": tt.line}))
			if got := got(f, "OS.Name")["OS.Name"]; got != tt.want {
				t.Errorf("OS.Name = %q, want %q", got, tt.want)
			}
		})
	}
}

// Distributions, as they ship it.
func TestParseRelease_distributions(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		want       OS
	}{
		{"debian", "PRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\nNAME=\"Debian GNU/Linux\"\nVERSION_ID=\"13\"\nVERSION=\"13 (trixie)\"\nVERSION_CODENAME=trixie\nID=debian\n",
			OS{ID: "debian", VersionID: "13", VersionCodename: "trixie", Name: "Debian GNU/Linux", PrettyName: "Debian GNU/Linux 13 (trixie)"}},
		{"rocky", "NAME=\"Rocky Linux\"\nVERSION=\"9.5 (Blue Onyx)\"\nID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.5\"\nPRETTY_NAME=\"Rocky Linux 9.5 (Blue Onyx)\"\nANSI_COLOR=\"0;32\"\n",
			OS{ID: "rocky", IDLike: "rhel centos fedora", VersionID: "9.5", Name: "Rocky Linux", PrettyName: "Rocky Linux 9.5 (Blue Onyx)"}},
		{"alpine", "NAME=\"Alpine Linux\"\nID=alpine\nVERSION_ID=3.21.3\nPRETTY_NAME=\"Alpine Linux v3.21\"\n",
			OS{ID: "alpine", VersionID: "3.21.3", Name: "Alpine Linux", PrettyName: "Alpine Linux v3.21"}},
		{"arch", "NAME=\"Arch Linux\"\nPRETTY_NAME=\"Arch Linux\"\nID=arch\nBUILD_ID=rolling\n",
			OS{ID: "arch", Name: "Arch Linux", PrettyName: "Arch Linux"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := FromHost(root(t, map[string]string{"etc/os-release": tt.file}))
			if diff := cmp.Diff(tt.want, f.OS); diff != "" {
				t.Error(diff)
			}
			if like, err := f.Lookup("OS.IDLike"); err != nil || like != tt.want.IDLike {
				t.Errorf("OS.IDLike = %q, %v: to be like no other is an answer", like, err)
			}
		})
	}
}

func FuzzParseRelease(f *testing.F) {
	f.Add([]byte("ID=debian\nNAME=\"a \\\"b\\\"\"\n"))
	f.Add([]byte("ID='\nID=\\"))
	f.Fuzz(func(t *testing.T, data []byte) {
		facts := Facts{Unread: map[string]string{}}
		facts.OS = parseRelease("f", data, facts.Unread)
		for _, name := range Names() {
			if value, err := facts.Lookup(name); err == nil && strings.HasPrefix(name, "OS.") && value != "" && plain(value.(string)) != nil {
				t.Errorf("%s = %q", name, value)
			}
		}
	})
}
