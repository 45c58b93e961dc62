package host

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tlspu/keel/test/parts"
)

// onlyReader hides that a reader can seek.
type onlyReader struct{ io.Reader }

func TestPut_contentAndMode(t *testing.T) {
	old := func(content string, perm fs.FileMode) func(t *testing.T, path string) {
		return func(t *testing.T, path string) { create(t, path, content, perm) }
	}
	big := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
	tests := []struct {
		name     string
		before   func(t *testing.T, path string)
		content  string
		attr     Attr
		want     bool
		wantMode fs.FileMode
	}{
		{"new without a mode", nil, "a\n", Attr{}, true, 0o600},
		{"new, fresh", nil, "a\n", Attr{Fresh: 0o644}, true, 0o644},
		{"new with a mode", nil, "a\n", Attr{Mode: mode(0o640), Fresh: 0o644}, true, 0o640},
		{"new with no rights at all", nil, "a\n", Attr{Mode: mode(0)}, true, 0},
		{"new with all rights", nil, "a\n", Attr{Mode: mode(0o777)}, true, 0o777},
		{"new and private", nil, "a\n", Attr{Private: true, Fresh: 0o644}, true, 0o600},
		{"empty", nil, "", Attr{Fresh: 0o644}, true, 0o644},
		{"equal", old("a\n", 0o640), "a\n", Attr{Fresh: 0o644}, false, 0o640},
		{"equal and empty", old("", 0o640), "", Attr{}, false, 0o640},
		{"equal, other mode", old("a\n", 0o640), "a\n", Attr{Mode: mode(0o600)}, true, 0o600},
		{"equal, same mode", old("a\n", 0o640), "a\n", Attr{Mode: mode(0o640)}, false, 0o640},
		{"equal, private and narrow", old("a\n", 0o400), "a\n", Attr{Private: true, Fresh: 0o644}, false, 0o400},
		{"equal, private and wide", old("a\n", 0o444), "a\n", Attr{Private: true, Fresh: 0o644}, true, 0o400},
		{"equal, private with a mode", old("a\n", 0o640), "a\n", Attr{Private: true, Mode: mode(0o640)}, false, 0o640},
		{"other content keeps the mode", old("b\n", 0o640), "a\n", Attr{}, true, 0o640},
		{"other content, fresh", old("b\n", 0o640), "a\n", Attr{Fresh: 0o644}, true, 0o644},
		{"other content, private", old("b\n", 0o644), "a\n", Attr{Private: true}, true, 0o600},
		{"longer", old("a", 0o644), "a\n", Attr{}, true, 0o644},
		{"shorter", old("a\n\n\n", 0o644), "a\n", Attr{}, true, 0o644},
		{"no final newline", old("a\n", 0o644), "a", Attr{}, true, 0o644},
		{"blank lines at the end", old("abc\n", 0o644), "abc\n\n\n", Attr{}, true, 0o644},
		{"1 MiB", nil, big, Attr{Fresh: 0o644}, true, 0o644},
		{"1 MiB that differs at its end", old(big[1:]+"x", 0o644), big, Attr{}, true, 0o644},
		{"equal 1 MiB", old(big, 0o644), big, Attr{}, false, 0o644},
	}
	for _, tt := range tests {
		for _, r := range []struct {
			name string
			make func(s string) io.Reader
		}{
			{"seekable", func(s string) io.Reader { return strings.NewReader(s) }},
			{"stream", func(s string) io.Reader { return onlyReader{strings.NewReader(s)} }},
		} {
			t.Run(tt.name+"/"+r.name, func(t *testing.T) {
				if tt.wantMode == 0 {
					parts.Need(t, "root") // nobody else reads it again
				}
				root := t.TempDir()
				file := filepath.Join(root, "etc", "f")
				create(t, filepath.Join(root, "etc", "other"), "x", 0o644)
				if tt.before != nil {
					tt.before(t, file)
				}
				tree := openTree(t, root)
				for _, want := range []bool{tt.want, false} { // and the second time nothing
					changed, err := tree.Put(t.Context(), "/etc/f", r.make(tt.content), tt.attr)
					if err != nil || changed != want {
						t.Fatalf("Put = %v, %v, want %v", changed, err, want)
					}
				}
				info, err := os.Stat(file)
				if err != nil {
					t.Fatal(err)
				}
				if got := info.Mode(); got != tt.wantMode {
					t.Errorf("mode is %v, want %v", got, tt.wantMode)
				}
				if got, err := tree.Read("/etc/f", 2<<20); err != nil && tt.wantMode != 0 || err == nil && !bytes.Equal(got, []byte(tt.content)) {
					t.Errorf("content is wrong (%d bytes, %v)", len(got), err)
				}
				if l := leftovers(t, root); l != nil {
					t.Errorf("left behind: %v", l)
				}
			})
		}
	}
}

