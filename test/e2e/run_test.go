package e2e

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// keel builds the binary and returns the folder it lies in.
func keel(t *testing.T) string {
	t.Helper()
	dependOnKeel(t)
	dir := t.TempDir()
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "keel"), "github.com/tlspu/keel/cmd/keel")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return dir
}

// dependOnKeel reads what the binary and its image are made of, and what these tests
// give it.
func dependOnKeel(t *testing.T) {
	t.Helper()
	for _, dir := range []string{"api", "backends", "cmd", "core", "plugins", "docs/examples", "deploy/image", "deploy/kubernetes", "test/fixtures/roots"} {
		dependOn(t, filepath.Join("../..", dir))
	}
}

// dependOn reads the files of a folder. Other programs read them for the test, so
// that go test would not know that its result is another when they are.
func dependOn(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			_, err = os.ReadFile(name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What the README shows of make run is what it prints, but for the times.
func TestMakeRun_printsWhatTheReadmeShows(t *testing.T) {
	cmd := exec.Command("sh", "-c", "./run.sh && ./cluster.sh /without-parts")
	cmd.Env = append(os.Environ(), "KEEL_BIN="+keel(t))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("run.sh: %v\n%s", err, out)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(readme), "```\n$ make run\n")
	if !ok {
		t.Fatal("README.md has no block that starts with $ make run")
	}
	block, _, _ = strings.Cut(block, "```\n")
	if diff := cmp.Diff(timeless(string(out)), timeless(block)); diff != "" {
		t.Errorf("make run prints (-), README.md shows (+):\n%s", diff)
	}
}

// timeless replaces what differs from run to run.
func timeless(text string) string {
	text = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)`).ReplaceAllString(text, "TIME")
	text = regexp.MustCompile(`\b\d+(\.\d+)?(µs|ms|s)\b`).ReplaceAllString(text, "TOOK")
	return strings.TrimSpace(text)
}

// The NodeConfig that the README shows can be used.
func TestReadme_nodeConfigIsValid(t *testing.T) {
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(page), "```yaml\n")
	if !ok {
		t.Fatal("README.md has no block of YAML")
	}
	block, _, _ = strings.Cut(block, "```\n")
	cmd := exec.Command(filepath.Join(keel(t), "keel"), "validate", "-f", "-")
	cmd.Stdin = strings.NewReader(block)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("keel validate: %v\n%s", err, out)
	}
}
