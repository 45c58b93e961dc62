package cli

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFailure_hasAJSONDocument(t *testing.T) {
	const form = "{\n  \"errors\": [\n    \"%\"\n  ],\n  \"exit_code\": "
	tests := []struct {
		name string
		args []string
		env  map[string]string
		want int
		text string // in the document
	}{
		{"apply to no root", []string{"apply", "-f", "-", "--root", "/none", "-o", "json"}, nil, 2, "root /none: no such file or directory: name the machine's root with --root; / is this machine"},
		{"apply to this machine without uid 0", []string{"apply", "-f", "-", "--root", "/", "-o", "json"}, nil, 15,
			"root / is this machine: changing it needs uid 0; run keel as root, or look with --dry-run"},
		{"diff of no root", []string{"diff", "-f", "-", "--root", "/none", "--format=json"}, nil, 2, "root /none: no such file or directory: name the machine's root with --root; / is this machine"},
		{"no documents", []string{"validate", "-o", "json"}, nil, 1, "name the documents with -f FILE, -f DIR or -f -"},
		{"an unknown flag", []string{"validate", "-o", "json", "--nope"}, nil, 1, "unknown flag: --nope (see keel validate --help)"},
		{"no settings file", []string{"validate", "-f", "-"}, map[string]string{"KEEL_VALIDATE_OUTPUT": "json", "KEEL_CONFIG": "/none"}, 2,
			"settings file: /none: no such file or directory"},
		{"a wrong setting", []string{"apply", "-f", "-"}, map[string]string{"KEEL_APPLY_OUTPUT": "json", "KEEL_APPLY_DRY_RUN": "perhaps"}, 3,
			`environment variable KEEL_APPLY_DRY_RUN: must be true or false, not \"perhaps\"`},
		{"a handler that there is not", []string{"explain", "stmp", "-o", "json"}, nil, 1, `unknown handler \"stmp\": use stamp`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.uid = 1000
			for name, value := range tt.env {
				t.Setenv(name, value)
			}
			code, out, errs := b.run(tt.args...)
			want := strings.Replace(form, "%", tt.text, 1) + strconv.Itoa(tt.want) + "\n}\n"
			if diff := cmp.Diff(want, out); code != tt.want || diff != "" || errs == "" {
				t.Errorf("exit %d, err %q, out (-want +got):\n%s", code, errs, diff)
			}
		})
	}
}

func TestFailure_interrupted(t *testing.T) {
	b := newBench(t)
	ctx, interrupt := context.WithCancel(t.Context())
	b.ctx = ctx
	interrupt()
	code, out, _ := b.run("validate", "-f", b.write("a.yaml", "kind: Note\n"), "-o", "json")
	if want := "{\n  \"errors\": [\n    \"interrupted\"\n  ],\n  \"exit_code\": 130\n}\n"; code != 130 || out != want {
		t.Errorf("exit %d, out %s", code, out)
	}
}

func TestMessages_namesOfFilesForgeNoLines(t *testing.T) {
	for _, content := range []string{"kind: Note\nname: a\ninvalid: bad mode,bad path\n", "kind: [\n", ""} {
		for _, command := range []string{"validate", "diff", "apply"} {
			b := newBench(t)
			b.write("docs/a\nError: forged.yaml", content)
			args := []string{command, "-f", filepath.Join(b.dir, "docs")}
			if command != "validate" {
				args = append(args, "--root", b.dir)
			}
			code, out, errs := b.run(args...)
			if code == 0 || strings.Contains("\n"+errs+out, "\nError: forged") {
				t.Errorf("%s of %q: exit %d, out %q, err %q", command, content, code, out, errs)
			}
		}
	}
	b := newBench(t)
	if err := os.Mkdir(filepath.Join(b.dir, "x\nError: forged"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, _, errs := b.run("validate", "-f", filepath.Join(b.dir, "x\nError: forged")); strings.Contains(errs, "\nError: forged") {
		t.Errorf("an empty directory: %q", errs)
	}
}

func TestHelp_oneLineOfUsage(t *testing.T) {
	for _, args := range [][]string{{"help"}, {"help", "note"}, {"help", "completion"}, {"help", "completion", "bash"}, {"help", "apply"}} {
		code, out, _ := newBench(t).run(args...)
		_, usage, ok := strings.Cut(out, "Usage:\n")
		usage, _, _ = strings.Cut(usage, "\n\n")
		if code != 0 || !ok || strings.Contains(usage, "\n") || strings.Contains(out, "[command]") || strings.Contains(out, "Generate the autocompletion") {
			t.Errorf("%s: exit %d, out %s", args, code, out)
		}
	}
}
