package file

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/core/host"
	"github.com/tlspu/keel/test/contract"
	"github.com/tlspu/keel/test/parts"
)

// An entry is one thing in a test's root: a file, or a folder when path ends in
// a slash, or a link.
type entry struct {
	path, content, link string
	mode                fs.FileMode // 0: 0644, folders 0755
}

// build makes entries below root, and the folders that lead to them.
func build(t testing.TB, root string, entries ...entry) {
	t.Helper()
	for _, e := range entries {
		path := filepath.Join(root, e.path)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		switch {
		case e.link != "":
			check(t, os.Symlink(e.link, path))
			continue
		case strings.HasSuffix(e.path, "/"):
			check(t, os.MkdirAll(path, 0o755))
		default:
			check(t, os.WriteFile(path, []byte(e.content), 0o644))
		}
		if e.mode != 0 {
			check(t, os.Chmod(path, e.mode))
		}
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func setup(entries ...entry) func(testing.TB, string) {
	return func(t testing.TB, root string) { build(t, root, entries...) }
}

// rooted returns a root that holds entries.
func rooted(t testing.TB, entries ...entry) string {
	t.Helper()
	root := t.TempDir()
	build(t, root, entries...)
	return root
}

// call is a call on root; secret is one whose parameters came from a Secret.
func call(t testing.TB, root string, params map[string]string) handler.Call {
	t.Helper()
	return contract.Call(t, root, nil, params)
}

func secret(t testing.TB, root string, params map[string]string) handler.Call {
	t.Helper()
	c := call(t, root, params)
	c.Sensitive = true
	return c
}

// observe compares both sides on root.
func observe(t testing.TB, c handler.Call) drift.Report {
	t.Helper()
	declared, observed, err := New().Observe(t.Context(), c.Look)
	check(t, err)
	return drift.Compare(declared, observed)
}

// ensure fails the test unless it goes as said, and a second call finds nothing
// to do.
func ensure(t testing.TB, root string, params map[string]string, want bool) {
	t.Helper()
	changed, err := New().Ensure(t.Context(), call(t, root, params))
	if err != nil || changed != want {
		t.Fatalf("Ensure: got %v, %v, want %v", changed, err, want)
	}
	if changed, err = New().Ensure(t.Context(), call(t, root, params)); err != nil || changed {
		t.Fatalf("Ensure again: got %v, %v, want false", changed, err)
	}
	if r := observe(t, call(t, root, params)); !r.Settled() {
		t.Errorf("Observe after Ensure: %+v", r)
	}
}

// refused fails the test unless Ensure fails with all of want in its message,
// leaves the whole tree as it was, and a dry run foretells it.
func refused(t testing.TB, root string, params map[string]string, want ...string) {
	t.Helper()
	foretold(t, root, params)
	before := contract.Snapshot(t, root)
	changed, err := New().Ensure(t.Context(), call(t, root, params))
	if changed || err == nil {
		t.Fatalf("Ensure: got %v, %v, want an error", changed, err)
	}
	for _, text := range want {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error lacks %q: %v", text, err)
		}
	}
	before.Unchanged(t, root, "a refused Ensure")
}

// foretold fails the test unless a dry run refuses, with all of want in its words.
func foretold(t testing.TB, root string, params map[string]string, want ...string) {
	t.Helper()
	before := contract.Snapshot(t, root)
	err := dryRun(t, root, params)
	if err == nil {
		t.Fatal("a dry run would change it")
	}
	for _, text := range want {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the dry run's error lacks %q: %v", text, err)
		}
	}
	before.Unchanged(t, root, "a dry run")
}

func dryRun(t testing.TB, root string, params map[string]string) error {
	t.Helper()
	target := contract.Machine(t, root, nil).Target(handler.Spec{ID: "f", Handler: New(), Params: params})
	return drift.Ensure(t.Context(), target, drift.Options{DryRun: true}).Err
}

// holds fails the test unless a file has this content and mode.
func holds(t testing.TB, path, content, mode string) {
	t.Helper()
	got, err := os.ReadFile(path)
	check(t, err)
	info, err := os.Lstat(path)
	check(t, err)
	if string(got) != content || octal(info.Mode()) != mode {
		t.Errorf("%s holds %.80q with mode %s, want %.80q with %s", path, got, octal(info.Mode()), content, mode)
	}
}

