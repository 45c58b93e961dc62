package file

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/core/host"
	"github.com/tlspu/keel/test/contract"
)

// with returns parameters of a good file with some keys set, or taken out by "-".
func with(keyValue ...string) map[string]string {
	p := map[string]string{"path": "/etc/motd", "content": "hello\n"}
	for i := 0; i < len(keyValue); i += 2 {
		if key, gone := strings.CutPrefix(keyValue[i], "-"); gone {
			delete(p, key)
			i--
			continue
		}
		p[keyValue[i]] = keyValue[i+1]
	}
	return p
}

// bad is shared with the contract: every one must be refused before anything is
// touched.
func bad() []contract.Bad {
	return []contract.Bad{
		{Name: "no path", Key: "path", Params: with("-path")},
		{Name: "an empty path", Key: "path", Params: with("path", "")},
		{Name: "a relative path", Key: "path", Params: with("path", "etc/motd")},
		{Name: "the root", Key: "path", Params: with("path", "/")},
		{Name: "the root, disguised", Key: "path", Params: with("path", "/etc/..")},
		{Name: "a trailing slash", Key: "path", Params: with("path", "/etc/motd/")},
		{Name: "a trailing dot", Key: "path", Params: with("path", "/etc/.")},
		{Name: "a step up", Key: "path", Params: with("path", "/etc/../etc/motd")},
		{Name: "a path out of the root", Key: "path", Params: with("path", "/../../etc/motd")},
		{Name: "two slashes", Key: "path", Params: with("path", "//etc/motd")},
		{Name: "a NUL in the path", Key: "path", Params: with("path", "/etc/mo\x00td")},
		{Name: "a path of 4096 bytes", Key: "path", Params: with("path", "/"+strings.Repeat("d/", 2047)+"x")},
		{Name: "a name of 256 bytes", Key: "path", Params: with("path", "/etc/"+strings.Repeat("n", 256))},
		{Name: "no content", Key: "content", Params: with("-content")},
		{Name: "content twice", Key: "contentBase64", Params: with("contentBase64", "aGVsbG8K")},
		{Name: "content of an absent file", Key: "content", Params: with("ensure", "absent")},
		{Name: "coded content of an absent file", Key: "contentBase64", Params: with("-content", "contentBase64", "aGVsbG8K", "ensure", "absent")},
		{Name: "content that is not base64", Key: "contentBase64", Params: with("-content", "contentBase64", "hello!")},
		{Name: "base64 without padding", Key: "contentBase64", Params: with("-content", "contentBase64", "aGVsbG8")},
		{Name: "base64 for URLs", Key: "contentBase64", Params: with("-content", "contentBase64", "_-8=")},
		{Name: "an empty mode", Key: "mode", Params: with("mode", "")},
		{Name: "set-user-id", Key: "mode", Params: with("mode", "4750")},
		{Name: "set-group-id", Key: "mode", Params: with("mode", "2755")},
		{Name: "sticky", Key: "mode", Params: with("mode", "1777")},
		{Name: "644 taken as decimal somewhere", Key: "mode", Params: with("mode", "1204")},
		{Name: "five digits", Key: "mode", Params: with("mode", "00644")},
		{Name: "symbolic", Key: "mode", Params: with("mode", "u=rw,go=r")},
		{Name: "0o644", Key: "mode", Params: with("mode", "0o644")},
		{Name: "0x1a4", Key: "mode", Params: with("mode", "0x1a4")},
		{Name: "a digit that is not octal", Key: "mode", Params: with("mode", "0684")},
		{Name: "a negative mode", Key: "mode", Params: with("mode", "-644")},
		{Name: "a mode with a sign", Key: "mode", Params: with("mode", "+644")},
		{Name: "a mode with a blank", Key: "mode", Params: with("mode", " 644")},
		{Name: "a mode with an underscore", Key: "mode", Params: with("mode", "06_4")},
		{Name: "digits of another script", Key: "mode", Params: with("mode", "٠٦٤")},
		{Name: "an empty owner", Key: "owner", Params: with("owner", "")},
		{Name: "owner and group in one", Key: "owner", Params: with("owner", "root:root")},
		{Name: "a negative owner", Key: "owner", Params: with("owner", "-1")},
		{Name: "a compat line as owner", Key: "owner", Params: with("owner", "+@admins")},
		{Name: "an owner that is too high", Key: "owner", Params: with("owner", "4294967295")},
		{Name: "an empty group", Key: "group", Params: with("group", "")},
		{Name: "a group that is too high", Key: "group", Params: with("group", "99999999999999999999")},
		{Name: "a group with a line break", Key: "group", Params: with("group", "root\n")},
		{Name: "an unknown ensure", Key: "ensure", Params: with("ensure", "latest")},
		{Name: "ensure in capitals", Key: "ensure", Params: with("ensure", "Absent")},
		{Name: "an empty ensure", Key: "ensure", Params: with("ensure", "")},
		{Name: "an unknown link", Key: "link", Params: with("link", "delete")},
	}
}

