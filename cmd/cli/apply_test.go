package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/core/host"
)

func TestApply_output(t *testing.T) {
	tests := []struct {
		name    string
		have    map[string]string
		docs    string
		args    []string
		want    int
		wantOut string
		wantErr string
		after   map[string]string
	}{
		{
			name:    "changed and unchanged",
			have:    map[string]string{"b": "two"},
			docs:    "kind: Note\nname: a\nwant: one\n---\nkind: Note\nname: b\nwant: two\n",
			wantOut: "changed   a\nunchanged b\n",
			after:   map[string]string{"a": "one", "b": "two"},
		},
		{
			name:    "a dry run says what it would do and does nothing",
			have:    map[string]string{"b": "two"},
			docs:    "kind: Note\nname: a\nwant: one\n---\nkind: Note\nname: b\nwant: two\n",
			args:    []string{"--dry-run"},
			wantOut: "would change a\n  would write a \"one\"\nunchanged b\n",
			after:   map[string]string{"b": "two"},
		},
		{
			name:    "a step fails, others go on",
			docs:    "kind: Note\nname: a\nwant: one\nfail: disk full\n---\nkind: Note\nname: b\nwant: two\n",
			want:    16,
			wantOut: "error     a: write a \"one\": disk full\nchanged   b\n",
			after:   map[string]string{"b": "two"},
		},
		{
			name:    "an invalid document among valid ones",
			docs:    "kind: Note\nname: a\ninvalid: bad mode,bad path\n---\nkind: Note\nname: b\nwant: two\n",
			want:    3,
			wantOut: "error     DIR/notes.yaml document 1: bad mode; bad path\nchanged   b\n",
			after:   map[string]string{"b": "two"},
		},
		{
			name:    "unreadable is worse than invalid, which is worse than failed",
			docs:    "kind: Note\nname: a\nwant: [\n",
			args:    []string{"-f", "DIR/more"},
			want:    2,
			wantOut: "error     DIR/notes.yaml: not valid YAML: line 3: did not find expected node content\nerror     DIR/more: no such file or directory\n",
		},
		{
			name:    "a noted drift is refused",
			docs:    "kind: Note\nname: a\nwant: one\nremark: ask first\n",
			want:    16,
			wantOut: "error     a: write a \"one\": refused: text is left as it is: ask first\n",
		},
		{
			name:    "a dry run shows refusals",
			docs:    "kind: Note\nname: a\nwant: one\nremark: ask first\n",
			args:    []string{"--dry-run"},
			want:    16,
			wantOut: "error     a: write a \"one\": refused: text is left as it is: ask first\n",
		},
		{
			name:    "what can only be compared cannot be applied",
			docs:    "version: 1\n",
			want:    16,
			wantOut: "error     instance: kind Instance is not applied, only compared: see keel diff\n",
		},
		{
			name:    "what is not compared says why",
			docs:    "kind: Note\nname: a\nwant: one\nskip: suspended\n",
			wantOut: "unchanged a: suspended\n",
		},
		{
			name:    "handed to an agent",
			docs:    "kind: Order\nname: a\n",
			wantOut: "changed   DIR/notes.yaml\n",
			after:   map[string]string{"a": "ordered"},
		},
		{
			name:    "handed to an agent, dry",
			docs:    "kind: Order\nname: a\n",
			args:    []string{"--dry-run"},
			want:    16,
			wantOut: "error     DIR/notes.yaml: is handed to an agent, which has no dry run\n",
		},
		{
			name:    "an unknown kind lists the known ones",
			docs:    "kind: Nota\nname: a\n",
			want:    3,
			wantOut: "error     DIR/notes.yaml: unknown kind \"Nota\": use Instance, Note or Order\n",
		},
		{
			name:    "escape sequences do not reach the terminal",
			docs:    "kind: Note\nname: \"a\\e[2J\"\nwant: one\nfail: \"line\\nbreak\\a\"\n",
			want:    16,
			wantOut: `error     a\x1b[2J: write a\x1b[2J "one": line; break\a` + "\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			if tt.have != nil {
				b.have = tt.have
			}
			args := []string{"apply", "--root", b.dir, "-f", b.write("notes.yaml", tt.docs)}
			for _, arg := range tt.args {
				args = append(args, strings.ReplaceAll(arg, "DIR", b.dir))
			}
			code, out, errs := b.run(args...)
			if code != tt.want {
				t.Errorf("exit %d, want %d", code, tt.want)
			}
			if diff := cmp.Diff(tt.wantOut, strings.ReplaceAll(out, b.dir, "DIR")); diff != "" {
				t.Errorf("standard output (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.wantErr, strings.ReplaceAll(errs, b.dir, "DIR")); diff != "" {
				t.Errorf("standard error (-want +got):\n%s", diff)
			}
			if tt.after == nil {
				tt.after = map[string]string{}
			}
			if diff := cmp.Diff(tt.after, b.have); diff != "" {
				t.Errorf("machine afterwards (-want +got):\n%s", diff)
			}
		})
	}
}

