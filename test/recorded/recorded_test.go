package recorded_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/test/recorded"
)

func TestRecorded_mismatch(t *testing.T) {
	list := command.Cmd{Argv: []string{"zfs", "list"}}
	tests := []struct {
		name    string
		script  []command.Cmd
		run     []command.Cmd
		wantErr string // of the last Run, and of Left
		left    string // of Left, when Run has no error
	}{
		{"all played", []command.Cmd{list, list}, []command.Cmd{list, list}, "", ""},
		{"another command", []command.Cmd{list}, []command.Cmd{{Argv: []string{"zfs", "get"}}}, "command 1 of 1: want: zfs list\ngot: zfs get", ""},
		{"one word joined", []command.Cmd{list}, []command.Cmd{{Argv: []string{"zfs list"}}}, `got: "zfs list"`, ""},
		{"other input", []command.Cmd{{Argv: []string{"cat"}, Stdin: []byte("a")}}, []command.Cmd{{Argv: []string{"cat"}}}, `want stdin "a", got ""`, ""},
		{"environment where the script has one", []command.Cmd{{Argv: []string{"env"}, Env: []string{"A=1"}}}, []command.Cmd{{Argv: []string{"env"}}}, `want environment ["A=1"], got []`, ""},
		{"environment that the script does not name", []command.Cmd{{Argv: []string{"env"}}}, []command.Cmd{{Argv: []string{"env"}, Env: []string{"A=1"}}}, "", ""},
		{"too many", []command.Cmd{list}, []command.Cmd{list, list}, "script of 1 commands has ended, and then came: zfs list", ""},
		{"a mismatch stays", []command.Cmd{list}, []command.Cmd{{Argv: []string{"zfs"}}, list}, "want: zfs list\ngot: zfs", ""},
		{"too few", []command.Cmd{list, list, list}, []command.Cmd{list}, "", "2 of 3 commands were not run, next would be: zfs list"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			machine := &recorded.Runner{}
			for _, c := range tt.script {
				machine.Script = append(machine.Script, recorded.Exchange{Cmd: c})
			}
			var err error
			for _, c := range tt.run {
				_, err = machine.Run(t.Context(), c)
			}
			wantText(t, "Run", err, tt.wantErr)
			left := tt.left
			if left == "" {
				left = tt.wantErr
			}
			wantText(t, "Left", machine.Left(), left)
		})
	}
}

func TestRecorded_exitErrorGetsTheCommand(t *testing.T) {
	scripted := &command.ExitError{Code: 1, Stderr: "no such pool\n"}
	machine := &recorded.Runner{Script: []recorded.Exchange{{Cmd: command.Cmd{Argv: []string{"zfs"}}, Stdout: "half", Err: scripted}}}
	out, err := machine.Run(t.Context(), command.Cmd{Argv: []string{"zfs"}})
	var exit *command.ExitError
	if !errors.As(err, &exit) || exit.Code != 1 || exit.Cmd.String() != "zfs" || string(out) != "half" {
		t.Errorf("got %q, %v", out, err)
	}
	if scripted.Cmd.Argv != nil {
		t.Error("the script was written to")
	}
}

func TestRecorded_cancelledRunsNothing(t *testing.T) {
	machine := &recorded.Runner{Script: []recorded.Exchange{{Cmd: command.Cmd{Argv: []string{"true"}}}}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := machine.Run(ctx, command.Cmd{Argv: []string{"true"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want it cancelled", err)
	}
	wantText(t, "Left", machine.Left(), "1 of 1 commands were not run")
}

// wantText checks that err holds text, or that there is none when text is empty.
func wantText(t *testing.T, what string, err error, text string) {
	t.Helper()
	switch {
	case text == "" && err != nil:
		t.Errorf("%s: %v, want no error", what, err)
	case text != "" && (err == nil || !strings.Contains(err.Error(), text)):
		t.Errorf("%s: got %v, want an error that holds %q", what, err, text)
	}
}