func TestHandler_contract(t *testing.T) {
	me := []string{"owner", fmt.Sprint(os.Geteuid()), "group", fmt.Sprint(os.Getegid())}
	secret := "BEGIN PRIVATE KEY 5f2c"
	contract.Handler(t, contract.Handlers{
		New: func() handler.Handler { return New() },
		Doc: "../../docs/spec/handlers.md",
		Good: []contract.Good{
			{Name: "a new file in a new directory", Params: with("path", "/etc/deep/down/motd")},
			{Name: "other content", Params: with(), Setup: setup(entry{path: "etc/motd", content: "old\n"})},
			{Name: "another mode", Params: with("mode", "0600"), Setup: setup(entry{path: "etc/motd", content: "hello\n"})},
			{Name: "nothing to do", Params: with(), Setup: setup(entry{path: "etc/motd", content: "hello\n", mode: 0o640}), Met: true},
			{Name: "everything named", Params: with(append(me, "mode", "640", "ensure", "present", "link", "refuse")...)},
			{Name: "bytes that are no text", Params: with("-content", "contentBase64", "/wD+Cg==")},
			{Name: "an empty file", Params: with("content", "")},
			{Name: "through a symlink", Params: with(), Setup: setup(entry{path: "etc/motd", link: "/run/motd"}, entry{path: "run/motd", content: "old"})},
			{Name: "through a symlink to nothing yet", Params: with(), Setup: setup(entry{path: "etc/motd", link: "../run/motd"}, entry{path: "run/"})},
			{Name: "in place of a symlink", Params: with("link", "replace"), Setup: setup(entry{path: "etc/motd", link: "/run/motd"})},
			{Name: "below a linked directory", Params: with("path", "/lib/x/motd"), Setup: setup(entry{path: "lib", link: "usr/lib"}, entry{path: "usr/lib/x/"})},
			{Name: "no longer there", Params: with("-content", "ensure", "absent"), Setup: setup(entry{path: "etc/motd", content: "old"})},
			{Name: "a symlink that is to go", Params: with("-content", "ensure", "absent"), Setup: setup(entry{path: "etc/motd", link: "/run/motd"})},
			{Name: "never there", Params: with("-content", "ensure", "absent"), Met: true},
			{Name: "a secret", Params: with("content", secret), Sensitive: true},
			{Name: "a secret that was public", Params: with("content", secret), Sensitive: true, Setup: setup(entry{path: "etc/motd", content: secret, mode: 0o644})},
			{Name: "a secret, decoded", Params: with("-content", "contentBase64", base64.StdEncoding.EncodeToString([]byte(secret)), "mode", "0640"), Sensitive: true},
		},
		Bad: bad(),
	})
}

// Identical bytes with no mode named leave the mode alone; new or replaced
// content gets 0644; a named mode is mended.
func TestEnsure_modeOmitted(t *testing.T) {
	tests := []struct {
		name     string
		before   []entry
		mode     string
		changed  bool
		wantMode string
	}{
		{"new", nil, "", true, "0644"},
		{"replaced", []entry{{path: "f", content: "old", mode: 0o600}}, "", true, "0644"},
		{"equal", []entry{{path: "f", content: "new", mode: 0o600}}, "", false, "0600"},
		{"equal, nobody may read it", []entry{{path: "f", content: "new", mode: 0o200}}, "", false, "0200"},
		{"equal, with set-user-id", []entry{{path: "f", content: "new", mode: 0o755 | fs.ModeSetuid}}, "", false, "4755"},
		{"equal, mode named", []entry{{path: "f", content: "new", mode: 0o600}}, "640", true, "0640"},
		{"equal, mode named and right", []entry{{path: "f", content: "new", mode: 0o640}}, "0640", false, "0640"},
		{"equal, with set-user-id, mode named", []entry{{path: "f", content: "new", mode: 0o755 | fs.ModeSetuid}}, "0755", true, "0755"},
		{"replaced, with set-user-id", []entry{{path: "f", content: "old", mode: 0o755 | fs.ModeSetuid}}, "", true, "0644"},
		{"replaced, mode named", []entry{{path: "f", content: "old", mode: 0o600}}, "0604", true, "0604"},
		{"no rights at all", nil, "0", true, "0000"},
		{"644 is never decimal", nil, "644", true, "0644"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.wantMode == "0200" || tt.wantMode == "0000" {
				parts.Need(t, "root")
			}
			root := rooted(t, tt.before...)
			params := map[string]string{"path": "/f", "content": "new"}
			if tt.mode != "" {
				params["mode"] = tt.mode
			}
			ensure(t, root, params, tt.changed)
			holds(t, root+"/f", "new", tt.wantMode)
		})
	}
}

