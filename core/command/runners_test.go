package command

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReach_runner(t *testing.T) {
	bin, root, other := t.TempDir(), t.TempDir(), t.TempDir()
	chroot, nsenter := filepath.Join(bin, "chroot"), filepath.Join(bin, "nsenter")
	for _, file := range []string{chroot, nsenter} {
		if err := os.WriteFile(file, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	pid1 := filepath.Join(t.TempDir(), "root")
	if err := os.Symlink(root, pid1); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/", link); err != nil {
		t.Fatal(err)
	}
	privileged := reach{pid1: pid1, path: bin, isRoot: true}
	user := reach{pid1: "/nowhere/root", path: bin}
	alone := reach{pid1: "/nowhere/root", path: bin, isRoot: true}
	bare := reach{pid1: pid1, path: "/nowhere", isRoot: true}
	entering := []string{nsenter, "-t", "1", "-m", "-u", "-i", "-n", "-p", "--"}

	tests := []struct {
		name       string
		reach      reach
		root, mode string
		want       []string // the prefix
		wantErr    string   // of the first command
	}{
		{"auto of /", privileged, "/", Auto, nil, ""},
		{"auto of / for a user", user, "/", Auto, nil, ""},
		{"auto of PID 1's root", privileged, root, Auto, entering, ""},
		{"auto of another root", privileged, other, Auto, []string{chroot, other}, ""},
		{"auto where PID 1 is not seen", alone, root, Auto, []string{chroot, root}, ""},
		{"the root is cleaned", alone, root + "/./x/..//", Auto, []string{chroot, root}, ""},
		{"/ by another name", privileged, "//.", Auto, nil, ""},
		{"direct", user, "/", Direct, nil, ""},
		{"direct to / through a link", user, link, Direct, nil, ""},
		{"direct to another machine", privileged, root, Direct, nil, "and " + root + " is not its root: use exec mode chroot"},
		{"direct to nothing", privileged, "/nowhere", Direct, nil, "and /nowhere is not its root"},
		{"chroot although PID 1 is seen", privileged, root, Chroot, []string{chroot, root}, ""},
		{"chroot of /", privileged, "/", Chroot, []string{chroot, "/"}, ""},
		{"nsenter", privileged, root, Nsenter, entering, ""},
		{"nsenter to another machine", privileged, other, Nsenter, nil, "and " + other + " is not its root: use exec mode chroot"},
		{"nsenter where PID 1 is not seen", alone, root, Nsenter, nil, "give the pod hostPID and privileged"},
		{"auto without uid 0", user, root, Auto, nil, "exec mode chroot, by which commands reach " + root + ", needs uid 0: run keel as root"},
		{"no chroot(8)", bare, other, Auto, nil, "exec mode chroot needs the command chroot beside keel, and it is not in /nowhere"},
		{"no nsenter(1)", bare, root, Auto, nil, "exec mode nsenter needs the command nsenter beside keel"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			runners, err := tt.reach.runners(tt.root, tt.mode)
			if err != nil {
				t.Fatal(err)
			}
			run := runners(tt.root)
			if tt.wantErr != "" {
				_, err := run.Run(t.Context(), Cmd{Argv: []string{"true"}})
				exit := new(ExitError)
				if errors.As(err, &exit) || errors.Is(err, fs.ErrNotExist) {
					t.Errorf("got %v, which reads as an answer of the machine", err)
				}
				wantError(t, err, "run true: ")
				wantError(t, err, tt.wantErr)
				return
			}
			e, ok := run.(Exec)
			if !ok {
				t.Fatalf("got %T, want an Exec", run)
			}
			if diff := cmp.Diff(tt.want, e.Prefix); diff != "" {
				t.Errorf("prefix (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRunners_badInput(t *testing.T) {
	_, err := Runners("/", "ssh")
	wantError(t, err, `exec mode "ssh": want one of auto, direct, chroot, nsenter`)
	_, err = Runners("/", "")
	wantError(t, err, "want one of auto, direct")
	_, err = Runners("", Auto)
	wantError(t, err, "the root is empty")
	runners, err := Runners("/", Auto)
	if err != nil {
		t.Fatal(err)
	}
	_, err = runners("").Run(t.Context(), Cmd{Argv: []string{"true"}})
	wantError(t, err, "the root is empty")
}

func TestRunners_decidesForOtherRoots(t *testing.T) {
	bin := t.TempDir()
	chroot := filepath.Join(bin, "chroot")
	if err := os.WriteFile(chroot, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	runners, err := reach{pid1: "/nowhere", path: bin, isRoot: true}.runners("/", Auto)
	if err != nil {
		t.Fatal(err)
	}
	if e, ok := runners("/srv/image").(Exec); !ok || !cmp.Equal(e.Prefix, []string{chroot, "/srv/image"}) {
		t.Errorf("got %v, want chroot to the other root", runners("/srv/image"))
	}
}

func wantError(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want an error that holds %q", err, text)
	}
}
