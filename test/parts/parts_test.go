package parts

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What Need tells to install must be what make parts installs.
func TestPackages_areInstalledByMakeParts(t *testing.T) {
	data, err := os.ReadFile("debian-packages.txt")
	if err != nil {
		t.Fatal(err)
	}
	listed := strings.Fields(string(data))
	for command, pkg := range packages {
		if !slices.Contains(listed, pkg) {
			t.Errorf("debian-packages.txt lacks %s, which holds %s", pkg, command)
		}
	}
	if !slices.IsSorted(listed) {
		t.Error("debian-packages.txt is not sorted")
	}
}

func TestFind_saysHowToGet(t *testing.T) {
	t.Setenv("KEEL_CACHE", t.TempDir())
	t.Setenv("PATH", t.TempDir())
	tests := []struct{ name, want string }{
		{"debian-root", "build it once with `make parts` as root"},
		{"kube-apiserver", "build it once with `make parts` as root"},
		{"setfacl", "install it: apt-get install acl"},
		{"frobnicate", "install it: frobnicate is not on PATH"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := find(tt.name); err == nil || err.Error() != tt.want {
				t.Errorf("find = %v, want %s", err, tt.want)
			}
		})
	}
}

// kube.sh ends at once when the folder is there that package parts looks in.
func TestPath_isWhereKubeShPutsIt(t *testing.T) {
	t.Setenv("KEEL_CACHE", t.TempDir())
	if err := os.Mkdir(filepath.Dir(Path("kubectl")), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("./kube.sh", os.Getenv("KEEL_CACHE"))
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOCACHE=off") // it cannot build
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("kube.sh: %v\n%s", err, out)
	}
}

func TestDir_isInTheCache(t *testing.T) {
	t.Setenv("KEEL_CACHE", "/var/cache/keel")
	if got := Dir("debian-root"); got != "/var/cache/keel/debian-root" {
		t.Errorf("Dir = %s", got)
	}
	t.Setenv("KEEL_CACHE", "")
	top, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := Dir("debian-root"), filepath.Join(top, ".cache", "debian-root"); got != want {
		t.Errorf("Dir = %s, want %s", got, want)
	}
}
