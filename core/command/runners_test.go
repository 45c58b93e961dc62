package command

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReach_runner(t *testing.T) {
	root, other, pid1 := t.TempDir(), t.TempDir(), t.TempDir()
	if err := os.Symlink(root, filepath.Join(pid1, "root")); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/", link); err != nil {
		t.Fatal(err)
	}
	privileged := reach{pid1: pid1, namespaces: true, isRoot: true}
	user := reach{pid1: "/nowhere", namespaces: true}
	alone := reach{pid1: "/nowhere", namespaces: true, isRoot: true}
	freebsd := reach{pid1: pid1, isRoot: true}
	entering := Exec{process: pid1, booted: filepath.Join(pid1, "root/run/systemd/system")}

	tests := []struct {
		name       string
		reach      reach
		root, mode string
		want       Exec
		wantErr    string // of the first command
	}{
		{"auto of /", privileged, "/", Auto, Exec{}, ""},
		{"auto of / for a user", user, "/", Auto, Exec{}, ""},
		{"auto of PID 1's root", privileged, root, Auto, entering, ""},
		{"auto of another root", privileged, other, Auto, Exec{root: other}, ""},
		{"auto where PID 1 is not seen", alone, root, Auto, Exec{root: root}, ""},
		{"auto without namespaces", freebsd, root, Auto, Exec{root: root}, ""},
		{"the root is cleaned", alone, root + "/./x/..//", Auto, Exec{root: root}, ""},
		{"/ by another name", privileged, "//.", Auto, Exec{}, ""},
		{"direct", user, "/", Direct, Exec{}, ""},
		{"direct to / through a symlink", user, link, Direct, Exec{}, ""},
		{"direct to another machine", privileged, root, Direct, Exec{}, "and " + root + " is not its root: use exec mode chroot"},
		{"direct to nothing", privileged, "/nowhere", Direct, Exec{}, "and /nowhere is not its root"},
		{"chroot although PID 1 is seen", privileged, root, Chroot, Exec{root: root}, ""},
		{"chroot of /", privileged, "/", Chroot, Exec{root: "/"}, ""},
		{"nsenter", privileged, root, Nsenter, entering, ""},
		{"nsenter to another machine", privileged, other, Nsenter, Exec{}, "and " + other + " is not its root: use exec mode chroot"},
		{"nsenter where PID 1 is not seen", alone, root, Nsenter, Exec{}, "give the pod hostPID and privileged"},
		{"nsenter without namespaces", freebsd, root, Nsenter, Exec{}, "exec mode nsenter is not supported on this system: use exec mode chroot"},
		{"auto without uid 0", user, root, Auto, Exec{}, "enter root " + root + ": exec mode chroot needs uid 0: run keel as root"},
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
				exit, entry := new(ExitError), new(EntryError)
				if errors.As(err, &exit) || errors.Is(err, fs.ErrNotExist) || !errors.As(err, &entry) {
					t.Errorf("got %v, want an *EntryError and no answer of the machine", err)
				}
				wantError(t, err, "run true: ")
				wantError(t, err, tt.wantErr)
				return
			}
			if run != tt.want {
				t.Errorf("got %+v, want %+v", run, tt.want)
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
	runners, err := reach{pid1: "/nowhere", isRoot: true}.runners("/", Auto)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := runners("/srv/image"), (Exec{root: "/srv/image"}); got != want {
		t.Errorf("got %+v, want chroot to the other root", got)
	}
}

func wantError(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want an error that holds %q", err, text)
	}
}
