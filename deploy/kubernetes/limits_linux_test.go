package kubernetes

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
)

// What docs/spec/limits.md says of the size of a NodeConfig's status.
func TestLimits_areMeasured(t *testing.T) {
	page, err := os.ReadFile("../../docs/spec/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	applied := "configuration applied, services restarted"
	s := server(t)
	short := func(i int) string { return fmt.Sprintf("node-%05d", i) }
	long := func(i int) string {
		return fmt.Sprintf("ip-10-0-%d-%02d.eu-central-1.compute.internal", i/90+1, i%90+10)
	}
	for i, tt := range []struct {
		example string
		name    func(i int) string // as long as the example, of less than 810
		message string
	}{
		{"node-00001", short, applied},
		{"ip-10-0-1-23.eu-central-1.compute.internal", long, applied},
		{"node-00001", short, strings.Repeat("x", 256)},
		{"ip-10-0-1-23.eu-central-1.compute.internal", long, strings.Repeat("x", 256)},
	} {
		// size is what n nodes make of a NodeConfig, with and without managedFields.
		size := func(n int) (with, without int) {
			name := fmt.Sprintf("limits-%d-%03d", i, n)
			nodeConfig(t, s, name)
			all := object{}
			for i := range n {
				e := node(tt.message)
				e["triggerDigest"] = "sha256:" + strings.Repeat("0", 64)
				all[tt.name(i)] = e
			}
			if err := s.Do(t.Context(), s.Admin(), http.MethodPatch, nodeConfigs+"/"+name+"/status", entries(all), nil); err != nil {
				t.Fatal(err)
			}
			var stored json.RawMessage
			if err := s.Do(t.Context(), s.Admin(), http.MethodGet, nodeConfigs+"/"+name, nil, &stored); err != nil {
				t.Fatal(err)
			}
			var nc struct {
				Metadata struct{ ManagedFields json.RawMessage }
			}
			if err := json.Unmarshal(stored, &nc); err != nil {
				t.Fatal(err)
			}
			return len(stored), len(stored) - len(nc.Metadata.ManagedFields)
		}
		most, mostWithout := size(800)
		least, leastWithout := size(300)
		row := fmt.Sprintf("| `%s` | of %d bytes | %d | %d |", tt.example, len(tt.message), (most-least+250)/500, (mostWithout-leastWithout+250)/500)
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/spec/limits.md does not say %s", row)
		}
	}
}
