package repo

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// Types made with one version of Kubernetes are not served by another.
func TestModules_agreeOnKubernetes(t *testing.T) {
	require := regexp.MustCompile(`(?m)^\s*(?:require )?(k8s\.io/\S+|sigs\.k8s\.io/\S+) (v\S+)`)
	versions := func(file string) map[string]string {
		m := map[string]string{}
		for _, r := range require.FindAllStringSubmatch(read(t, file), -1) {
			m[r[1]] = r[2]
		}
		return m
	}
	root, api := versions("go.mod"), versions("api/go.mod")
	if len(api) == 0 {
		t.Fatal("api/go.mod requires nothing of Kubernetes")
	}
	for mod, v := range api {
		if root[mod] != "" && root[mod] != v {
			t.Errorf("go.mod has %s %s, api/go.mod %s", mod, root[mod], v)
		}
	}
}

// The API server that tests run against is of the release whose clients are
// linked.
func TestModules_testWithTheirOwnKubernetes(t *testing.T) {
	replaced := regexp.MustCompile(`(?m)^\t(k8s\.io/\S+) => \S+ (v\S+)`)
	server := map[string]string{}
	for _, r := range replaced.FindAllStringSubmatch(read(t, "test/kube/go.mod"), -1) {
		server[r[1]] = r[2]
	}
	if len(server) == 0 {
		t.Fatal("test/kube/go.mod replaces nothing of Kubernetes")
	}
	for _, r := range regexp.MustCompile(`(?m)^\t(k8s\.io/\S+) (v\S+)`).FindAllStringSubmatch(read(t, "go.mod"), -1) {
		if v, ok := server[r[1]]; ok && v != r[2] {
			t.Errorf("go.mod has %s %s, test/kube/go.mod %s", r[1], r[2], v)
		}
	}
}

// go install of a tagged version refuses a module with a replace directive.
func TestRelease_hasNoReplace(t *testing.T) {
	cmd := exec.Command("git", "describe", "--tags", "--exact-match", "--match", "v*")
	cmd.Dir = top
	tag, err := cmd.Output()
	if err != nil {
		return // not the commit of a release
	}
	if strings.Contains(read(t, "go.mod"), "\nreplace ") {
		t.Errorf("%s still has a replace in go.mod: see docs/adr/0002-two-modules.md", strings.TrimSpace(string(tag)))
	}
}
