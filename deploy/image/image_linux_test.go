package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/tlspu/keel/test/machine"
	"github.com/tlspu/keel/test/parts"
)

// The image needs nothing that is not in it.
func TestImage_runs(t *testing.T) {
	image := machine.KeelImage(t)
	for _, tt := range []struct {
		argv []string
		want string
	}{
		{[]string{"/usr/bin/keel", "version"}, "keel "},
		{[]string{"/usr/bin/nsenter", "--version"}, "nsenter from util-linux "},
		{[]string{"/usr/sbin/chroot", "--version"}, "chroot (GNU coreutils) "},
		{[]string{"/usr/sbin/chroot", "/", "/usr/bin/keel", "version"}, "keel "},
	} {
		cmd := exec.Command(tt.argv[0], tt.argv[1:]...)
		cmd.Env = []string{"LC_ALL=C"}
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: image}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), tt.want) {
			t.Errorf("%v: %v, %q, want it to begin with %q", tt.argv, err, out, tt.want)
		}
	}
}

// From a pod commands are run on the host, by the words that core/host puts
// before them, and they are the host's: a busybox would rather run its own.
func TestImage_reachesTheHostOfAPod(t *testing.T) {
	h := machine.Boot(t, machine.Options{Name: "node1", Prepare: func(root string) error {
		return os.WriteFile(filepath.Join(root, "usr/local/bin/dpkg"), []byte("#!/bin/sh\necho the dpkg of $(cat /etc/hostname) says $1\nexit 7\n"), 0o755)
	}})
	pod := machine.Pod{Image: machine.KeelImage(t)}
	run := func(argv ...string) string {
		t.Helper()
		cmd := exec.Command(argv[0], argv[1:]...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		cmd.Env = []string{"LC_ALL=C", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
		err := h.Start(t, pod, cmd).Wait()
		exit := new(exec.ExitError)
		if err != nil && !errors.As(err, &exit) {
			t.Errorf("%v: %v", argv, err)
		}
		return fmt.Sprintf("%sexit %d", &out, cmd.ProcessState.ExitCode())
	}
	for _, way := range [][]string{
		{"/usr/bin/nsenter", "-t", "1", "-m", "-u", "-i", "-n", "-p", "--"},
		{"/usr/sbin/chroot", "/host"},
	} {
		program := filepath.Base(way[0])
		for _, tt := range []struct {
			name string
			argv []string
			want string
		}{
			{"a command of the host", []string{"dpkg", "--a b"}, "the dpkg of node1 says --a b\nexit 7"},
			{"its processes", []string{"cat", "/proc/1/comm"}, "systemd\nexit 0"},
			{"no such command", []string{"keel"}, "No such file or directory\nexit 127"},
		} {
			if got := run(append(way, tt.argv...)...); !strings.HasSuffix(got, tt.want) {
				t.Errorf("%s: %s: got %q, want %q", program, tt.name, got, tt.want)
			}
		}
	}
}

// packages.sh fetches nothing that is there, and says what it lacks.
func TestPackages_areFetchedOnce(t *testing.T) {
	parts.Need(t, "image-packages")
	script := func(path, cache string) (string, error) {
		cmd := exec.Command("./packages.sh", cache, runtime.GOARCH)
		cmd.Env = []string{"PATH=" + path}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := script("/nowhere", filepath.Dir(parts.Dir("image"))); err != nil || out != "" {
		t.Errorf("with everything there: %v, %q", err, out)
	}
	if out, err := script("/nowhere", t.TempDir()); err == nil || !strings.Contains(out, "there is no apt-get") {
		t.Errorf("without apt-get: %v, %q", err, out)
	}
	bin, cache := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "apt-get"), []byte("#!/bin/sh\necho E: no network\nexit 100\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := script(bin+":"+os.Getenv("PATH"), cache)
	if want := "E: no network\nmake image: apt has no base-files for " + runtime.GOARCH; err == nil || !strings.Contains(out, want) {
		t.Errorf("without a network: %v, %q, want %q", err, out, want)
	}
	if left, err := os.ReadDir(filepath.Join(cache, "image")); err != nil || len(left) != 1 || left[0].Name() != "lock" {
		t.Errorf("left in the cache: %v, %v", left, err)
	}
}
