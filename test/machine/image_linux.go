package machine

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/tlspu/keel/test/parts"
)

// KeelImage makes the root of a pod from what make image makes of this checkout:
// Keel is /usr/bin/keel in it. The archive is built once a process.
func KeelImage(t testing.TB) string {
	t.Helper()
	parts.Need(t, "root")
	archive, err := keelImage()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := Unpack(bytes.NewReader(archive), runtime.GOARCH, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

var keelImage = sync.OnceValues(func() ([]byte, error) {
	work, err := exec.Command("go", "env", "GOWORK").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOWORK: %w", err)
	}
	dir, err := os.MkdirTemp("", "keel-image")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "image.tar")
	cmd := exec.Command("make", "-C", filepath.Dir(strings.TrimSpace(string(work))), "image", "IMAGE="+file, "IMAGE_ARCH="+runtime.GOARCH)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // the tests themselves may run with it
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make image: %w\n%s", err, out)
	}
	return os.ReadFile(file)
})
