package node

import (
	"strings"
	"testing"
	"time"
)

// The machine counts more than the file, and that is said, once.
func TestAgent_factsOfTheMachineCountMore(t *testing.T) {
	w := newAgentWorld(t)
	w.osRelease(t, "ID=debian\n")
	w.factsFile(t, "os: {id: rocky, versionID: '13'}\n")
	w.write(t, "a.yaml", with("a", "{{ .OS.ID }} {{ .OS.VersionID }}", ""))
	w.later(t, time.Hour)
	if got := w.content(t, "a"); got != "debian 13" {
		t.Errorf("content %q", got)
	}
	if n := strings.Count(w.log.String(), "the host reports a different value"); n != 1 {
		t.Errorf("said %d times:\n%s", n, &w.log)
	}
}
