package command_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/test/contract"
	"github.com/tlspu/keel/test/machine"
	"github.com/tlspu/keel/test/parts"
	"github.com/tlspu/keel/test/recorded"
)

// inPod says that this process is the part of a test that runs in a pod.
const inPod = "KEEL_TEST_IN_POD"

// From a pod with hostPID commands run on the booted host that it is on.
func TestRunners_reachTheHostOfAPod(t *testing.T) {
	if os.Getenv(inPod) != "" {
		for _, mode := range []string{command.Auto, command.Nsenter, command.Chroot} {
			t.Run(mode, func(t *testing.T) { reachHost(t, mode) })
		}
		return
	}
	h := machine.Boot(t, machine.Options{Name: "node1", Prepare: func(root string) error {
		return os.WriteFile(filepath.Join(root, "usr/local/bin/tool"), []byte("#!/bin/sh\necho the tool of $(cat /etc/hostname) says $1\nexit 7\n"), 0o755)
	}})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/command.test", "-test.v", "-test.run=^"+t.Name()+"$")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Env = []string{inPod + "=1", "CI=true"}
	pod := machine.Pod{Image: parts.Debian(t), Mounts: map[string]string{"/command.test": self}}
	if err := h.Start(t, pod, cmd).Wait(); err != nil || !strings.Contains(out.String(), "--- PASS: "+t.Name()+"/nsenter/a_unit") {
		t.Errorf("in the pod: %v\n%s", err, &out)
	}
}

// reachHost checks one exec mode, in the pod.
func reachHost(t *testing.T, mode string) {
	run := runnerAt(t, mode, "/host")
	contract.Runner(t, func(*testing.T, []recorded.Exchange) command.Runner { return run })
	query := func(argv ...string) string {
		t.Helper()
		out, err := run.Run(t.Context(), command.Cmd{Argv: argv, Query: true})
		if err != nil {
			return string(out) + err.Error()
		}
		return string(out)
	}
	hosts := map[bool]string{true: "the host's", false: "the pod's"}
	read := func(ns string) string {
		t.Helper()
		switch strings.TrimSpace(query("readlink", "/proc/self/ns/"+ns)) {
		case namespace(t, "/proc/self", ns):
			return hosts[false]
		case namespace(t, "/proc/1", ns):
			return hosts[true]
		}
		return "neither's"
	}
	if got, want := query("tool", "a b"), "the tool of node1 says a b\nrun tool \"a b\": exit status 7"; got != want {
		t.Errorf("a command of the host: got %q, want %q", got, want)
	}
	if got := query("cat", "/proc/1/comm"); got != "systemd\n" {
		t.Errorf("PID 1 is %q", got)
	}
	for ns, own := range map[string]bool{"mnt": true, "net": true} {
		if got, want := read(ns), hosts[own && mode != command.Chroot]; got != want {
			t.Errorf("the %s namespace is %s, want %s", ns, got, want)
		}
	}
	t.Run("a unit", func(t *testing.T) {
		cgroup := command.Cmd{Argv: []string{"sh", "-c", "cat /proc/self/cgroup >/run/keel-test"}, Finish: true, Unit: "keel-test"}
		if _, err := run.Run(t.Context(), cgroup); err != nil {
			t.Fatal(err)
		}
		got := query("cat", "/run/keel-test")
		if want := mode != command.Chroot; strings.Contains(got, "keel-test.service") != want {
			t.Errorf("cgroup %q, want a unit of its own: %t", got, want)
		}
	})
}
