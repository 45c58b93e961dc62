package main

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/tlspu/keel/test/machine"
)

// The image needs nothing that is not in it. That commands reach the host from it
// is for test/e2e, whose pods have it.
func TestImage_runs(t *testing.T) {
	cmd := exec.Command("/usr/bin/keel", "version")
	cmd.Env = []string{"LC_ALL=C"}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: machine.KeelImage(t)}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "keel ") {
		t.Errorf("keel version: %v, %q", err, out)
	}
}