func TestValidate_refusalsSayWhatToWrite(t *testing.T) {
	tests := []struct {
		name   string
		params map[string]string
		want   []string // in the message, in this order
	}{
		{"mode with set-user-id", with("mode", "4750"), []string{`mode: "4750"`, "special bits", `"0750"`}},
		{"mode that is symbolic", with("mode", "u=rw"), []string{`mode: "u=rw"`, "octal", `"0644"`}},
		{"path not in its shortest form", with("path", "/etc//motd/"), []string{`path: "/etc//motd/"`, `"/etc/motd"`}},
		{"Keel's own lock", with("path", "/run/keel/lock"), []string{`path: "/run/keel/lock"`, "is among the files of Keel itself"}},
		{"Keel's own record", with("path", "/var/lib/keel/restart/other.json"), []string{"path", "is among the files of Keel itself"}},
		{"relative path", with("path", "etc/motd"), []string{`path: "etc/motd"`, "absolute"}},
		{"no content", with("-content"), []string{"content", "contentBase64", `content: ""`, "ensure: absent"}},
		{"ensure", with("ensure", "purged"), []string{`ensure: "purged"`, `"present"`, `"absent"`}},
		{"link", with("link", "x"), []string{`link: "x"`, `"follow"`, `"replace"`, `"refuse"`}},
		{"owner and group in one", with("owner", "www:www"), []string{`owner: "www:www"`, "parameters of their own"}},
		{"everything at once", with("path", "x", "mode", "9", "owner", "-", "link", "x"), []string{"path:", "mode:", "owner:", "link:"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := New().Validate(tt.params)
			rest := fmt.Sprint(err)
			for _, want := range tt.want {
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Fatalf("the error lacks %q, or has it too early: %v", want, err)
				}
				rest = after
			}
		})
	}
}

func TestParse_mode(t *testing.T) {
	for text, want := range map[string]fs.FileMode{
		"644": 0o644, "0644": 0o644, "0": 0, "000": 0, "0000": 0, "7": 0o7, "40": 0o40, "0777": 0o777, "750": 0o750,
		"420": 0o420, // never decimal
	} {
		w, err := parse(handler.Look{Params: with("mode", text)})
		if err != nil || w.mode == nil || *w.mode != want {
			t.Errorf("mode %q: got %v, %v, want %v", text, w.mode, err, want)
		}
	}
}

func TestParse_defaults(t *testing.T) {
	got, err := parse(handler.Look{Params: with()})
	want := want{
		path: "/etc/motd", content: []byte("hello\n"), link: host.Follow,
		owner: account{key: "owner", from: users()}, group: account{key: "group", from: groups()},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(want, account{}, source{})); err != nil || diff != "" {
		t.Errorf("error %v, (-want +got):\n%s", err, diff)
	}
}

func TestParse_contentByteForByte(t *testing.T) {
	tests := []struct {
		name, key, value, want string
	}{
		{"empty", "content", "", ""},
		{"no final newline", "content", "abc", "abc"},
		{"three newlines", "content", "abc\n\n\n", "abc\n\n\n"},
		{"carriage returns", "content", "a\r\nb\r", "a\r\nb\r"},
		{"not UTF-8", "content", "\xff\x00\xfe", "\xff\x00\xfe"},
		{"a template of somebody else", "content", "{{ .Values.x }}", "{{ .Values.x }}"},
		{"base64", "contentBase64", "/wD+", "\xff\x00\xfe"},
		{"base64 as base64(1) breaks it", "contentBase64", "YWJj\nZGVm\n", "abcdef"},
		{"empty base64", "contentBase64", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, err := parse(handler.Look{Params: with("-content", tt.key, tt.value)})
			if err != nil || string(w.content) != tt.want {
				t.Errorf("got %q, %v, want %q", w.content, err, tt.want)
			}
		})
	}
}

