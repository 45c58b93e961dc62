package file

import (
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/test/contract"
)

func TestObserve_leaves(t *testing.T) {
	const hello = "sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03 (6 bytes)"
	const nothing = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 (0 bytes)"
	leaf := func(name string, value any) drift.Leaf { return drift.Leaf{Path: drift.Path{name}, Value: value} }
	stays := func(value any, note string) drift.State {
		return drift.State{{Path: drift.Path{"content"}, Value: value, Note: note}}
	}
	const noFile = "it is no file: remove it by hand, or name another path"
	uid := fmt.Sprint(os.Geteuid())
	tests := []struct {
		name     string
		before   []entry
		params   map[string]string
		declared drift.State
		observed drift.State
	}{
		{"no file", nil, with("mode", "640"),
			drift.State{leaf("content", hello), leaf("mode", "0640")},
			drift.State{leaf("content", nil), leaf("mode", nil)}},
		{"the file", []entry{{path: "etc/motd", content: "hello\n", mode: 0o604}}, with("mode", "640", "owner", uid),
			drift.State{leaf("content", hello), leaf("mode", "0640"), leaf("owner", uid)},
			drift.State{leaf("content", hello), leaf("mode", "0604"), leaf("owner", uid)}},
		{"an empty file", []entry{{path: "etc/motd"}}, with(),
			drift.State{leaf("content", hello)},
			drift.State{leaf("content", nothing)}},
		{"a directory", []entry{{path: "etc/motd/"}}, with(),
			drift.State{leaf("content", hello)}, stays("a directory", noFile)},
		{"a symlink to a directory", []entry{{path: "run/"}, {path: "etc/motd", link: "../run"}}, with(),
			drift.State{leaf("content", hello)}, stays("a symlink to ../run, a directory", "what the symlink leads to is no file: write link: replace to put a file in the symlink's place")},
		{"a directory below a linked directory", []entry{{path: "run/motd/"}, {path: "etc", link: "run"}}, with(),
			drift.State{leaf("content", hello)}, stays("a directory", noFile)},
		{"a symlink, when links are refused", []entry{{path: "etc/motd", link: "x"}}, with("link", "refuse"),
			drift.State{leaf("content", hello)}, stays("a symlink to x", "it is a symlink, and link: refuse forbids to touch it")},
		{"to be absent, and a symlink, when links are refused", []entry{{path: "etc/motd", link: "x"}}, with("-content", "ensure", "absent", "link", "refuse"),
			drift.State{leaf("content", nil)}, stays("a symlink to x", "it is a symlink, and link: refuse forbids to touch it")},
		{"a symlink that is to be replaced", []entry{{path: "etc/motd", link: "hello"}, {path: "etc/hello", content: "hello\n"}}, with("link", "replace"),
			drift.State{leaf("content", hello)}, drift.State{leaf("content", "a symlink to hello")}},
		{"to be empty, and a directory", []entry{{path: "etc/motd/"}}, with("content", ""),
			drift.State{leaf("content", nothing)}, stays("a directory", noFile)},
		{"to be empty, and a symlink that is to be replaced", []entry{{path: "etc/motd", link: "x"}, {path: "etc/x"}}, with("content", "", "link", "replace"),
			drift.State{leaf("content", nothing)}, drift.State{leaf("content", "a symlink to x")}},
		{"a file where its directory would be", []entry{{path: "etc", content: "x"}}, with("mode", "640"),
			drift.State{leaf("content", hello), leaf("mode", "0640")},
			append(stays(nil, "write /etc/motd: /etc is a regular file, not a directory: not a directory"), leaf("mode", nil))},
		{"to be absent, and a file", []entry{{path: "etc/motd", content: "old"}}, with("-content", "ensure", "absent"),
			drift.State{leaf("content", nil)}, drift.State{leaf("content", "a file (3 bytes)")}},
		{"to be absent, and a symlink", []entry{{path: "etc/motd", link: "x"}}, with("-content", "ensure", "absent"),
			drift.State{leaf("content", nil)}, drift.State{leaf("content", "a symlink to x")}},
		{"to be absent, and a directory", []entry{{path: "etc/motd/"}}, with("-content", "ensure", "absent"),
			drift.State{leaf("content", nil)}, stays("a directory", noFile)},
		{"an owner who is not there", []entry{{path: "etc/motd", content: "hello\n"}, {path: "etc/passwd", content: etcPasswd}}, with("owner", "mallory"),
			drift.State{leaf("content", hello), leaf("owner", "mallory")},
			drift.State{leaf("content", hello), leaf("owner", drift.Unknown{Kind: drift.Absent, Reason: `owner: "mallory" is no user in /etc/passwd: create it first, or give the number`})}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := rooted(t, tt.before...)
			declared, observed, err := New().Observe(t.Context(), call(t, root, tt.params).Look)
			check(t, err)
			if diff := cmp.Diff(tt.declared, declared); diff != "" {
				t.Errorf("declared (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.observed, observed); diff != "" {
				t.Errorf("observed (-want +got):\n%s", diff)
			}
		})
	}
}

