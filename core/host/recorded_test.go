package host_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tlspu/keel/core/host"
)

func TestRecorded_mismatch(t *testing.T) {
	list := host.Cmd{Argv: []string{"zfs", "list"}}
	tests := []struct {
		name    string
		script  []host.Cmd
		run     []host.Cmd
		wantErr string // of the last Run, and of Left
		left    string // of Left, when Run has no error
	}{
		{"all played", []host.Cmd{list, list}, []host.Cmd{list, list}, "", ""},
		{"another command", []host.Cmd{list}, []host.Cmd{{Argv: []string{"zfs", "get"}}}, "command 1 of 1: want: zfs list\ngot: zfs get", ""},
		{"one word joined", []host.Cmd{list}, []host.Cmd{{Argv: []string{"zfs list"}}}, `got: "zfs list"`, ""},
		{"other input", []host.Cmd{{Argv: []string{"cat"}, Stdin: []byte("a")}}, []host.Cmd{{Argv: []string{"cat"}}}, `want stdin "a", got ""`, ""},
		{"environment where the script has one", []host.Cmd{{Argv: []string{"env"}, Env: []string{"A=1"}}}, []host.Cmd{{Argv: []string{"env"}}}, `want environment ["A=1"], got []`, ""},
		{"environment that the script does not name", []host.Cmd{{Argv: []string{"env"}}}, []host.Cmd{{Argv: []string{"env"}, Env: []string{"A=1"}}}, "", ""},
		{"too many", []host.Cmd{list}, []host.Cmd{list, list}, "script of 1 commands has ended, and then came: zfs list", ""},
		{"a mismatch stays", []host.Cmd{list}, []host.Cmd{{Argv: []string{"zfs"}}, list}, "want: zfs list\ngot: zfs", ""},
		{"too few", []host.Cmd{list, list, list}, []host.Cmd{list}, "", "2 of 3 commands were not run, next would be: zfs list"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			machine := &host.Recorded{}
			for _, c := range tt.script {
				machine.Script = append(machine.Script, host.Exchange{Cmd: c})
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
	scripted := &host.ExitError{Code: 1, Stderr: "no such pool\n"}
	machine := &host.Recorded{Script: []host.Exchange{{Cmd: host.Cmd{Argv: []string{"zfs"}}, Stdout: "half", Err: scripted}}}
	out, err := machine.Run(t.Context(), host.Cmd{Argv: []string{"zfs"}})
	var exit *host.ExitError
	if !errors.As(err, &exit) || exit.Code != 1 || exit.Cmd.String() != "zfs" || string(out) != "half" {
		t.Errorf("got %q, %v", out, err)
	}
	if scripted.Cmd.Argv != nil {
		t.Error("the script was written to")
	}
}

func TestRecorded_cancelledRunsNothing(t *testing.T) {
	machine := &host.Recorded{Script: []host.Exchange{{Cmd: host.Cmd{Argv: []string{"true"}}}}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := machine.Run(ctx, host.Cmd{Argv: []string{"true"}}); !errors.Is(err, context.Canceled) {
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
