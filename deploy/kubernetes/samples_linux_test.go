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

// Whoever applies the samples from a pipeline sees in the output what changed. What
// kubectl calls configured each time, as a Secret with stringData, hides it.
func TestSamples_areUnchangedTheSecondTime(t *testing.T) {
	s := deploy(t)
	s.Kubectl(t, "", "apply", "-f", "samples")
	out := s.Kubectl(t, "", "apply", "-f", "samples")
	s.Kubectl(t, "", "delete", "-f", "samples") // other tests see whether they can be created
	if n := strings.Count(out, " unchanged\n"); n != 7 || n != strings.Count(out, "\n") {
		t.Errorf("%d of the samples are unchanged, want 7:\n%s", n, out)
	}
}
