// Package parts names what tests need beside Go: root, strace, a Debian root.
// A missing part skips the test with the reason and how to get it; with CI=true
// it fails instead, so that a skip can never pass for a success.
package parts

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Need skips t, or fails it when CI=true, unless every named part is here. A
// name is "root" (uid 0), "debian-root" (see Dir), "cgroup2" and "mounted root" (mounts
// of this process), a command that Path knows, or a command on PATH.
func Need(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := find(name); err != nil {
			Missing(t, name, err.Error())
		}
	}
}

// Missing skips t, or fails it when CI=true, for a part that only the test
// itself could find to be missing; how says how to get it.
func Missing(t testing.TB, name, how string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("needs %s: %s", name, how)
	}
	t.Skipf("needs %s: %s", name, how)
}

// Dir is the folder in which a built part lies: "debian-root" is the root of a
// minimal Debian with systemd. It is shared between tests, which must not write
// to it.
func Dir(name string) string {
	return filepath.Join(cache(), name)
}

// Path is the file of a command that was built for tests: kube-apiserver, kubectl
// or etcd, all of one Kubernetes release. It is there once Need let the test pass.
func Path(name string) string {
	return filepath.Join(cache(), kube(), name)
}

func find(name string) error {
	switch name {
	case "root":
		if os.Geteuid() != 0 {
			return fmt.Errorf("run the tests as root")
		}
	case "debian-root":
		if _, err := os.Stat(filepath.Join(Dir(name), ".complete")); err != nil {
			return fmt.Errorf("build it once with `make parts` as root")
		}
	case "kube-apiserver", "kubectl", "etcd":
		if _, err := os.Stat(Path(name)); err != nil {
			return fmt.Errorf("build it once with `make parts` as root")
		}
	case "cgroup2":
		if !mounted(func(_, kind string) bool { return kind == name }) {
			return fmt.Errorf("mount it: mount -t cgroup2 none /sys/fs/cgroup")
		}
	case "mounted root":
		if !mounted(func(point, _ string) bool { return point == "/" }) {
			return fmt.Errorf("run the tests where / is a mount point, not in a plain chroot")
		}
	case "controller-gen":
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("build it once with `make generate`, and test with `make test`")
		}
	default:
		if _, err := exec.LookPath(name); err != nil {
			pkg, ok := packages[name]
			if !ok {
				return fmt.Errorf("install it: %s is not on PATH", name)
			}
			return fmt.Errorf("install it: apt-get install %s", pkg)
		}
	}
	return nil
}

// mounted reports whether a mount of this process is what is looked for.
func mounted(is func(point, kind string) bool) bool {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 2 && is(f[1], f[2]) {
			return true
		}
	}
	return false
}

// packages maps the commands that tests need to the Debian packages that hold
// them.
var packages = map[string]string{
	"chattr":    "e2fsprogs",
	"gcc":       "gcc",
	"getcap":    "libcap2-bin",
	"getfacl":   "acl",
	"getfattr":  "attr",
	"lsattr":    "e2fsprogs",
	"mkfs.ext4": "e2fsprogs",
	"mount":     "util-linux",
	"nsenter":   "util-linux",
	"setcap":    "libcap2-bin",
	"setfacl":   "acl",
	"setfattr":  "attr",
	"strace":    "strace",
	"unshare":   "util-linux",
}

// cache is $KEEL_CACHE, else .cache at the top of the checkout.
func cache() string {
	if dir := os.Getenv("KEEL_CACHE"); dir != "" {
		return dir
	}
	return filepath.Join(top(), ".cache")
}

// kube is the folder in the cache for what kube.sh makes of today's sources. It
// names itself by the same sum.
func kube() string {
	sum := sha256.New()
	for _, name := range []string{"parts/kube.sh", "kube/go.mod", "kube/go.sum"} {
		// What cannot be read gives a folder that is not there.
		text, _ := os.ReadFile(filepath.Join(top(), "test", name))
		sum.Write(text)
	}
	return fmt.Sprintf("kube-%x", sum.Sum(nil)[:8])
}

// top is the checkout that the test runs in.
func top() string {
	dir, err := os.Getwd()
	for err == nil && !strings.HasSuffix(dir, "/") {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}
