package kubernetes

import (
	"strings"
	"testing"
)

// The server takes the samples as kubectl sends them, which lets no unknown field pass.
func TestSamples_areTaken(t *testing.T) {
	s := deploy(t)
	out := s.Kubectl(t, "", "apply", "--dry-run=server", "-f", "samples")
	if n := strings.Count(out, " created (server dry run)\n"); n != 7 || n != strings.Count(out, "\n") {
		t.Errorf("%d of the samples would be created, want 7:\n%s", n, out)
	}
}
