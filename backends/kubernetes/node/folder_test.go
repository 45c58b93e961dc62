package node

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"
	"github.com/tlspu/keel/core/host"
	"github.com/tlspu/keel/core/plugin"
	"github.com/tlspu/keel/test/nodetest"
)

// now is when tests begin.
var now = time.Date(2026, 10, 15, 12, 0, 0, 0, time.UTC)

// testFolder is a folder with a clock of its own and what it logged.
type testFolder struct {
	*folder
	clock time.Time
	said  bytes.Buffer
}

func newTestFolder(t *testing.T) *testFolder {
	f := &testFolder{clock: now}
	f.folder = &folder{dir: t.TempDir(), handlers: nodetest.Handlers(nodetest.NewSetting()), now: func() time.Time { return f.clock },
		log: slog.New(slog.NewTextHandler(&f.said, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))}
	return f
}

// write writes a file as if it had been written at the time of the clock.
func (f *testFolder) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, f.clock, f.clock); err != nil {
		t.Fatal(err)
	}
}

// poll lets two seconds pass and scans; then a third time, so that what was
// written just now counts.
func (f *testFolder) poll(t *testing.T) (changed bool) {
	t.Helper()
	for range 3 {
		f.clock = f.clock.Add(poll)
		again, err := f.scan(false)
		if err != nil {
			t.Fatal(err)
		}
		changed = changed || again
	}
	return changed
}

// kept lists what is to be kept: name and value, and whether it has a mistake.
func (f *testFolder) kept(t *testing.T) map[string]string {
	t.Helper()
	kept := map[string]string{}
	for _, c := range f.configs() {
		value := "nothing"
		if last := c.Effective(); last != nil {
			spec, err := last.Unpack()
			if err != nil {
				t.Fatal(err)
			}
			value = spec.Params["value"]
		}
		if c.Err != nil {
			value += " (" + plugin.OneLine(c.Err) + ")"
		}
		kept[c.Name] = value
	}
	return kept
}

func (f *testFolder) want(t *testing.T, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, f.kept(t)); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}