func TestEnsure_byteForByte(t *testing.T) {
	for _, content := range []string{"", "\n", "abc", "abc\n\n\n", "a\r\nb", "\x00\xff", "{{ .Values.x }}", strings.Repeat("0123456789abcdef", 1<<16)} {
		for _, before := range [][]entry{nil, {{path: "f", content: content + "\n"}}, {{path: "f", content: content}}} {
			root := rooted(t, before...)
			ensure(t, root, map[string]string{"path": "/f", "content": content}, before == nil || before[0].content != content)
			holds(t, root+"/f", content, "0644")
			ensure(t, root, map[string]string{"path": "/f", "contentBase64": base64.StdEncoding.EncodeToString([]byte(content))}, false)
		}
	}
}

func TestEnsure_makesParents(t *testing.T) {
	root := rooted(t, entry{path: "etc/", mode: 0o711})
	ensure(t, root, map[string]string{"path": "/etc/a/b/f", "content": "x"}, true)
	for dir, want := range map[string]string{"etc": "0711", "etc/a": "0755", "etc/a/b": "0755"} {
		info, err := os.Stat(filepath.Join(root, dir))
		check(t, err)
		if octal(info.Mode()) != want {
			t.Errorf("%s has mode %s, want %s", dir, octal(info.Mode()), want)
		}
	}
}

func TestEnsure_links(t *testing.T) {
	tests := []struct {
		name    string
		before  []entry
		link    string
		changed bool
		file    string // where the content is afterwards
		links   []string
	}{
		{"relative", []entry{{path: "run/f", content: "old"}, {path: "etc/f", link: "../run/f"}}, "follow", true, "run/f", []string{"etc/f"}},
		{"absolute, inside the root", []entry{{path: "run/f", content: "old"}, {path: "etc/f", link: "/run/f"}}, "follow", true, "run/f", []string{"etc/f"}},
		{"out of the root ends at the root", []entry{{path: "run/f", content: "old"}, {path: "etc/f", link: "../../../../run/f"}}, "follow", true, "run/f", []string{"etc/f"}},
		{"a chain", []entry{{path: "run/f", content: "old"}, {path: "run/g", link: "f"}, {path: "etc/f", link: "/run/g"}}, "follow", true, "run/f", []string{"etc/f", "run/g"}},
		{"to what is right", []entry{{path: "run/f", content: "new"}, {path: "etc/f", link: "/run/f"}}, "follow", false, "run/f", []string{"etc/f"}},
		{"to nothing yet", []entry{{path: "run/"}, {path: "etc/f", link: "/run/f"}}, "follow", true, "run/f", []string{"etc/f"}},
		{"replaced", []entry{{path: "run/f", content: "old"}, {path: "etc/f", link: "/run/f"}}, "replace", true, "etc/f", nil},
		{"replaced, though it led to the right content", []entry{{path: "run/f", content: "new"}, {path: "etc/f", link: "/run/f"}}, "replace", true, "etc/f", nil},
		{"replaced, to nothing", []entry{{path: "etc/f", link: "nowhere"}}, "replace", true, "etc/f", nil},
		{"a mask of systemd, replaced", []entry{{path: "etc/f", link: "/dev/null"}}, "replace", true, "etc/f", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := rooted(t, tt.before...)
			ensure(t, root, map[string]string{"path": "/etc/f", "content": "new", "link": tt.link}, tt.changed)
			holds(t, filepath.Join(root, tt.file), "new", "0644")
			for _, l := range tt.links {
				if _, err := os.Readlink(filepath.Join(root, l)); err != nil {
					t.Errorf("the symlink is gone: %v", err)
				}
			}
		})
	}
}