func TestApply_json(t *testing.T) {
	b := newBench(t)
	file := b.write("notes.yaml", "kind: Note\nname: a\nwant: \"<é>\"\n---\nkind: Note\nname: b\nwant: x\nfail: disk full\n")
	code, out, _ := b.run("apply", "--root", b.dir, "-o", "json", "-f", file)
	if code != 16 {
		t.Errorf("exit %d, want 16", code)
	}
	want := `{
  "root": "` + b.dir + `",
  "dry_run": false,
  "results": [
    {
      "target": "a",
      "result": "changed",
      "changed": true,
      "steps": [
        {
          "text": "write a \"<\u00e9>\"",
          "result": "changed",
          "error": ""
        }
      ],
      "error": "",
      "reason": ""
    },
    {
      "target": "b",
      "result": "error",
      "changed": false,
      "steps": [
        {
          "text": "write b \"x\"",
          "result": "failed",
          "error": "disk full"
        }
      ],
      "error": "write b \"x\": disk full",
      "reason": ""
    }
  ],
  "counts": {
    "changed": 1,
    "unchanged": 0,
    "would_change": 0,
    "error": 1,
    "not_begun": 0
  },
  "exit_code": 16
}
`
	if diff := cmp.Diff(want, out); diff != "" {
		t.Error(diff)
	}
}

func TestApply_rootOfThisMachineNeedsUID0(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/", link); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{"/", "//", "/../", "/usr/..", link, link + "/."} {
		t.Run(root, func(t *testing.T) {
			b := newBench(t)
			b.uid = 1000
			file := b.write("notes.yaml", "kind: Note\nname: a\nwant: one\n")
			code, out, errs := b.run("apply", "-f", file, "--root", root)
			if code != 15 || out != "" || !strings.Contains(errs, "needs uid 0") {
				t.Errorf("exit %d, want 15; out %q, err %q", code, out, errs)
			}
			if len(b.have) > 0 {
				t.Errorf("it was changed: %v", b.have)
			}
			if code, out, errs := b.run("apply", "-f", file, "--root", root, "--dry-run"); code != 0 || !strings.HasPrefix(out, "would change a\n") {
				t.Errorf("dry run: exit %d, out %q, err %q", code, out, errs)
			}
		})
	}
}

func TestApply_withoutUID0AnotherRootIsTried(t *testing.T) {
	b := newBench(t)
	b.uid = 1000
	code, out, errs := b.run("apply", "-f", b.write("notes.yaml", "kind: Note\nname: a\nwant: one\n"), "--root", b.dir)
	if code != 0 || out != "changed   a\n" {
		t.Errorf("exit %d, out %q, err %q", code, out, errs)
	}
}

func TestApply_wrongRoot(t *testing.T) {
	b := newBench(t)
	file := b.write("notes.yaml", "kind: Note\nname: a\nwant: one\n")
	tests := []struct {
		name, root string
		want       int
		wantErr    string
	}{
		{"missing", b.dir + "/none", 2, "Error: root " + b.dir + "/none: no such file or directory: name the machine's root with --root; / is this machine\n"},
		{"a file", file, 2, "Error: root " + file + ": is not a directory\n"},
		{"empty", "", 1, "Usage: keel apply -f FILE|DIR|- [flags]\nError: --root is empty: name the directory of the machine, or /\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, out, errs := b.run("apply", "-f", file, "--root", tt.root)
			if code != tt.want || out != "" || errs != tt.wantErr {
				t.Errorf("exit %d, want %d; out %q, err %q, want %q", code, tt.want, out, errs, tt.wantErr)
			}
		})
	}
}

func TestApply_waitsForTheLockAsLongAsItMay(t *testing.T) {
	b := newBench(t)
	file := b.write("notes.yaml", "kind: Note\nname: a\nwant: one\n")
	tree, err := host.OpenTree(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := tree.Lock(t.Context(), "another run")
	if err != nil {
		t.Fatal(err)
	}
	code, out, _ := b.run("apply", "-f", file, "--root", b.dir, "--lock-timeout", "60ms")
	want := fmt.Sprintf("error     a: the lock of root %s is held by process %d (another run), waited 60ms for it: "+
		"run again when that has ended, or wait longer with --lock-timeout\n", b.dir, os.Getpid())
	if code != 16 || out != want {
		t.Errorf("exit %d, want 16; out %q", code, out)
	}
	if len(b.have) > 0 {
		t.Errorf("it was changed: %v", b.have)
	}
	if code, out, _ := b.run("apply", "-f", file, "--root", b.dir, "--lock-timeout", "0"); code != 16 || out != strings.Replace(want, "60ms", "0s", 1) {
		t.Errorf("without time to wait: exit %d, want 16; out %q", code, out)
	}
	if code, out, _ := b.run("apply", "-f", file, "--root", b.dir, "--dry-run"); code != 0 {
		t.Errorf("a dry run needs no lock: exit %d, out %q", code, out)
	}
	unlock()
	if code, out, _ := b.run("apply", "-f", file, "--root", b.dir, "--lock-timeout", "0"); code != 0 || out != "changed   a\n" {
		t.Errorf("exit %d, out %q", code, out)
	}
	if err := tree.Close(); err != nil {
		t.Error(err)
	}
}

func TestApply_notesAreWarnings(t *testing.T) {
	b := newBench(t)
	file := b.write("notes.yaml", "kind: Note\nname: a\nwant: one\n")
	tree, err := host.OpenTree(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	// The lock says whom it waits for after two seconds: a note like any other.
	unlock, err := tree.Lock(t.Context(), "another run")
	if err != nil {
		t.Fatal(err)
	}
	code, _, errs := b.run("apply", "-f", file, "--root", b.dir, "--lock-timeout", "2500ms")
	if want := "Warning: a: waiting for the lock of this machine, held by "; code != 16 || !strings.HasPrefix(errs, want) {
		t.Errorf("exit %d, err %q, want %q", code, errs, want)
	}
	unlock()
	if err := tree.Close(); err != nil {
		t.Error(err)
	}
}
