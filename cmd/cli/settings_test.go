package cli

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSettings_precedence(t *testing.T) {
	defaults := agentSettings{Dir: "/notes", Every: time.Minute, Count: 3}
	with := func(change func(*agentSettings)) agentSettings {
		s := defaults
		change(&s)
		return s
	}
	tests := []struct {
		name string
		file string
		env  map[string]string
		args []string
		want agentSettings
	}{
		{name: "defaults", want: defaults},
		{
			name: "a file over defaults",
			file: "note-agent:\n  dir: /file\n  every: 5s\n  count: 7\n  verbose: true\n  tag: [a, 'b,c']\n",
			want: agentSettings{common{true}, "/file", 5 * time.Second, 7, []string{"a", "b,c"}, "", ""},
		},
		{
			name: "the environment over a file",
			file: "note-agent:\n  dir: /file\n  count: 7\n",
			env:  map[string]string{"KEEL_NOTE_AGENT_DIR": "/env", "KEEL_NOTE_AGENT_EVERY": "9s", "KEEL_NOTE_AGENT_TAG": "x,y", "KEEL_NOTE_AGENT_VERBOSE": "true"},
			want: agentSettings{common{true}, "/env", 9 * time.Second, 7, []string{"x", "y"}, "", ""},
		},
		{
			name: "flags over everything",
			file: "note-agent:\n  dir: /file\n  tag: [a]\n",
			env:  map[string]string{"KEEL_NOTE_AGENT_DIR": "/env"},
			args: []string{"--dir", "/flag", "--tag", "p,q", "--tag", `"r`, "--every=1h", "--count", "-1"},
			want: agentSettings{common{}, "/flag", time.Hour, -1, []string{"p,q", `"r`}, "", ""},
		},
		{
			name: "a flag that says what the default says still wins",
			env:  map[string]string{"KEEL_NOTE_AGENT_DIR": "/env"},
			args: []string{"--dir", "/notes"},
			want: defaults,
		},
		{
			name: "an empty variable is none",
			env:  map[string]string{"KEEL_NOTE_AGENT_DIR": "", "KEEL_NOTE_AGENT_COUNT": ""},
			want: defaults,
		},
		{
			name: "nothing after a key is none",
			file: "note-agent:\n  dir:\nserve:\n",
			want: defaults,
		},
		{
			name: "sections of others do not matter",
			file: "apply:\n  root: /x\nserve:\n  what: ever\n",
			want: defaults,
		},
		{
			name: "text that looks like another type",
			env:  map[string]string{"KEEL_NOTE_AGENT_DIR": "true"},
			want: with(func(s *agentSettings) { s.Dir = "true" }),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			t.Setenv("KEEL_CONFIG", b.write("keel.yaml", tt.file))
			for name, value := range tt.env {
				t.Setenv(name, value)
			}
			code, _, errs := b.run(append([]string{"note-agent"}, tt.args...)...)
			if code != 0 {
				t.Fatalf("exit %d: %s", code, errs)
			}
			got := *b.settings.(*agentSettings)
			tt.want.Root = b.dir
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(agentSettings{}, common{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSettings_mistakes(t *testing.T) {
	tests := []struct {
		name    string
		file    string
		env     map[string]string
		args    []string
		want    int
		wantErr string
	}{
		{
			name: "an unknown key, and the nearest", file: "note-agent:\n  dri: /x\n", want: 3,
			wantErr: "Error: FILE: section note-agent: unknown key dri (did you mean dir?)\n",
		},
		{
			name: "an unknown key like none", file: "note-agent:\n  frequency: /x\n", want: 3,
			wantErr: "Error: FILE: section note-agent: unknown key frequency (known: verbose, dir, every, count, tag, root, log-format, log-level)\n",
		},
		{
			name: "several, one with a mapping", file: "note-agent:\n  b:\n    x: 1\n    y: 2\n  a: 1\n", want: 3,
			wantErr: "Error: FILE: section note-agent: unknown key a (known: verbose, dir, every, count, tag, root, log-format, log-level)\n" +
				"Error: FILE: section note-agent: unknown key b (known: verbose, dir, every, count, tag, root, log-format, log-level)\n",
		},
		{
			name: "every wrong type is named", file: "note-agent:\n  dir: 1\n  every: 5\n  count: many\n  verbose: maybe\n  tag: 1\n", want: 3,
			wantErr: "Error: FILE: note-agent: verbose: must be true or false, not \"maybe\"\n" +
				"Error: FILE: note-agent: dir: must be text, not 1\n" +
				"Error: FILE: note-agent: every: must be a duration such as 30s or 5m, not 5\n" +
				"Error: FILE: note-agent: count: must be a whole number, not \"many\"\n" +
				"Error: FILE: note-agent: tag: must be a list of texts, not 1\n",
		},
		{
			name: "a number among texts", file: "note-agent:\n  tag: [a, 1]\n", want: 3,
			wantErr: "Error: FILE: note-agent: tag: must be a list of texts; item 2 is 1\n",
		},
		{
			name: "a mapping for a text", file: "note-agent:\n  dir:\n    a: b\n", want: 3,
			wantErr: "Error: FILE: note-agent: dir: must be text, not a mapping\n",
		},
		{
			name: "a wrong variable", env: map[string]string{"KEEL_NOTE_AGENT_COUNT": "many"}, want: 3,
			wantErr: "Error: environment variable KEEL_NOTE_AGENT_COUNT: must be a whole number, not \"many\"\n",
		},
		{
			name: "a wrong flag", args: []string{"--count", "many"}, want: 1,
			wantErr: "Usage: keel note-agent [NOTE...] [flags]\nError: --count: must be a whole number, not \"many\"\n",
		},
		{
			name: "a duration without a unit", args: []string{"--every", "5"}, want: 1,
			wantErr: "Usage: keel note-agent [NOTE...] [flags]\nError: --every: must be a duration such as 30s or 5m, not \"5\"\n",
		},
		{
			name: "a truth value that is none", args: []string{"--verbose=maybe"}, want: 1,
			wantErr: "Usage: keel note-agent [NOTE...] [flags]\nError: --verbose: must be true or false, not \"maybe\"\n",
		},
		{
			name: "a misspelt flag", args: []string{"--ever", "5s"}, want: 1,
			wantErr: "Usage: keel note-agent [NOTE...] [flags]\nError: unknown flag: --ever (did you mean --every?)\n",
		},
		{
			name: "a flag like none", args: []string{"--frequency=5s"}, want: 1,
			wantErr: "Usage: keel note-agent [NOTE...] [flags]\nError: unknown flag: --frequency (see keel note-agent --help)\n",
		},
		{
			name: "a letter that is no flag", args: []string{"-x"}, want: 1,
			wantErr: "Usage: keel note-agent [NOTE...] [flags]\nError: unknown shorthand flag: 'x' in -x (see keel note-agent --help)\n",
		},
		{
			name: "a flag that is none of its values", args: []string{"--log-level", "loud"}, want: 1,
			wantErr: "Usage: keel note-agent [NOTE...] [flags]\nError: --log-level: must be one of debug, info, warn, error, not \"loud\"\n",
		},
		{
			name: "a section that is no mapping", file: "note-agent: on\n", want: 3,
			wantErr: "Error: FILE: section note-agent must be a mapping of settings, not \"on\"\n",
		},
		{
			name: "a broken file", file: "note-agent: [\n", want: 2,
			wantErr: "Error: settings file: FILE: not valid YAML: line 1: did not find expected node content\n",
		},
		{
			name: "a second document", file: "serve:\n---\nnote-agent:\n  dir: /x\n", want: 2,
			wantErr: "Error: settings file: FILE: not valid YAML: line 2: a second document\n",
		},
		{
			name: "keys that come twice", file: "note-agent:\n  dir: /x\n  dir: /y\nserve:\n  a: 1\n  a: 2\n", want: 2,
			wantErr: "Error: settings file: FILE: line 3: mapping key \"dir\" already defined at line 2\n" +
				"Error: settings file: FILE: line 6: mapping key \"a\" already defined at line 5\n",
		},
		{
			name: "a key that is no text", file: "note-agent:\n  1: x\n", want: 3,
			wantErr: "Error: FILE: section note-agent: unknown key 1 (known: verbose, dir, every, count, tag, root, log-format, log-level)\n",
		},
		{
			name: "a list for a file", file: "- a\n", want: 2,
			wantErr: "Error: settings file: FILE: line 1: top level must be a mapping of sections\n",
		},
		{
			name: "a list for a section's name", file: "serve:\n? [a]\n: b\n", want: 2,
			wantErr: "Error: settings file: FILE: line 2: the name of a section must be text\n",
		},
		{
			name: "a dotted name is no section", file: "note-agent:\n  count: 7\nnote-agent.count: many\n",
			wantErr: "Warning: no subcommand reads this section file=FILE section=note-agent.count nearest=note-agent\n",
		},
		{
			name: "a dotted key is no setting", file: "note-agent:\n  dir.x: many\n", want: 3,
			wantErr: "Error: FILE: section note-agent: unknown key dir.x (did you mean dir?)\n",
		},
		{
			name: "a section in capitals", file: "NOTE-AGENT:\n  count: many\n",
			wantErr: "Warning: no subcommand reads this section file=FILE section=NOTE-AGENT nearest=note-agent\n",
		},
		{
			name: "a key in capitals beside the right one", file: "note-agent:\n  count: 7\n  COUNT: 8\n", want: 3,
			wantErr: "Error: FILE: section note-agent: unknown key COUNT (did you mean count?)\n",
		},
		{
			name: "rubbish after the end of the document", file: "note-agent:\n  dir: /x\n...\n]\n", want: 2,
			wantErr: "Error: settings file: FILE: not valid YAML: line 3: did not find expected <document start>\n",
		},
		{
			name: "something after the end of the document", file: "note-agent:\n  dir: /x\n...\ndir: /y\n", want: 2,
			wantErr: "Error: settings file: FILE: not valid YAML: line 3: did not find expected <document start>\n",
		},
		{
			name: "a negative duration in the file", file: "note-agent:\n  every: -5s\n", want: 3,
			wantErr: "Error: FILE: note-agent: every: must not be negative, not -5s\n",
		},
		{
			name: "a negative duration in the environment", env: map[string]string{"KEEL_NOTE_AGENT_EVERY": "-5s"}, want: 3,
			wantErr: "Error: environment variable KEEL_NOTE_AGENT_EVERY: must not be negative, not -5s\n",
		},
		{
			name: "a negative duration as a flag", args: []string{"--every=-5s"}, want: 1,
			wantErr: "Usage: keel note-agent [NOTE...] [flags]\nError: --every: must not be negative, not -5s\n",
		},
		{
			name: "nothing but a comma", env: map[string]string{"KEEL_NOTE_AGENT_TAG": ","}, want: 3,
			wantErr: "Error: environment variable KEEL_NOTE_AGENT_TAG: must be a list of texts; item 1 is empty\n",
		},
		{
			name: "an empty text among others", file: "note-agent:\n  tag: [a, '']\n", want: 3,
			wantErr: "Error: FILE: note-agent: tag: must be a list of texts; item 2 is empty\n",
		},
		{
			name: "an empty text as a flag", args: []string{"--tag="}, want: 1,
			wantErr: "Usage: keel note-agent [NOTE...] [flags]\nError: --tag: must be a list of texts; item 1 is empty\n",
		},
		{
			name: "a section that nobody reads, and one of another binary", file: "note-agnt:\n  dir: /x\nfoo: 1\n",
			wantErr: "Warning: no subcommand reads this section file=FILE section=foo\n" +
				"Warning: no subcommand reads this section file=FILE section=note-agnt nearest=note-agent\n",
		},
		{
			name: "a setting outside of its section", file: "dir: /x\n",
			wantErr: "Warning: this setting stands outside of a section and is not read file=FILE setting=dir section=note-agent\n",
		},
		{
			name: "variables that are no settings, and a mistake in the file", want: 3,
			env: map[string]string{"KEEL_NOTE_AGENT_DRI": "/x", "KEEL_NOTE_AGENT_COUNTS": "1"}, file: "note-agent:\n  dri: /x\n",
			wantErr: "Error: FILE: section note-agent: unknown key dri (did you mean dir?)\n" +
				"Error: environment variable KEEL_NOTE_AGENT_COUNTS: note-agent has no such setting (did you mean KEEL_NOTE_AGENT_COUNT?)\n" +
				"Error: environment variable KEEL_NOTE_AGENT_DRI: note-agent has no such setting (did you mean KEEL_NOTE_AGENT_DIR?)\n",
		},
		{
			name: "a variable that is no setting, and empty", env: map[string]string{"KEEL_NOTE_AGENT_DRI": ""},
		},
		{
			name: "a variable without the subcommand", env: map[string]string{"KEEL_DIR": "/x", "KEEL_LOG_LEVEL": "info", "KEEL_CACHE": "/x"},
			wantErr: "Warning: no setting has this environment variable variable=KEEL_DIR nearest=KEEL_NOTE_AGENT_DIR\n" +
				"Warning: no setting has this environment variable variable=KEEL_LOG_LEVEL nearest=KEEL_NOTE_AGENT_LOG_LEVEL\n",
		},
		{
			name: "variables of another subcommand", env: map[string]string{"KEEL_APPLY_ROOT": "/x", "KEEL_APPLY_ROTO": "/x", "KEEL_SPEC": "/x"},
		},
		{
			name: "variables of a Service called keel-note-agent",
			env: map[string]string{
				"KEEL_NOTE_AGENT_SERVICE_HOST": "x", "KEEL_NOTE_AGENT_SERVICE_PORT_HTTP": "1", "KEEL_NOTE_AGENT_PORT": "tcp://x",
				"KEEL_NOTE_AGENT_PORT_80_TCP": "x", "KEEL_NOTE_AGENT_PORT_80_TCP_ADDR": "x",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			file := b.write("keel.yaml", tt.file)
			t.Setenv("KEEL_CONFIG", file)
			for name, value := range tt.env {
				t.Setenv(name, value)
			}
			code, _, errs := b.run(append([]string{"note-agent", "--log-level", "error"}, tt.args...)...)
			if code != tt.want {
				t.Errorf("exit %d, want %d", code, tt.want)
			}
			got := strings.ReplaceAll(errs, file, "FILE")
			if diff := cmp.Diff(tt.wantErr, got); diff != "" {
				t.Errorf("standard error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSettings_whichFile(t *testing.T) {
	b := newBench(t)
	one := b.write("one.yaml", "note-agent:\n  dir: /one\n")
	two := b.write("two.yaml", "note-agent:\n  dir: /two\n")
	t.Setenv("KEEL_CONFIG", one)
	tests := []struct {
		name    string
		args    []string
		want    int
		wantDir string
		wantErr string
	}{
		{name: "$KEEL_CONFIG", wantDir: "/one"},
		{name: "--config wins", args: []string{"--config", two}, wantDir: "/two"},
		{name: "a file that was named must be there", args: []string{"--config", two + "x"}, want: 2, wantErr: "Error: settings file: " + two + "x: no such file or directory\n"},
		{name: "/dev/null is none", args: []string{"--config", "/dev/null"}, wantDir: "/notes"},
		{name: "a directory is no file", args: []string{"--config", b.dir}, want: 2, wantErr: "Error: settings file: " + b.dir + ": is a directory, not a file\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b.settings = &agentSettings{}
			code, _, errs := b.run(append([]string{"note-agent", "--log-level", "error"}, tt.args...)...)
			if got := b.settings.(*agentSettings).Dir; code != tt.want || errs != tt.wantErr || got != tt.wantDir {
				t.Errorf("exit %d, want %d; dir %q, want %q; err %q, want %q", code, tt.want, got, tt.wantDir, errs, tt.wantErr)
			}
		})
	}
}

func TestSettings_theDefaultFileMayBeMissing(t *testing.T) {
	if _, err := os.Stat(defaultConfig); err == nil {
		t.Skipf("needs a machine without %s", defaultConfig)
	}
	b := newBench(t)
	t.Setenv("KEEL_CONFIG", "")
	if code, _, errs := b.run("note-agent", "--log-level", "error"); code != 0 || errs != "" {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestSettings_ownCommandsTakeThemToo(t *testing.T) {
	b := newBench(t)
	file := b.write("notes.yaml", "kind: Note\nname: a\nwant: one\n")
	t.Setenv("KEEL_CONFIG", b.write("keel.yaml", "apply:\n  root: "+b.dir+"\n  filename: ["+file+"]\n  dry-run: true\n"))
	if code, out, errs := b.run("apply"); code != 0 || out != "would change a\n  would write a \"one\"\n" {
		t.Errorf("exit %d, out %q, err %q", code, out, errs)
	}
	t.Setenv("KEEL_APPLY_DRY_RUN", "false")
	if code, out, errs := b.run("apply"); code != 0 || out != "changed   a\n" {
		t.Errorf("exit %d, out %q, err %q", code, out, errs)
	}
}

func TestSettings_mistakesOfTheProgramPanic(t *testing.T) {
	for _, tt := range []struct {
		name     string
		settings any
	}{
		{"no pointer", agentSettings{}},
		{"pointer to another thing", new(int)},
		{"a field of another type", &struct {
			F float64 `flag:"f"`
		}{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			b := newBench(t)
			root := b.app(os.Stdout, os.Stderr).command()
			addFlags(root, settingsOf("x", tt.settings))
		})
	}
}