// A sensitive value may have been put anywhere, not only where it belongs.
func TestParse_sensitiveShowsNoValue(t *testing.T) {
	const secret = "hunter2"
	for _, key := range []string{"path", "contentBase64", "mode", "owner", "group", "ensure", "link"} {
		_, err := parse(handler.Look{Params: with(key, secret+":"), Sensitive: true})
		if err == nil {
			t.Errorf("%s: no error", key)
		}
		if strings.Contains(fmt.Sprint(err), secret) {
			t.Errorf("%s: the value shows in: %v", key, err)
		}
	}
}

// Before rendering a value that holds "{{" is not judged, but what does not
// depend on it is.
func TestValidate_templates(t *testing.T) {
	tests := []struct {
		name    string
		params  map[string]string
		wantErr string
	}{
		{"all of them", with("path", "{{.p}}", "content", "{{.c}}", "mode", "{{.m}}", "owner", "{{.o}}", "group", "{{.g}}", "ensure", "{{.e}}", "link", "{{.l}}"), ""},
		{"ensure decides whether content is missing", with("-content", "ensure", "{{.e}}"), ""},
		{"two contents are always one too many", with("content", "{{.c}}", "contentBase64", "{{.c}}"), "contentBase64"},
		{"another key is judged", with("content", "{{.c}}", "mode", "9999"), "mode"},
		{"a missing path stays missing", with("-path", "content", "{{.c}}"), "path"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := New().Validate(tt.params)
			if tt.wantErr == "" && err != nil || tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)) {
				t.Errorf("got error %v, want %q", err, tt.wantErr)
			}
		})
	}
}

// FuzzParse holds what is accepted to the forms that are promised, whatever the
// parameters say.
func FuzzParse(f *testing.F) {
	f.Add("/etc/motd", "aGVsbG8=", "0644", "root", "present", "follow")
	for _, b := range bad() {
		p := b.Params
		f.Add(p["path"], p["contentBase64"], p["mode"], p["owner"], p["ensure"], p["link"])
	}
	mode := regexp.MustCompile(`^(0?[0-7]{1,3})$`)
	f.Fuzz(func(t *testing.T, path, content, octals, owner, ensure, link string) {
		values := map[string]string{"path": path, "contentBase64": content, "mode": octals, "owner": owner, "ensure": ensure, "link": link}
		w, err := parse(handler.Look{Params: values})
		if raw := New().Validate(values); err == nil && raw != nil {
			t.Errorf("accepted rendered and not before: %v", raw)
		}
		if err != nil {
			return
		}
		if !strings.HasPrefix(w.path, "/") || strings.HasSuffix(w.path, "/") || len(w.path) > 4095 || strings.Contains(w.path+"/", "/../") {
			t.Errorf("path %q", w.path)
		}
		if !mode.MatchString(octals) || *w.mode > 0o777 {
			t.Errorf("mode %q is %v", octals, *w.mode)
		}
		if w.absent != (ensure == "absent") || w.absent {
			t.Errorf("ensure %q with content", ensure)
		}
	})
}

func TestHandler_claims(t *testing.T) {
	for _, tt := range []struct {
		name   string
		params map[string]string
		want   []string
	}{
		{"what a symlink leads to", map[string]string{"path": "/a"}, []string{"path:/a", "file:/a"}},
		{"the same, said", map[string]string{"path": "/a", "link": "follow", "ensure": "present"}, []string{"path:/a", "file:/a"}},
		{"a symlink to be replaced", map[string]string{"path": "/a", "link": "replace"}, []string{"path:/a"}},
		{"no link", map[string]string{"path": "/a", "link": "refuse"}, []string{"path:/a"}},
		{"a symlink to be removed", map[string]string{"path": "/a", "ensure": "absent"}, []string{"path:/a"}},
	} {
		if got := New().Claims(tt.params); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
