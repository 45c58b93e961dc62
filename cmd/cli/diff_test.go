package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/plugin"
)

func TestDiff_output(t *testing.T) {
	const four = "kind: Note\nname: a\nwant: one\n---\nkind: Note\nname: b\nwant: two\n---\nkind: Note\nname: c\nwant: x\nunknown: not for you\n---\nkind: Note\nname: d\nwant: there\nremark: ask first\n"
	tests := []struct {
		name    string
		docs    string
		args    []string
		want    int
		wantOut string
		wantErr string
	}{
		{
			name:    "same",
			docs:    "kind: Note\nname: b\nwant: two\n",
			wantOut: "b.text: same (two)\ndiff: 1 same, 0 drift, 0 unknown, 0 not declared, 0 not compared; no drift\n",
		},
		{
			name: "drift is worse than unknown",
			docs: four,
			want: 14,
			wantOut: "a.text: drift (declared one, observed nothing)\n" +
				"b.text: same (two)\n" +
				"c.text: unknown (declared x; not inferred: not for you)\n" +
				"d.text: drift (declared there, observed else; ask first)\n" +
				"diff: 1 same, 2 drift, 1 unknown, 0 not declared, 0 not compared; drift found\n",
		},
		{
			name: "unknown",
			docs: "kind: Note\nname: c\nwant: x\nunknown: not for you\n",
			want: 13,
			wantOut: "c.text: unknown (declared x; not inferred: not for you)\n" +
				"diff: 0 same, 0 drift, 1 unknown, 0 not declared, 0 not compared; no drift, but declared fields could not be observed\n",
		},
		{
			name: "an invalid document does not hide the others' drift",
			docs: "kind: Note\nname: a\ninvalid: bad mode,bad path\n---\nkind: Note\nname: a\nwant: one\n",
			want: 3,
			wantOut: "a.text: drift (declared one, observed nothing)\n" +
				"diff: 0 same, 1 drift, 0 unknown, 0 not declared, 0 not compared; drift found\n",
			wantErr: "Error: DIR/notes.yaml document 1: bad mode\nError: DIR/notes.yaml document 1: bad path\n",
		},
		{
			name:    "nothing could be compared, so there is no summary",
			docs:    "kind: Note\nname: a\nbroken: no answer\n",
			want:    13,
			wantErr: "Error: a: no answer\n",
		},
		{
			name:    "what cannot be compared",
			docs:    "kind: Order\nname: a\n",
			want:    13,
			wantErr: "Error: DIR/notes.yaml: kind Order is not compared here\n",
		},
		{
			name:    "a file that is missing",
			docs:    "kind: Note\nname: b\nwant: two\n",
			args:    []string{"-f", "DIR/none.yaml"},
			want:    2,
			wantOut: "b.text: same (two)\ndiff: 1 same, 0 drift, 0 unknown, 0 not declared, 0 not compared; no drift, but declared fields could not be observed\n",
			wantErr: "Error: DIR/none.yaml: no such file or directory\n",
		},
		{
			name:    "an Instance by -f",
			docs:    "version: 1\nwant: two\n",
			want:    14,
			wantOut: "instance.text: drift (declared two, observed nothing)\ndiff: 0 same, 1 drift, 0 unknown, 0 not declared, 0 not compared; drift found\n",
		},
		{
			name:    "values cannot speak to the terminal",
			docs:    "kind: Note\nname: b\nwant: \"\\e]0;owned\\a\"\n",
			want:    14,
			wantOut: `b.text: drift (declared \x1b]0;owned\a, observed two)` + "\ndiff: 0 same, 1 drift, 0 unknown, 0 not declared, 0 not compared; drift found\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.have = map[string]string{"b": "two", "d": "else"}
			args := []string{"diff", "--root", b.dir, "-f", b.write("notes.yaml", tt.docs)}
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
		})
	}
}

