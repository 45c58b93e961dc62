package repo

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Without Go make says so first, and where Go comes from; what needs none works.
func TestMake_saysThatGoIsMissing(t *testing.T) {
	bin := t.TempDir()
	for _, tool := range []string{"sh", "git", "sed", "awk", "cat", "cksum", "tr"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, tool)); err != nil {
			t.Fatal(err)
		}
	}
	run := func(target string) (string, error) {
		cmd := exec.Command("make", "--no-print-directory", target)
		cmd.Dir = top
		cmd.Env = []string{"PATH=" + bin}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, target := range []string{"run", "test", "lint", "image"} {
		out, err := run(target)
		if want := "make: go is not in PATH: install Go 1."; err == nil || !strings.HasPrefix(out, want) ||
			!strings.Contains(out, "https://go.dev/dl") || strings.Contains(out, "No such file") {
			t.Errorf("make %s: %v, %q, want it to begin with %q", target, err, out, want)
		}
	}
	if out, err := run("help"); err != nil || !strings.HasPrefix(out, "help ") {
		t.Errorf("make help: %v\n%s", err, out)
	}
}

// A cold linter on a busy machine takes longer than any limit of its own: the run
// of CI has one.
func TestLint_hasNoTimeoutOfItsOwn(t *testing.T) {
	if config := read(t, ".golangci.yml"); !strings.Contains(config, "\nrun:\n  timeout: 0s") {
		t.Error(".golangci.yml sets a timeout, or leaves it to a default")
	}
}
