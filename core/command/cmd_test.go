package command_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/test/recorded"
)

func TestCmd_hidesSecrets(t *testing.T) {
	c := command.Cmd{Argv: []string{"psql"}, Env: []string{"PGPASSWORD=hunter2"}, Stdin: []byte("hunter2")}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("run", "cmd", c)
	exit := &command.ExitError{Cmd: c, Code: 1, Stderr: "no\n"}
	for name, text := range map[string]string{
		"%v": fmt.Sprintf("%v", c), "%+v": fmt.Sprintf("%+v", c), "%#v": fmt.Sprintf("%#v", c),
		"log": log.String(), "error": exit.Error(), "%#v of the error": fmt.Sprintf("%#v", *exit),
	} {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "aHVudGVyMg") {
			t.Errorf("%s shows the secret: %s", name, text)
		}
		if !strings.Contains(text, "psql") {
			t.Errorf("%s does not name the command: %s", name, text)
		}
	}
}

func TestCmd_String(t *testing.T) {
	tests := []struct {
		name string
		argv []string
		want string
	}{
		{"plain", []string{"systemctl", "restart", "--", "a.service"}, "systemctl restart -- a.service"},
		{"quoted where a word would not be clear", []string{"x", "", "a b", "it's", "a\nb", "\x1b[2J"}, `x "" "a b" "it's" "a\nb" "\x1b[2J"`},
		{"long", []string{strings.Repeat("y", 400)}, strings.Repeat("y", 300) + "…"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := (command.Cmd{Argv: tt.argv}).String(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestExitError_Error(t *testing.T) {
	tests := []struct {
		name, stderr, want string
	}{
		{"silent", "", "run apt-get: exit status 100"},
		{"a line", "E: Unable to locate package x\n", "run apt-get: exit status 100: E: Unable to locate package x"},
		{"lines are joined", "W: one\r\n\n  E: two\t!\n", "run apt-get: exit status 100: W: one; E: two !"},
		{"nothing steers the terminal", "\x1b[31mred\x07", "run apt-get: exit status 100: [31mred"},
		{"the end counts", strings.Repeat("first\n", 1) + strings.Repeat("z", 510), "run apt-get: exit status 100: " + strings.Repeat("z", 510)},
		{"one long line", strings.Repeat("z", 600), "run apt-get: exit status 100: " + strings.Repeat("z", 512) + "…"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := &command.ExitError{Cmd: command.Cmd{Argv: []string{"apt-get"}}, Code: 100, Stderr: tt.stderr}
			if got := e.Error(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestReadOnly_refusesWhatIsNoQuery(t *testing.T) {
	machine := &recorded.Runner{Script: []recorded.Exchange{{Cmd: command.Cmd{Argv: []string{"hostname"}}, Stdout: "a\n"}}}
	run := command.NewReadOnly(machine)
	_, err := run.Run(t.Context(), command.Cmd{Argv: []string{"hostname", "b"}})
	if err == nil || !strings.Contains(err.Error(), "hostname b") {
		t.Errorf("got %v, want a refusal that names the command", err)
	}
	out, err := run.Run(t.Context(), command.Cmd{Argv: []string{"hostname"}, Query: true})
	if string(out) != "a\n" || err != nil {
		t.Errorf("query: got %q, %v", out, err)
	}
	if err := machine.Left(); err != nil {
		t.Error(err)
	}
}