func TestDiff_json(t *testing.T) {
	b := newBench(t)
	file := b.write("notes.yaml", "kind: Note\nname: a\nwant: \"<\\u00e9\\U0001f600\\u007f>\"\n")
	want := `{
  "spec": "` + file + `",
  "root": "` + b.dir + `",
  "fields": [
    {
      "field": "a.text",
      "section": "a",
      "status": "drift",
      "declared": "<\u00e9\ud83d\ude00\u007f>",
      "observed": null,
      "reason": "",
      "note": ""
    }
  ],
  "counts": {
    "same": 0,
    "drift": 1,
    "unknown": 0,
    "not_declared": 0,
    "not_compared": 0
  },
  "drift": true,
  "incomplete": false,
  "exit_code": 14
}
`
	for _, flag := range [][]string{{"-o", "json"}, {"--output=json"}, {"--format", "json"}} {
		t.Run(flag[0], func(t *testing.T) {
			code, out, errs := b.run(append(flag, "diff", "--root", b.dir, "-f", file)...)
			if code == 1 { // flags of a subcommand stand behind it
				code, out, errs = b.run(append([]string{"diff", "--root", b.dir, "-f", file}, flag...)...)
			}
			if code != 14 || errs != "" {
				t.Errorf("exit %d, err %q", code, errs)
			}
			if diff := cmp.Diff(want, out); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDiff_specification(t *testing.T) {
	tests := []struct {
		name    string
		spec    string // content; "none": there is no file
		args    []string
		env     map[string]string
		want    int
		wantOut string
		wantErr string
	}{
		{
			name: "absent", spec: "none", args: []string{"--spec", "DIR/spec.yaml"},
			wantErr: "DIR/spec.yaml: not found, nothing to do\n",
		},
		{
			name: "absent, by the environment", spec: "none", env: map[string]string{"KEEL_SPEC": "DIR/spec.yaml"},
			wantErr: "DIR/spec.yaml: not found, nothing to do\n",
		},
		{
			name: "absent where nobody named it", spec: "none",
			wantErr: "/etc/keel/instance.yaml: not found, nothing to do\nNothing was compared: neither -f, --spec nor KEEL_SPEC names anything; --require makes this an error\n",
		},
		{
			name: "absent, and required", spec: "none", args: []string{"--spec", "DIR/spec.yaml", "--require"}, want: 2,
			wantErr: "Error: DIR/spec.yaml: file does not exist\n",
		},
		{
			name: "documents that are absent", spec: "none", args: []string{"-f", "DIR/spec.yaml"}, want: 2,
			wantErr: "Error: DIR/spec.yaml: no such file or directory\n",
		},
		{
			name: "a link to nothing", spec: "none", args: []string{"--spec", "DIR/link.yaml"}, want: 2,
			wantErr: "Error: DIR/link.yaml: is a link that leads to no file\n",
		},
		{
			name: "a name that is empty", spec: "none", args: []string{"--spec", ""}, want: 1,
			wantErr: "Usage: keel diff [-f FILE|DIR|-] [--spec FILE] [flags]\nError: --spec is empty: name the appliance's specification, or documents with -f\n",
		},
		{
			name: "documents whose name is empty", spec: "version: 1\n", args: []string{"-f", ""}, want: 1,
			wantErr: "Usage: keel diff [-f FILE|DIR|-] [--spec FILE] [flags]\nError: --filename: must be a list of texts; item 1 is empty\n",
		},
		{
			name: "the flag wins over the environment", spec: "version: 1\n", args: []string{"--spec", "DIR/spec.yaml"}, env: map[string]string{"KEEL_SPEC": "DIR/none.yaml"},
			wantOut: "instance.text: same (nothing)\ndiff: 1 same, 0 drift, 0 unknown, 0 not declared, 0 not compared; no drift\n",
		},
		{
			name: "empty", spec: "# nothing\n", args: []string{"--spec", "DIR/spec.yaml"}, want: 2,
			wantErr: "Error: DIR/spec.yaml: file is empty\n",
		},
		{
			name: "not YAML", spec: "a: [\n", args: []string{"--spec", "DIR/spec.yaml"}, want: 2,
			wantErr: "Error: DIR/spec.yaml: not valid YAML: line 1: did not find expected node content\n",
		},
		{
			name: "two documents", spec: "version: 1\n---\nversion: 1\n", args: []string{"--spec", "DIR/spec.yaml"}, want: 2,
			wantErr: "Error: DIR/spec.yaml: holds 2 documents, want one\n",
		},
		{
			name: "invalid, and nothing is inspected", spec: "version: 1\ninvalid: bad name,bad address\n", args: []string{"--spec", "DIR/spec.yaml", "--format", "json"}, want: 3,
			wantErr: "Error: DIR/spec.yaml: bad name\nError: DIR/spec.yaml: bad address\n",
		},
		{
			name: "invalid, of documents that are named", spec: "version: 1\ninvalid: bad name,bad address\n", args: []string{"-f", "DIR/spec.yaml", "--format", "json"}, want: 3,
			wantErr: "Error: DIR/spec.yaml: bad name\nError: DIR/spec.yaml: bad address\n",
			wantOut: `{
  "spec": "DIR/spec.yaml",
  "root": "DIR",
  "fields": [],
  "counts": {
    "same": 0,
    "drift": 0,
    "unknown": 0,
    "not_declared": 0,
    "not_compared": 0
  },
  "drift": false,
  "incomplete": true,
  "exit_code": 3,
  "errors": [
    "DIR/spec.yaml: bad name",
    "DIR/spec.yaml: bad address"
  ]
}
`,
		},
		{
			name: "another version is the appliance's to refuse", spec: "version: 2\n", args: []string{"--spec", "DIR/spec.yaml"}, want: 3,
			wantErr: "Error: DIR/spec.yaml: version: must be 1\n",
		},
		{
			name: "a form that there is not", spec: "version: 1\n", args: []string{"--spec", "DIR/spec.yaml", "--format", "xml"}, want: 1,
			wantErr: "Usage: keel diff [-f FILE|DIR|-] [--spec FILE] [flags]\nError: --output: must be one of text, json, not \"xml\"\n",
		},
		{
			name: "both", spec: "version: 1\n", args: []string{"--spec", "DIR/spec.yaml", "-f", "DIR/spec.yaml"}, want: 1,
			wantErr: "Usage: keel diff [-f FILE|DIR|-] [--spec FILE] [flags]\nError: -f and --spec exclude each other\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			for name, value := range tt.env {
				t.Setenv(name, strings.ReplaceAll(value, "DIR", b.dir))
			}
			if tt.spec != "none" {
				b.write("spec.yaml", tt.spec)
			}
			if err := os.Symlink("nowhere", filepath.Join(b.dir, "link.yaml")); err != nil {
				t.Fatal(err)
			}
			args := []string{"diff", "--root", b.dir}
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
		})
	}
}

func TestBatch_everyMistakeNamesItsFile(t *testing.T) {
	b := batch{docs: []plugin.Doc{{Source: "a.yaml"}, {Source: "b.yaml"}}}
	for _, tt := range []struct{ err, want string }{
		{"b.yaml: line 3: one\nline 6: two", "b.yaml: line 3: one\nb.yaml: line 6: two"},
		{"disk on fire\nand more", "disk on fire\nand more"},
	} {
		r := b.sourced(drift.Result{Target: "b", Err: exitWith(exitInvalid, errors.New(tt.err))})
		if r.Err.Error() != tt.want || codeOf(r.Err) != exitInvalid {
			t.Errorf("%q becomes %q with code %d, want %q", tt.err, r.Err, codeOf(r.Err), tt.want)
		}
	}
	if r := b.sourced(drift.Result{}); r.Err != nil {
		t.Error(r.Err)
	}
}
