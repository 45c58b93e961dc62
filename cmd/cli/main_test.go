package cli

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRun_usage(t *testing.T) {
	tests := []struct {
		name    string
		args    []string
		want    int
		wantOut string // how it begins
		wantErr string // how it begins
	}{
		{"no command", nil, 1, "", "Keel observes machines, compares"},
		{"help", []string{"--help"}, 0, "Keel observes machines, compares", ""},
		{"help of a command", []string{"help", "apply"}, 0, "Bring a machine to the state", ""},
		{"help of a topic", []string{"help", "exit-codes"}, 0, "Exit codes of keel", ""},
		{"help of what there is not", []string{"help", "aply"}, 1, "", "Usage: keel help [COMMAND]\nError: unknown command \"aply\" (did you mean apply?)\n"},
		{"help of what there is not below", []string{"help", "note", "aply"}, 1, "", "Usage: keel help [COMMAND]\nError: unknown command \"note aply\""},
		{"help of two words", []string{"help", "note", "apply"}, 0, "Apply a note", ""},
		{"the version", []string{"--version"}, 0, "keel " + thisBuild().Version + "\n", ""},
		{"an unknown command", []string{"aply"}, 1, "", "Usage: keel COMMAND\nError: unknown command \"aply\" for \"keel\" (did you mean apply?)\n"},
		{"an unknown command with flags", []string{"aply", "-f", "c"}, 1, "", "Usage: keel COMMAND\nError: unknown command \"aply\" for \"keel\" (did you mean apply?)\n"},
		{"what others call apply --dry-run", []string{"plan", "-f", "c"}, 1, "", "Usage: keel COMMAND\nError: unknown command \"plan\" for \"keel\" (did you mean apply?)\n"},
		{"an unknown command of two words with flags", []string{"note", "aply", "--root=/"}, 1, "", "Usage: keel note COMMAND\nError: unknown command \"aply\" for \"keel note\" (did you mean apply?)\n"},
		{"an unknown flag", []string{"apply", "--rot", "/"}, 1, "", "Usage: keel apply -f FILE|DIR|- [flags]\nError: unknown flag: --rot (did you mean --root?)\n"},
		{"an unknown flag of keel", []string{"--rot"}, 1, "", "Usage: keel COMMAND\nError: unknown flag: --rot (see keel --help)\n"},
		{"an argument too much", []string{"apply", "x"}, 1, "", "Usage: keel apply -f FILE|DIR|- [flags]\nError: unknown command \"x\" for \"keel apply\"\n"},
		{"no documents", []string{"apply"}, 1, "", "Usage: keel apply -f FILE|DIR|- [flags]\nError: name the documents with -f FILE, -f DIR or -f -\n"},
		{"no documents to judge", []string{"validate"}, 1, "", "Usage: keel validate -f FILE|DIR|- [flags]\nError: name the documents"},
		{"a form that there is not", []string{"handlers", "-o", "yaml"}, 1, "", "Usage: keel handlers [flags]\nError: invalid argument \"yaml\" for \"-o, --output\" flag: must be one of text, json\n"},
		{"a form of apply that there is not", []string{"apply", "-f", "x", "-o", "yaml"}, 1, "", "Usage: keel apply -f FILE|DIR|- [flags]\nError: --output: must be one of text, json, not \"yaml\"\n"},
		{"an exec mode that there is not", []string{"apply", "-f", "x", "--exec-mode", "ssh"}, 1, "", "Usage: keel apply -f FILE|DIR|- [flags]\nError: --exec-mode: must be one of auto, direct, chroot, nsenter, not \"ssh\"\n"},
		{"nothing to explain", []string{"explain"}, 1, "", "Usage: keel explain HANDLER [flags]\nError: accepts 1 arg(s), received 0\n"},
		{"a handler that there is not", []string{"explain", "stmp"}, 1, "", "Usage: keel explain HANDLER [flags]\nError: unknown handler \"stmp\": use stamp\n"},
		{"completion", []string{"completion", "bash"}, 0, "# bash completion V2 for keel", ""},
		{"completion of a handler", []string{"__complete", "explain", ""}, 0, "stamp\n", ""},
		{"completion of help", []string{"__complete", "help", "note", ""}, 0, "apply\n", ""},
		{"completion of a form", []string{"__complete", "diff", "-o", ""}, 0, "text\njson\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, out, errs := newBench(t).run(tt.args...)
			if code != tt.want {
				t.Errorf("exit %d, want %d", code, tt.want)
			}
			if !strings.HasPrefix(out, tt.wantOut) || tt.wantOut == "" && out != "" {
				t.Errorf("standard output %q, want it to begin with %q", out, tt.wantOut)
			}
			if !strings.HasPrefix(errs, tt.wantErr) {
				t.Errorf("standard error %q, want it to begin with %q", errs, tt.wantErr)
			}
		})
	}
}

func TestVersion_output(t *testing.T) {
	b := newBench(t)
	code, out, _ := b.run("version")
	if lines := strings.Split(out, "\n"); code != 0 || len(lines) != 4 || !strings.HasPrefix(out, "keel ") {
		t.Errorf("exit %d, out %q", code, out)
	}
	if code, out, _ := b.run("version", "-o", "json"); code != 0 || !strings.Contains(out, "\n  \"commit\": ") {
		t.Errorf("exit %d, out %q", code, out)
	}
	t.Setenv("KEEL_CONFIG", b.write("broken.yaml", "["))
	if code, _, errs := b.run("version"); code != 0 {
		t.Errorf("it reads settings: exit %d, %s", code, errs)
	}
}