// What is far larger than what it should hold is not read to tell that.
func TestObserve_largeFile(t *testing.T) {
	root := rooted(t, entry{path: "etc/motd"})
	check(t, os.Truncate(root+"/etc/motd", 1<<40))
	r := observe(t, call(t, root, with()))
	if len(r) != 1 || r[0].Verdict != drift.Drift || r[0].Observed != "other content (1099511627776 bytes)" {
		t.Errorf("got %+v", r)
	}
}

// A sensitive call shows content nowhere: not in leaves, plans or errors.
func TestSensitive_showsNoContent(t *testing.T) {
	const secret = "hunter2-hunter2"
	for name, before := range map[string][]entry{
		"new": nil, "replaced": {{path: "etc/motd", content: secret + "-old"}}, "public": {{path: "etc/motd", content: secret}},
		"failing": {{path: "etc/motd/"}},
	} {
		for _, params := range []map[string]string{
			with("content", secret),
			with("-content", "contentBase64", base64.StdEncoding.EncodeToString([]byte(secret))),
			with("content", secret, "mode", secret),
		} {
			root := rooted(t, before...)
			target := contract.Machine(t, root, nil).Target(handler.Spec{ID: "motd", Handler: New(), Params: params, Sensitive: true})
			for _, o := range []drift.Options{{DryRun: true}, {}} {
				said := fmt.Sprintf("%+v", drift.Ensure(t.Context(), target, o))
				digest := strings.Fields(digest([]byte(secret)))[0]
				for _, text := range []string{secret, params["contentBase64"], digest} {
					if text != "" && strings.Contains(said, text) {
						t.Errorf("%s: %q shows in %s", name, text, said)
					}
				}
			}
		}
	}
}

func TestSensitive_isPrivate(t *testing.T) {
	for name, mode := range map[string]string{"": "0600", "0640": "0640"} {
		root := rooted(t, entry{path: "etc/motd", content: "hello\n", mode: 0o666})
		params := with()
		if name != "" {
			params["mode"] = name
		}
		if r := observe(t, secret(t, root, params)); r.Settled() {
			t.Errorf("mode %q: a public file is taken for a private one: %+v", name, r)
		}
		if changed, err := New().Ensure(t.Context(), secret(t, root, params)); !changed || err != nil {
			t.Errorf("mode %q: got %v, %v", name, changed, err)
		}
		holds(t, root+"/etc/motd", "hello\n", mode)
		if r := observe(t, secret(t, root, params)); !r.Settled() {
			t.Errorf("mode %q: not private afterwards: %+v", name, r)
		}
	}
}

// What would be refused is refused by the plan already, in a dry run too.
func TestTarget_refusesInThePlan(t *testing.T) {
	root := rooted(t, entry{path: "etc/motd/"})
	target := contract.Machine(t, root, nil).Target(handler.Spec{ID: "motd", Handler: New(), Params: with()})
	for _, o := range []drift.Options{{DryRun: true}, {}} {
		r := drift.Ensure(t.Context(), target, o)
		if len(r.Steps) != 1 || !strings.Contains(r.Steps[0].Refused, "remove it by hand") || r.Err == nil || r.Changed {
			t.Errorf("dry run %v: got %+v", o.DryRun, r)
		}
	}
}

// Without a mode, replaced content gets 0644: a look and a run say so, and how to
// keep what the file had.
func TestObserve_modeThatGoesWithTheContent(t *testing.T) {
	for name, tt := range map[string]struct {
		had  fs.FileMode
		want string // as drift, the declared side; empty: nothing is said
		note string
	}{
		"0440":  {0o440, `0644 (no mode is given; to keep the file's, write mode: "0440")`, `/f: its mode was 0440 and is 0644 now, for no mode is given: to keep it, write mode: "0440"`},
		"04755": {0o755 | fs.ModeSetuid, `0644 (no mode is given; to keep the file's, write mode: "0755")`, `/f: its mode was 0755 and is 0644 now, for no mode is given: to keep it, write mode: "0755"`},
		"0644":  {0o644, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := rooted(t, entry{path: "f", content: "old", mode: tt.had})
			params := map[string]string{"path": "/f", "content": "new"}
			r := observe(t, call(t, root, params))
			f, _ := r.At(drift.Path{"mode"})
			if got, _ := f.Declared.(string); got != tt.want || tt.want != "" && (f.Verdict != drift.Drift || f.Observed != octal(tt.had)) {
				t.Errorf("got %+v, want %s", f, tt.want)
			}
			var notes []string
			c := call(t, root, params)
			c.Tree = c.Tree.Noting(func(s string) { notes = append(notes, s) })
			if _, err := New().Ensure(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(notes, "; "); !strings.HasPrefix(got, tt.note) || tt.note == "" && got != "" {
				t.Errorf("said %q, want %q", got, tt.note)
			}
			if r := observe(t, call(t, root, params)); !r.Settled() || len(r) != 1 {
				t.Errorf("afterwards: %+v", r)
			}
			same := map[string]string{"path": "/f", "content": "new"}
			check(t, os.Chmod(root+"/f", 0o440))
			if r := observe(t, call(t, root, same)); !r.Settled() {
				t.Errorf("a file that keeps its mode: %+v", r)
			}
		})
	}
}
