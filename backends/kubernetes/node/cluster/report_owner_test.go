package cluster

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A server that takes the owner away is not asked again and again.
func TestReporter_ownerIsNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := newStateDesk(t, stored("node-0", "motd"))
		d.api.change(func() {
			s.says = func(string) (answer, bool) {
				data, err := json.Marshal(stored("node-0", "motd"))
				return answer{code: 200, body: string(data)}, err == nil
			}
		})
		d.Report("motd", "a", statusOf("m", 1))
		if got := d.after(10 * time.Second); len(got) != 4 {
			t.Errorf("requests:\n%s", strings.Join(got, "\n"))
		}
		if got := d.log.said(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "did not become the Node's") {
			t.Errorf("log:\n%s", got)
		}
	})
}
