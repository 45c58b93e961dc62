package cluster

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

func TestClient_checkNode(t *testing.T) {
	token := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2lnbmF0dXJl"
	}
	bound := token(`{"sub":"x","kubernetes.io":{"namespace":"keel-system","node":{"name":"worker-1","uid":"u"},"pod":{"name":"p"}}}`)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(bound+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		config rest.Config
		node   string
		want   string
	}{
		{"its own", rest.Config{BearerToken: bound}, "worker-1", ""},
		{"another", rest.Config{BearerToken: bound}, "worker-2",
			"node-name: worker-2 is another node: the agent's token is bound to worker-1; give that name, or a token of a pod on worker-2"},
		{"another, by the file of a pod", rest.Config{BearerTokenFile: file}, "worker-2", "bound to worker-1"},
		{"the file goes first", rest.Config{BearerToken: token(`{}`), BearerTokenFile: file}, "worker-2", "bound to worker-1"},
		{"a file that is missing", rest.Config{BearerTokenFile: file + "x"}, "worker-2", ""},
		{"bound to no node", rest.Config{BearerToken: token(`{"kubernetes.io":{"namespace":"keel-system"}}`)}, "worker-2", ""},
		{"of no cluster", rest.Config{BearerToken: "secret"}, "worker-2", ""},
		{"no base64", rest.Config{BearerToken: "a.?.c"}, "worker-2", ""},
		{"no JSON", rest.Config{BearerToken: token(`[`)}, "worker-2", ""},
		{"none", rest.Config{}, "worker-2", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &Client{bound: boundTo(&tt.config)}
			err := c.CheckNode(tt.node)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