func TestPut_refused(t *testing.T) {
	tests := []struct {
		name string
		path string
		attr Attr
		want string
	}{
		{"special bits", "/etc/f", Attr{Mode: mode(0o4755)}, "more than permission bits"},
		{"special bits of fs", "/etc/f", Attr{Mode: mode(0o755 | fs.ModeSetuid)}, "more than permission bits"},
		{"special bits when fresh", "/etc/f", Attr{Fresh: 0o1644}, "more than permission bits"},
		{"no parent", "/no/f", Attr{}, "no such file or directory"},
		{"a file as parent", "/etc/f/g", Attr{Parents: 0o755}, "not a directory"},
		{"a directory", "/etc", Attr{}, "is a directory, not a regular file"},
		{"a directory by its slash", "/etc/f/", Attr{}, "not a directory"},
		{"the root", "/", Attr{}, "names a directory"},
		{"up", "/etc/..", Attr{}, "names a directory"},
		{"empty", "", Attr{}, "invalid argument"},
		{"a NUL", "/etc/f\x00g", Attr{}, "invalid argument"},
		{"a name too long", "/etc/" + strings.Repeat("n", 256), Attr{}, "file name too long"},
		{"no temporary directory", "/etc/g", Attr{Temp: "/tmp"}, "temporary directory /tmp: no such file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			create(t, filepath.Join(root, "etc", "f"), "old", 0o644)
			changed, err := openTree(t, root).Put(t.Context(), tt.path, strings.NewReader("new"), tt.attr)
			if changed || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Put = %v, %v, want an error with %q", changed, err, tt.want)
			}
			if got, err := os.ReadFile(filepath.Join(root, "etc", "f")); err != nil || string(got) != "old" {
				t.Errorf("the old file holds %q, %v", got, err)
			}
			if l := leftovers(t, root); l != nil {
				t.Errorf("left behind: %v", l)
			}
		})
	}
}

func TestPut_longestName(t *testing.T) {
	root := t.TempDir()
	name := "/" + strings.Repeat("n", 255)
	tree := openTree(t, root)
	for _, content := range []string{"one", "two"} {
		check := func(_ context.Context, path string) error {
			_, err := tree.Read(path, 10)
			return err
		}
		if changed, err := tree.Put(t.Context(), name, strings.NewReader(content), Attr{Check: check}); err != nil || !changed {
			t.Fatalf("Put = %v, %v", changed, err)
		}
	}
	if got, err := tree.Read(name, 10); err != nil || string(got) != "two" {
		t.Errorf("Read = %q, %v", got, err)
	}
}