func TestEnsure_refusals(t *testing.T) {
	tests := []struct {
		name   string
		before []entry
		params []string
		want   []string
	}{
		{"a directory", []entry{{path: "etc/f/"}}, nil, []string{"write /etc/f", "a directory"}},
		{"a symlink to a directory", []entry{{path: "run/"}, {path: "etc/f", link: "/run"}}, nil, []string{"/etc/f", "/run", "a directory"}},
		{"a symlink to a device that is not there", []entry{{path: "dev/"}, {path: "etc/f", link: "/dev/null"}}, nil, []string{"/etc/f", "/dev/null", "a device"}},
		{"a symlink into a directory that is not there", []entry{{path: "etc/f", link: "/run/lost/f"}}, nil, []string{"/etc/f"}},
		{"a symlink to itself", []entry{{path: "etc/f", link: "f"}}, nil, []string{"/etc/f", "links"}},
		{"a symlink, when links are refused", []entry{{path: "run/f"}, {path: "etc/f", link: "/run/f"}}, []string{"link", "refuse"}, []string{"/etc/f", "a symlink"}},
		{"a directory on the way is a file", []entry{{path: "etc", content: "x"}}, nil, []string{"/etc/f"}},
		{"a name too long for the directory's system", nil, []string{"path", "/" + strings.Repeat("n", 255) + "/" + strings.Repeat("é", 128)}, []string{"path"}},
		{"an unknown owner", []entry{{path: "etc/passwd", content: etcPasswd}}, []string{"owner", "mallory"}, []string{`owner: "mallory"`, "/etc/passwd", "give the number"}},
		{"an owner without a number", []entry{{path: "etc/passwd", content: etcPasswd}}, []string{"owner", "empty"}, []string{`owner: "empty"`, "/etc/passwd"}},
		{"an unknown group", []entry{{path: "etc/group", content: "root:x:0:\n"}}, []string{"group", "wheel"}, []string{`group: "wheel"`, "/etc/group"}},
		{"no list of users", nil, []string{"owner", "root"}, []string{`owner:`, "/etc/passwd"}},
		{"no list of users, and the file is there", []entry{{path: "etc/f", content: "new"}}, []string{"owner", "root"}, []string{`owner:`, "/etc/passwd"}},
		{"removal of a directory", []entry{{path: "etc/f/"}}, []string{"ensure", "absent"}, []string{"remove /etc/f", "a directory", "by hand"}},
		{"removal of a symlink, when links are refused", []entry{{path: "etc/f", link: "g"}}, []string{"ensure", "absent", "link", "refuse"}, []string{"remove /etc/f", "a symlink"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			params := map[string]string{"path": "/etc/f", "content": "new"}
			for i := 0; i < len(tt.params); i += 2 {
				params[tt.params[i]] = tt.params[i+1]
			}
			if params["ensure"] == "absent" {
				delete(params, "content")
			}
			root := rooted(t, tt.before...)
			refused(t, root, params, tt.want...)
		})
	}
}

func TestEnsure_absent(t *testing.T) {
	tests := []struct {
		name    string
		before  []entry
		changed bool
		stays   []string
	}{
		{"a file", []entry{{path: "etc/f", content: "x"}, {path: "etc/g"}}, true, []string{"etc/g"}},
		{"a symlink, not what it leads to", []entry{{path: "etc/f", link: "g"}, {path: "etc/g"}}, true, []string{"etc/g"}},
		{"a symlink to a directory", []entry{{path: "etc/f", link: "d"}, {path: "etc/d/x"}}, true, []string{"etc/d/x"}},
		{"a symlink to nothing", []entry{{path: "etc/f", link: "nowhere"}}, true, nil},
		{"a mask of systemd", []entry{{path: "etc/f", link: "/dev/null"}}, true, nil},
		{"nothing there", []entry{{path: "etc/g"}}, false, []string{"etc/g"}},
		{"no directory there", nil, false, nil},
		{"a file where its directory would be", []entry{{path: "etc", content: "x"}}, false, []string{"etc"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := rooted(t, tt.before...)
			ensure(t, root, map[string]string{"path": "/etc/f", "ensure": "absent"}, tt.changed)
			for _, path := range tt.stays {
				if _, err := os.Lstat(filepath.Join(root, path)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// Two names of one file: the managed one is replaced, the other keeps the old
// content, and a second run has nothing to do.
func TestEnsure_hardLink(t *testing.T) {
	root := rooted(t, entry{path: "f", content: "old"})
	check(t, os.Link(root+"/f", root+"/g"))
	ensure(t, root, map[string]string{"path": "/f", "content": "new"}, true)
	holds(t, root+"/f", "new", "0644")
	holds(t, root+"/g", "old", "0644")
	ensure(t, root, map[string]string{"path": "/g", "content": "old", "mode": "0600"}, true)
	holds(t, root+"/f", "new", "0644")
}

// Killed before or after its one step, the next visit makes it right.
func TestTarget_crash(t *testing.T) {
	contract.Crash(t, contract.Crashes{
		Setup: func(t testing.TB, dir string) { build(t, dir, entry{path: "etc/motd", content: "old\n"}) },
		Visit: func(ctx context.Context, dir string, hook drift.Hook) drift.Result {
			tree, err := host.OpenTree(dir)
			if err != nil {
				return drift.Result{Err: err}
			}
			target := handler.NewMachine(dir, tree, nil).Target(handler.Spec{ID: "motd", Handler: New(), Params: with("mode", "0640")})
			r := drift.Ensure(ctx, target, drift.Options{Hook: hook})
			r.Err = errors.Join(r.Err, tree.Close())
			return r
		},
		Check: func(t testing.TB, dir string) {
			holds(t, dir+"/etc/motd", "hello\n", "0640")
			if entries, err := os.ReadDir(dir + "/etc"); err != nil || len(entries) != 1 {
				t.Errorf("left behind: %v, %v", entries, err)
			}
		},
	})
}
