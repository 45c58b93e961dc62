package repo

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// build makes the binary of a checkout with the Makefile's own command, but for
// the version, and returns the path of what it made.
func build(t *testing.T, checkout, version string) string {
	t.Helper()
	show := exec.Command("make", "-s", "-n", "build", "VERSION="+version, "COMMIT=c0ffee")
	show.Dir = top
	line, err := show.Output()
	if err != nil {
		t.Fatalf("make -n build: %v", err)
	}
	out := filepath.Join(t.TempDir(), "keel")
	cmd := exec.Command("sh", "-ec", strings.Replace(string(line), "-o bin/keel", "-o '"+out+"'", 1))
	cmd.Dir = checkout
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // the tests themselves may run with it
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, msg)
	}
	return out
}

func TestBuild_isStatic(t *testing.T) {
	f, err := elf.Open(build(t, top, "v1.2.3"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the binary has a %v segment", p.Type)
		}
	}
}

func TestBuild_isStampedWithTheVersion(t *testing.T) {
	out, err := exec.Command(build(t, top, "v1.2.3-4-gabc"), "version").CombinedOutput()
	if err != nil {
		t.Fatalf("keel version: %v\n%s", err, out)
	}
	if !strings.Contains(string(out), "v1.2.3-4-gabc") {
		t.Errorf("keel version prints %q", out)
	}
}

// The same sources give the same bytes, wherever they lie.
func TestBuild_isReproducible(t *testing.T) {
	here, err := os.ReadFile(build(t, top, "v1"))
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := os.ReadFile(build(t, copyTree(t), "v1"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(here, elsewhere) {
		t.Error("two checkouts of the same sources give different binaries")
	}
}