func TestValidate_output(t *testing.T) {
	b := newBench(t)
	good := b.write("good.yaml", "kind: Note\nname: a\nremark: \"odd one\"\n---\nkind: Order\nname: b\n")
	bad := b.write("bad.yaml", "kind: Note\nname: a\ninvalid: bad mode,bad path\n")
	broken := b.write("broken.yaml", "kind: [\n")
	tests := []struct {
		name             string
		files            []string
		want             int
		wantOut, wantErr string
	}{
		{"good", []string{good}, 0, "DIR/good.yaml document 1: ok\nDIR/good.yaml document 2: ok\n",
			"Warning: remarkable source=\"DIR/good.yaml document 1\" remark=\"odd one\"\n"},
		{"invalid", []string{bad}, 3, "", "Error: DIR/bad.yaml: bad mode\nError: DIR/bad.yaml: bad path\n"},
		{"all are tried, unreadable wins", []string{bad, broken, good}, 2, "DIR/good.yaml document 1: ok\nDIR/good.yaml document 2: ok\n",
			"Warning: remarkable source=\"DIR/good.yaml document 1\" remark=\"odd one\"\n" +
				"Error: DIR/bad.yaml: bad mode\nError: DIR/bad.yaml: bad path\nError: DIR/broken.yaml: not valid YAML: line 1: did not find expected node content\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := []string{"validate"}
			for _, file := range tt.files {
				args = append(args, "-f", file)
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

func TestValidate_json(t *testing.T) {
	b := newBench(t)
	file := b.write("notes.yaml", "kind: Note\nname: a\n---\nkind: Note\ninvalid: bad mode,bad path\n")
	code, out, errs := b.run("validate", "-f", file, "-o", "json")
	want := `{
  "results": [
    {
      "source": "DIR/notes.yaml document 1",
      "kind": "Note",
      "ok": true,
      "errors": []
    },
    {
      "source": "DIR/notes.yaml document 2",
      "kind": "Note",
      "ok": false,
      "errors": [
        "bad mode",
        "bad path"
      ]
    }
  ],
  "exit_code": 3
}
`
	if diff := cmp.Diff(want, strings.ReplaceAll(out, b.dir, "DIR")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if code != 3 || !strings.HasSuffix(errs, "document 2: bad path\n") {
		t.Errorf("exit %d, err %q", code, errs)
	}
}

func TestValidate_whatAKindCannotReadIsUnreadable(t *testing.T) {
	b := newBench(t)
	code, _, errs := b.run("validate", "-f", b.write("notes.yaml", "kind: Note\nname: [a]\n"))
	if code != 2 || !strings.Contains(errs, "cannot unmarshal") {
		t.Errorf("exit %d, want 2; err %q", code, errs)
	}
}

func TestList_tables(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"handlers", []string{"handlers"}, "HANDLER  PARAMETERS\nstamp    path [ink]\n"},
		{"backends", []string{"backends"}, "" +
			"BACKEND  KINDS                  SUBCOMMANDS                    SUMMARY\n" +
			"notes    Note, Instance, Order  note-agent, note apply, serve  notes in a map\n" +
			"sheets   -                      serve                          sheets of paper\n"},
		{"explain", []string{"explain", "stamp"}, "" +
			"PARAMETER  KIND               DEFAULT     HELP\n" +
			"path       path               (required)  where\n" +
			"ink        enum:blue | black  blue        colour of the ink; either is kept dry, in the dark, and far\n" +
			"                                          away from whatever the pen may be\n"},
		{"handlers as JSON", []string{"handlers", "-o", "json"}, `[
  {
    "name": "stamp",
    "params": [
      {
        "name": "path",
        "kind": "path",
        "required": true,
        "default": "",
        "help": "where"
      },
      {
        "name": "ink",
        "kind": "enum:blue|black",
        "required": false,
        "default": "blue",
        "help": "colour of the ink; either is kept dry, in the dark, and far away from whatever the pen may be"
      }
    ]
  }
]
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, out, errs := newBench(t).run(tt.args...)
			if code != 0 || errs != "" {
				t.Errorf("exit %d: %s", code, errs)
			}
			if diff := cmp.Diff(tt.want, out); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLines_attributes(t *testing.T) {
	var out strings.Builder
	b := newBench(t)
	log := b.app(&out, &out).log()
	log.Info("not shown")
	log = log.With("a", 1).WithGroup("g").With("b", "two words")
	log.Warn("watch\x1b[2J out", "c", slog.GroupValue(slog.Int("d", 4)), "e", errors.New("x=y"), "f", "", "g", "\x1b")
	log.Error("broken")
	want := `Warning: watch\x1b[2J out a=1 g.b="two words" g.c.d=4 g.e="x=y" g.f="" g.g="\x1b"` + "\nError: broken a=1 g.b=\"two words\"\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestExitCodes_tableIsInOrder(t *testing.T) {
	last := -1
	names := map[string]bool{}
	for _, c := range exitCodes() {
		if c.code <= last || c.name == "" || names[c.name] || c.meaning == "" {
			t.Errorf("row %+v after %d", c, last)
		}
		last = c.code
		names[c.name] = true
	}
}