func TestFolder_readsWhatChanged(t *testing.T) {
	f := newTestFolder(t)
	f.write(t, "a.yaml", nodetest.Doc("a", "one"))
	f.write(t, "b.yml", nodetest.Doc("b", "one")+nodetest.Doc("c", "one"))
	f.write(t, "d.json", `{"apiVersion":"keel.tlspu.io/v1alpha1","kind":"NodeConfig","metadata":{"name":"d"},"spec":{"type":"setting","params":{"path":"/d","value":"one"}}}`)
	f.write(t, ".hidden.yaml", nodetest.Doc("hidden", "one"))
	f.write(t, "README.md", "no document")
	f.write(t, "a.yaml~", nodetest.Doc("backup", "one"))
	if err := os.Mkdir(filepath.Join(f.dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	f.write(t, "sub/e.yaml", nodetest.Doc("e", "one"))
	if !f.poll(t) {
		t.Error("nothing changed")
	}
	f.want(t, map[string]string{"a": "one", "b": "one", "c": "one", "d": "one"})
	if f.poll(t) {
		t.Error("changed although nobody wrote")
	}
	f.write(t, "b.yml", nodetest.Doc("b", "two")+nodetest.Doc("c", "one"))
	if !f.poll(t) {
		t.Error("an edit was not seen")
	}
	f.want(t, map[string]string{"a": "one", "b": "two", "c": "one", "d": "one"})
	if err := os.Remove(filepath.Join(f.dir, "b.yml")); err != nil {
		t.Fatal(err)
	}
	if !f.poll(t) {
		t.Error("a removal was not seen")
	}
	f.want(t, map[string]string{"a": "one", "d": "one"})
	if f.said.Len() > 0 {
		t.Errorf("said:\n%s", &f.said)
	}
}

// Editors and ConfigMap volumes put another file, or a link, in the place of the
// old one.
func TestFolder_filesThatAreReplaced(t *testing.T) {
	f := newTestFolder(t)
	for _, dir := range []string{"..1", "..2"} {
		if err := os.Mkdir(filepath.Join(f.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	f.write(t, "..1/a.yaml", nodetest.Doc("a", "one"))
	f.write(t, "..2/a.yaml", nodetest.Doc("a", "two"))
	link := func(to string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(f.dir, "new")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(f.dir, "new"), filepath.Join(f.dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	link("..1")
	if err := os.Symlink("..data/a.yaml", filepath.Join(f.dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	f.poll(t)
	f.want(t, map[string]string{"a": "one"})
	link("..2") // same size, same time
	f.poll(t)
	f.want(t, map[string]string{"a": "two"})
}

// Two writes within one tick of the file system's clock leave the same size and
// time behind.
func TestFolder_writeWithinATick(t *testing.T) {
	f := newTestFolder(t)
	f.write(t, "a.yaml", nodetest.Doc("a", "one"))
	if _, err := f.scan(true); err != nil {
		t.Fatal(err)
	}
	f.want(t, map[string]string{"a": "one"})
	f.write(t, "a.yaml", nodetest.Doc("a", "two")) // the clock stands still
	f.poll(t)
	f.want(t, map[string]string{"a": "two"})
}

// A file that looks as it did is not read, however many there are.
func TestFolder_readsNothingThatLooksTheSame(t *testing.T) {
	f := newTestFolder(t)
	f.write(t, "a.yaml", nodetest.Doc("a", "one"))
	f.poll(t)
	f.files["a.yaml"].configs = nil // reading it would bring them back
	if f.poll(t) {
		t.Error("the file was read")
	}
	f.want(t, map[string]string{})
}

// Tools that copy times hide an edit in place: the same inode, size and time of
// the content.
func TestFolder_editThatKeepsTheTime(t *testing.T) {
	f := newTestFolder(t)
	f.write(t, "a.yaml", nodetest.Doc("a", "one"))
	f.poll(t)
	path := filepath.Join(f.dir, "a.yaml")
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for after := before; host.ChangeTime(after).Equal(host.ChangeTime(before)); { // its ticks are short
		if err := os.WriteFile(path, []byte(nodetest.Doc("a", "two")), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, before.ModTime(), before.ModTime()); err != nil {
			t.Fatal(err)
		}
		if after, err = os.Stat(path); err != nil || time.Now().After(deadline) {
			t.Fatal("the file's time of change stands still", err)
		}
	}
	f.poll(t)
	f.want(t, map[string]string{"a": "two"})
}

func TestFolder_aFileOfTheFutureSettles(t *testing.T) {
	f := newTestFolder(t)
	f.clock = now.Add(24 * time.Hour)
	f.write(t, "a.yaml", nodetest.Doc("a", "one"))
	f.clock = now
	f.poll(t)
	f.poll(t)
	if f.files["a.yaml"].fresh {
		t.Error("the file is read at every poll")
	}
}

// A file that was written a moment ago may still be growing.
func TestFolder_waitsForAWriter(t *testing.T) {
	f := newTestFolder(t)
	whole := nodetest.Doc("a", "one")
	f.write(t, "a.yaml", whole[:len(whole)-20])
	if changed, err := f.scan(false); changed || err != nil {
		t.Errorf("changed %v, error %v", changed, err)
	}
	if f.complete() {
		t.Error("the directory is whole although a file was not read")
	}
	f.write(t, "a.yaml", whole)
	f.poll(t)
	f.want(t, map[string]string{"a": "one"})
	if f.said.Len() > 0 {
		t.Errorf("said:\n%s", &f.said)
	}
}

// A file that grows is left alone for as long as it grows, whatever time it gives
// itself, and is read once it has been still.
func TestFolder_waitsUntilAFileIsStill(t *testing.T) {
	whole := nodetest.Doc("a", "one")
	for name, skew := range map[string]time.Duration{"this clock": 0, "a clock that is ahead": time.Hour} {
		t.Run(name, func(t *testing.T) {
			f := newTestFolder(t)
			grow := func(n int) {
				f.write(t, "a.yaml", whole[:n])
				at := f.clock.Add(skew)
				if err := os.Chtimes(filepath.Join(f.dir, "a.yaml"), at, at); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 20 {
				f.clock = f.clock.Add(poll)
				grow(len(whole) - 20 + i)
				if changed, err := f.scan(false); changed || err != nil {
					t.Fatalf("after %d writes: changed %v, error %v", i+1, changed, err)
				}
			}
			f.want(t, map[string]string{})
			grow(len(whole))
			if !f.poll(t) {
				t.Error("a file that is still was not read")
			}
			f.want(t, map[string]string{"a": "one"})
			if f.said.Len() > 0 {
				t.Errorf("said:\n%s", &f.said)
			}
		})
	}
}

// An edit that takes long leaves what the file said in force until it ends.
func TestFolder_keepsWhatAFileSaidWhileItGrows(t *testing.T) {
	f := newTestFolder(t)
	f.write(t, "a.yaml", nodetest.Doc("a", "one"))
	f.poll(t)
	two := nodetest.Doc("a", "two")
	for i := range 5 {
		f.clock = f.clock.Add(poll)
		f.write(t, "a.yaml", two+strings.Repeat("#", i))
		if _, err := f.scan(false); err != nil {
			t.Fatal(err)
		}
		f.want(t, map[string]string{"a": "one"})
	}
	f.poll(t)
	f.want(t, map[string]string{"a": "two"})
}

func TestFolder_brokenFileIsNoRemoval(t *testing.T) {
	for _, tt := range []struct{ name, content, err string }{
		{"half a document", "kind: NodeConfig\nmeta", "not valid YAML: line 2: could not find expected ':'"},
		{"empty", "", "holds no document; to keep nothing from it any more, remove the file"},
		{"only comments", "# a: b\n", "holds no document; to keep nothing from it any more, remove the file"},
		{"larger than anything", strings.Repeat("# 0123456789\n", nodeconfig.MaxFile/13+1), "larger than 16 MiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newTestFolder(t)
			f.write(t, "a.yaml", nodetest.Doc("a", "one")+nodetest.Doc("b", "one"))
			f.poll(t)
			f.write(t, "a.yaml", tt.content)
			f.poll(t)
			f.want(t, map[string]string{"a": "one (" + tt.err + ")", "b": "one (" + tt.err + ")"})
			if f.complete() {
				t.Error("the directory is whole")
			}
			f.write(t, "a.yaml", tt.content+"\n# another\n")
			f.poll(t)
			if n := strings.Count(f.said.String(), "\n"); n != 1 {
				t.Errorf("%d lines were logged, want 1:\n%s", n, &f.said)
			}
			f.write(t, "a.yaml", nodetest.Doc("a", "one"))
			f.poll(t)
			f.want(t, map[string]string{"a": "one"})
			if !f.complete() {
				t.Error("the directory is not whole again")
			}
		})
	}
}

// A mistake in one document keeps the others of its file going, and what the file
// no longer holds may be missing because of the mistake.
func TestFolder_oneBadDocument(t *testing.T) {
	f := newTestFolder(t)
	f.write(t, "a.yaml", nodetest.Doc("a", "one")+nodetest.Doc("b", "one")+nodetest.Doc("c", "one"))
	f.poll(t)
	f.write(t, "a.yaml", nodetest.Doc("a", "two")+strings.Replace(nodetest.Doc("b", "two"), "setting", "seting", 1))
	f.poll(t)
	const mistake = `spec.type: unknown handler "seting": use blind or setting`
	f.want(t, map[string]string{"a": "two", "b": "one (" + mistake + ")",
		"c": "one (missing in a file that has an error: " + mistake + ")"})
	if f.poll(t) {
		t.Error("changed although nobody wrote")
	}
	f.write(t, "a.yaml", nodetest.Doc("a", "two"))
	f.poll(t)
	f.want(t, map[string]string{"a": "two"})
}

func TestFolder_badDocumentsFromTheStart(t *testing.T) {
	f := newTestFolder(t)
	f.write(t, "a.yaml", nodetest.Doc("a", "one")+strings.Replace(nodetest.Doc("b", "one"), "path: /", "path: ", 1)+"---\nkind: Pod\n")
	f.poll(t)
	f.want(t, map[string]string{"a": "one", "b": "nothing (params.path: must be absolute)",
		"": `nothing (line 12: kind: must be NodeConfig, ConfigMap or Secret, not "Pod")`})
	unread, invalid := f.nameless()
	if len(unread) != 0 || len(invalid) != 1 {
		t.Errorf("unread %v, invalid %v", unread, invalid)
	}
	if n := strings.Count(f.said.String(), "level=ERROR"); n != 1 || !strings.Contains(f.said.String(), "a.yaml document 3: line 12") {
		t.Errorf("said:\n%s", &f.said)
	}
}

func TestFolder_nameInTwoFiles(t *testing.T) {
	f := newTestFolder(t)
	f.write(t, "a.yaml", nodetest.Doc("x", "one"))
	f.write(t, "b.yaml", nodetest.Doc("x", "two"))
	f.write(t, "c.yaml", nodetest.Doc("x", "three"))
	f.poll(t)
	configs := f.configs()
	for i, other := range []string{"b.yaml", "a.yaml", "a.yaml"} {
		want := "metadata.name: x is the name in " + filepath.Join(f.dir, other) + " too, so none of them is kept: rename or remove one"
		if got := nodeconfig.Text(configs[i].Err); got != want || configs[i].Effective() != nil {
			t.Errorf("%s: error %q, want %q", configs[i].Source, got, want)
		}
	}
	for _, name := range []string{"b.yaml", "c.yaml"} {
		if err := os.Remove(filepath.Join(f.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	f.poll(t)
	f.want(t, map[string]string{"x": "one"})
}

func TestFolder_thatIsGoneRemovesNothing(t *testing.T) {
	f := newTestFolder(t)
	f.write(t, "a.yaml", nodetest.Doc("a", "one"))
	f.poll(t)
	if err := os.Rename(f.dir, f.dir+".away"); err != nil {
		t.Fatal(err)
	}
	if changed, err := f.scan(false); changed || err == nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("changed %v, error %v", changed, err)
	}
	f.want(t, map[string]string{"a": "one"})
}

func TestFolder_pipesAndDeadLinks(t *testing.T) {
	f := newTestFolder(t)
	if err := os.Symlink("/dev/zero", filepath.Join(f.dir, "zero.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(f.dir, "dead.yaml")); err != nil {
		t.Fatal(err)
	}
	f.poll(t)
	unread, _ := f.nameless()
	var got []string
	for _, err := range unread {
		got = append(got, strings.TrimPrefix(err.Error(), f.dir+"/"))
	}
	if diff := cmp.Diff([]string{"dead.yaml: no such file or directory", "zero.yaml: not a regular file"}, got); diff != "" {
		t.Errorf("unread (-want +got):\n%s", diff)
	}
	if n := strings.Count(f.said.String(), "\n"); n != 2 {
		t.Errorf("%d lines were logged, want 2:\n%s", n, &f.said)
	}
}

func TestFolder_warnsOfUnknownParameters(t *testing.T) {
	f := newTestFolder(t)
	f.write(t, "a.yaml", strings.Replace(nodetest.Doc("a", "one"), "value: one", "value: one, vlaue: secret, color: secret", 1))
	f.poll(t)
	want := "level=WARN msg=\"unknown parameter has no effect\" target=a handler=setting param=color source=" + f.dir + "/a.yaml known=path,value\n" +
		"level=WARN msg=\"unknown parameter has no effect; is the nearest one meant?\" target=a handler=setting param=vlaue source=" + f.dir + "/a.yaml nearest=value\n"
	if diff := cmp.Diff(want, f.said.String()); diff != "" {
		t.Errorf("said (-want +got):\n%s", diff)
	}
}