func TestPut_brokenReader(t *testing.T) {
	root := t.TempDir()
	create(t, filepath.Join(root, "f"), "old", 0o644)
	broken := errors.New("broken")
	r := io.MultiReader(strings.NewReader("new"), errReader{broken})
	changed, err := openTree(t, root).Put(t.Context(), "/f", r, Attr{})
	if changed || !errors.Is(err, broken) {
		t.Errorf("Put = %v, %v, want the reader's error", changed, err)
	}
	if got, err := os.ReadFile(filepath.Join(root, "f")); err != nil || string(got) != "old" {
		t.Errorf("the old file holds %q, %v", got, err)
	}
	if l := leftovers(t, root); l != nil {
		t.Errorf("left behind: %v", l)
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func TestPut_cancelled(t *testing.T) {
	root := t.TempDir()
	create(t, filepath.Join(root, "f"), "old", 0o644)
	tree := openTree(t, root)
	ctx, cancel := context.WithCancel(t.Context())
	check := func(context.Context, string) error {
		cancel() // before the rename is soon enough
		return nil
	}
	changed, err := tree.Put(ctx, "/f", strings.NewReader("new"), Attr{Check: check})
	if changed || !errors.Is(err, context.Canceled) {
		t.Errorf("Put = %v, %v, want cancelled", changed, err)
	}
	if got, err := os.ReadFile(filepath.Join(root, "f")); err != nil || string(got) != "old" {
		t.Errorf("the old file holds %q, %v", got, err)
	}
	if changed, err := tree.Put(ctx, "/g", strings.NewReader("new"), Attr{}); changed || !errors.Is(err, context.Canceled) {
		t.Errorf("Put = %v, %v, want cancelled", changed, err)
	}
	if l := leftovers(t, root); l != nil {
		t.Errorf("left behind: %v", l)
	}
}

func TestPut_check(t *testing.T) {
	root := t.TempDir()
	create(t, filepath.Join(root, "etc", "sudoers"), "old", 0o440)
	tree := openTree(t, root)
	refuse := errors.New("line 1: syntax error")
	var verdict error
	var seen string
	check := func(_ context.Context, path string) error {
		content, err := tree.Read(path, 100)
		if err != nil {
			return err
		}
		seen = filepath.Base(path) + ": " + string(content)
		dir, err := tree.Stat(filepath.Dir(path))
		if err != nil {
			return err
		}
		if dir.Mode().Perm() != 0o700 {
			t.Errorf("the directory of the copy has mode %v", dir.Mode())
		}
		// What a checker does to its copy is its own affair.
		if err := os.WriteFile(filepath.Join(root, path), []byte("ruined"), 0o600); err != nil {
			t.Error(err)
		}
		return verdict
	}
	for _, tt := range []struct {
		name    string
		verdict error
		want    string
	}{
		{"refused", refuse, "old"},
		{"accepted", nil, "new"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			verdict, seen = tt.verdict, ""
			changed, err := tree.Put(t.Context(), "/etc/sudoers", strings.NewReader("new"), Attr{Check: check})
			if changed != (tt.verdict == nil) || !errors.Is(err, tt.verdict) {
				t.Errorf("Put = %v, %v", changed, err)
			}
			if seen != "sudoers: new" {
				t.Errorf("Check saw %q", seen)
			}
			if got, err := os.ReadFile(filepath.Join(root, "etc", "sudoers")); err != nil || string(got) != tt.want {
				t.Errorf("the file holds %q, %v", got, err)
			}
			if l := leftovers(t, root); l != nil {
				t.Errorf("left behind: %v", l)
			}
		})
	}
}

func TestPut_parents(t *testing.T) {
	root := t.TempDir()
	tree := openTree(t, root)
	changed, err := tree.Put(t.Context(), "/a/b/../c/f", strings.NewReader("x"), Attr{Parents: 0o750})
	if err != nil || !changed {
		t.Fatalf("Put = %v, %v", changed, err)
	}
	for _, dir := range []string{"a", "a/b", "a/c"} {
		info, err := os.Stat(filepath.Join(root, dir))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != fs.ModeDir|0o750 {
			t.Errorf("%s has mode %v", dir, info.Mode())
		}
	}
	// After an error what was made is gone, and what somebody else uses by then stays.
	for name, busy := range map[string]bool{"n": false, "m": true} {
		fail := readerFunc(func([]byte) (int, error) {
			if busy {
				create(t, filepath.Join(root, name, "o/theirs"), "", 0o600)
			}
			return 0, io.ErrUnexpectedEOF
		})
		changed, err := tree.Put(t.Context(), "/"+name+"/o/p/f", fail, Attr{Parents: 0o750})
		if err == nil || changed != busy {
			t.Errorf("Put = %v, %v, want %v and an error", changed, err, busy)
		}
		if _, err := os.Stat(filepath.Join(root, name, "o")); (err == nil) != busy {
			t.Errorf("%s afterwards: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(root, name, "o/p")); err == nil {
			t.Errorf("%s: the empty directory stays", name)
		}
	}
}

func TestPut_temporaryFolder(t *testing.T) {
	root := t.TempDir()
	tree := openTree(t, root)
	if _, err := tree.Mkdir("/spool", 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Mkdir("/conf.d", 0o755); err != nil {
		t.Fatal(err)
	}
	var seen []string
	look := func(context.Context, string) (err error) {
		seen = leftovers(t, filepath.Join(root, "conf.d"))
		return err
	}
	changed, err := tree.Put(t.Context(), "/conf.d/f", strings.NewReader("x"), Attr{Temp: "/spool", Check: look})
	if err != nil || !changed || seen != nil {
		t.Errorf("Put = %v, %v, in the file's own directory lay %v", changed, err, seen)
	}
	if err := os.Chmod(filepath.Join(root, "spool"), 0o777); err != nil {
		t.Fatal(err)
	}
	_, err = tree.Put(t.Context(), "/conf.d/f", strings.NewReader("y"), Attr{Temp: "/spool"})
	if err == nil || !strings.Contains(err.Error(), "others may replace") {
		t.Errorf("Put = %v, want an error: everybody may rename in its temporary directory", err)
	}
}

// zeros gives n zero bytes and keeps none.
type zeros struct{ n int }

func (z *zeros) Read(b []byte) (int, error) {
	if z.n == 0 {
		return 0, io.EOF
	}
	k := min(len(b), z.n)
	clear(b[:k])
	z.n -= k
	return k, nil
}

func TestPut_largeContentIsStreamed(t *testing.T) {
	const size = 64 << 20
	root := scratch(t)
	tree := openTree(t, root)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, want := range []bool{true, false} {
		changed, err := tree.Put(t.Context(), "/f", &zeros{size}, Attr{})
		if err != nil || changed != want {
			t.Fatalf("Put = %v, %v, want %v", changed, err, want)
		}
	}
	runtime.ReadMemStats(&after)
	if info, err := tree.Stat("/f"); err != nil || info.Size() != size {
		t.Errorf("the file has %d bytes, %v", info.Size(), err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
		t.Errorf("it took %d bytes of memory", used)
	}
}

func TestPut_cancelledInTheMiddle(t *testing.T) {
	root := scratch(t)
	ctx, cancel := context.WithCancel(t.Context())
	r := io.MultiReader(&zeros{2 << 20}, readerFunc(func([]byte) (int, error) { cancel(); return 0, io.EOF }), &zeros{2 << 20})
	changed, err := openTree(t, root).Put(ctx, "/f", r, Attr{})
	if changed || !errors.Is(err, context.Canceled) {
		t.Errorf("Put = %v, %v", changed, err)
	}
	if l := leftovers(t, root); l != nil {
		t.Errorf("left behind: %v", l)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
