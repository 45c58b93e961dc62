package command

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestStart_process(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	script := `echo "$A $PWD"; read x || echo nothing to read; while :; do sleep 0.05; done`
	p, err := Start(ctx, Spec{Argv: []string{"sh", "-c", script}, Env: []string{"A=b"}, Stdout: file})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Signal(syscall.SIGKILL) }()
	cancel() // it outlives its caller's context
	await(t, "its output", func() bool {
		out, err := os.ReadFile(file.Name())
		return err == nil && string(out) == "b /\nnothing to read\n"
	})
	if session, err := unix.Getsid(p.Pid()); session != p.Pid() || err != nil {
		t.Errorf("session: got %d, %v, want its own, %d", session, err, p.Pid())
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if code, err := p.Wait(); code != 128+int(syscall.SIGTERM) || err != nil {
		t.Errorf("Wait: got %d, %v, want %d", code, err, 128+int(syscall.SIGTERM))
	}
	if err := p.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal after the end: got %v", err)
	}
}

func TestStart_exitCode(t *testing.T) {
	p, err := Start(t.Context(), Spec{Argv: []string{"sh", "-c", "exit 3"}})
	if err != nil {
		t.Fatal(err)
	}
	if code, err := p.Wait(); code != 3 || err != nil {
		t.Errorf("got %d, %v, want 3", code, err)
	}
}

func TestStart_attributes(t *testing.T) {
	given := &syscall.SysProcAttr{Setpgid: true}
	p, err := Start(t.Context(), Spec{Argv: []string{"true"}, Sys: given})
	if err != nil {
		t.Fatal(err)
	}
	if code, err := p.Wait(); code != 0 || err != nil {
		t.Errorf("got %d, %v", code, err)
	}
	if given.Setsid || !given.Setpgid {
		t.Error("the caller's attributes were written to")
	}
}

func TestStart_errors(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name    string
		ctx     context.Context
		spec    Spec
		is      error
		wantErr string
	}{
		{"nothing", t.Context(), Spec{}, nil, "there is no command to start"},
		{"no such command", t.Context(), Spec{Argv: []string{"keel-none"}}, fs.ErrNotExist, "start keel-none: "},
		{"attributes of another kind", t.Context(), Spec{Argv: []string{"true"}, Sys: 1}, nil, "attributes are a int"},
		{"cancelled before", cancelled, Spec{Argv: []string{"true"}}, context.Canceled, "start true: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Start(tt.ctx, tt.spec)
			wantError(t, err, tt.wantErr)
			if p != nil || tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("got %v, %v, want %v", p, err, tt.is)
			}
		})
	}
}
