package repo

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tlspu/keel/test/parts"
)

// What is generated is what go generate makes of today's sources: it is run in a
// copy, so that the checkout stays as it is.
func TestGenerated_isFresh(t *testing.T) {
	parts.Need(t, "controller-gen")
	dir := copyTree(t)
	cmd := exec.Command("go", "generate", "./...", "./api/...")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go generate: %v\n%s", err, out)
	}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		path, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		made, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if committed, err := os.ReadFile(filepath.Join(top, path)); err != nil || !bytes.Equal(made, committed) {
			t.Errorf("%s is not what make generate makes; run it and commit", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
