package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/core/command"
)

func TestRoles_run(t *testing.T) {
	tests := []struct {
		name         string
		args         []string
		want         int
		wantErr      string
		wantSettings any
		wantArgs     []string
	}{
		{name: "one word", args: []string{"note-agent", "x", "y"}, wantSettings: &agentSettings{}, wantArgs: []string{"x", "y"}},
		{name: "two words", args: []string{"note", "apply", "x"}, wantArgs: []string{"x"}},
		{name: "the first backend is the default", args: []string{"serve"}, wantSettings: &noteServer{Port: 1}},
		{name: "arguments that it does not take", args: []string{"serve", "x"}, want: 1, wantErr: "Usage: keel serve [flags]\nError: unknown command \"x\" for \"keel serve\"\n"},
		{name: "chosen", args: []string{"serve", "--backend", "notes", "--port", "2"}, wantSettings: &noteServer{Port: 2}},
		{name: "chosen, and its flags are there", args: []string{"serve", "--paper", "letter", "--backend=sheets"}, wantSettings: &sheetServer{Paper: "letter"}},
		{name: "a choice that has no default", args: []string{"serve", "--backend=sheets"}, wantSettings: &sheetServer{}},
		{name: "a root that is not there", args: []string{"note-agent", "--root", "/none"}, want: 2, wantErr: "Error: root /none: no such file or directory: name the machine's root with --root; / is this machine\n"},
		{name: "flags of the other are not", args: []string{"serve", "--port", "2", "--backend=sheets"}, want: 1, wantErr: "Usage: keel serve [flags]\nError: unknown flag: --port (see keel serve --help)\n"},
		{name: "a backend that there is not", args: []string{"serve", "--backend", "stone"}, want: 1, wantErr: "Usage: keel serve [flags]\nError: unknown backend \"stone\": use notes or sheets\n"},
		{name: "an exit code of its own", args: []string{"note-agent", "fail"}, want: 31, wantErr: "Error: conflict\n", wantSettings: &agentSettings{}, wantArgs: []string{"fail"}},
		{name: "cancelled, and by no signal", args: []string{"note-agent", "give", "up"}, want: 16, wantErr: "Error: wait for a part of it: context canceled\n", wantSettings: &agentSettings{}, wantArgs: []string{"give", "up"}},
		{name: "half a name", args: []string{"note"}, want: 1, wantErr: "Commands about note\n"},
		{name: "half a name and a mistake", args: []string{"note", "aply"}, want: 1, wantErr: "Usage: keel note COMMAND\nError: unknown command \"aply\" for \"keel note\" (did you mean apply?)\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			code, out, errs := b.run(append(tt.args, "--log-level=warn")...)
			if strings.HasPrefix(tt.name, "half") {
				code, out, errs = b.run(tt.args...)
			}
			if code != tt.want || out != "" {
				t.Errorf("exit %d, want %d; out %q", code, tt.want, out)
			}
			if !strings.HasPrefix(errs, tt.wantErr) || tt.wantErr == "" && errs != "" {
				t.Errorf("err %q, want %q", errs, tt.wantErr)
			}
			if _, ok := tt.wantSettings.(*agentSettings); ok {
				if _, ok := b.settings.(*agentSettings); !ok {
					t.Errorf("settings %#v", b.settings)
				}
			} else if diff := cmp.Diff(tt.wantSettings, b.settings); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.wantArgs, b.env.Args); len(tt.wantArgs)+len(b.env.Args) > 0 && diff != "" {
				t.Errorf("args (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRoles_sheetPaperMustBeOneOfItsValues(t *testing.T) {
	b := newBench(t)
	code, _, errs := b.run("serve", "--backend=sheets", "--paper", "a5")
	if want := "--paper: must be one of a4, letter, not \"a5\""; code != 1 || !strings.Contains(errs, want) {
		t.Errorf("exit %d, err %q, want %q", code, errs, want)
	}
}

func TestRoles_environmentOfOneOnAMachine(t *testing.T) {
	b := newBench(t)
	b.uid = 7
	if code, _, errs := b.run("note-agent"); code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	if b.env.Root != b.dir || b.env.UID != 7 || b.env.LockTimeout != defaultLockTimeout || b.env.Now == nil {
		t.Errorf("env %+v", b.env)
	}
	for _, run := range []command.Runner{b.env.Run(b.dir), b.reach(b.dir)} {
		if _, ok := run.(noMachine); ok {
			t.Error("it reaches no machine")
		}
	}
}

func TestRoles_environmentOfOneOnNoMachine(t *testing.T) {
	b := newBench(t)
	if code, _, errs := b.run("note", "apply"); code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	if b.env.Root != "" {
		t.Errorf("root %q", b.env.Root)
	}
	_, err := b.env.Run("/").Run(t.Context(), command.Cmd{Argv: []string{"true"}, Query: true})
	if err == nil || err.Error() != "run true: this command looks at no machine" {
		t.Errorf("a command: %v", err)
	}
}

func TestRoles_logFormat(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"text", nil, "level=INFO msg=ran args=[x]\n"},
		{"json", []string{"--log-format", "json"}, `"level":"INFO","msg":"ran","args":["x"]}` + "\n"},
		{"level", []string{"--log-level", "warn"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			_, _, errs := b.run(append([]string{"note", "apply", "x"}, tt.args...)...)
			if !strings.HasSuffix(errs, tt.want) || tt.want == "" && errs != "" {
				t.Errorf("log %q, want %q", errs, tt.want)
			}
		})
	}
}
