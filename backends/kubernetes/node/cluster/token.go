package cluster

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/rest"
)

// CheckNode refuses the name of another Node than the one that the client's token is
// bound to. The server would let no status through, but nothing else would keep the
// agent from applying to this machine what is meant for that one. A token that is
// bound to none, or cannot be read, says nothing.
func (c *Client) CheckNode(name string) error {
	if c.bound == "" || c.bound == name {
		return nil
	}
	return fmt.Errorf("node-name: %s is another node: the agent's token is bound to %s; give that name, or a token of a pod on %s", name, c.bound, name)
}

// boundTo is the name of the Node that a token is bound to, as its claims say, which
// the API server wrote; "" if there is none.
func boundTo(config *rest.Config) string {
	token := config.BearerToken
	if config.BearerTokenFile != "" { // it goes before the other
		if data, err := os.ReadFile(config.BearerTokenFile); err == nil {
			token = strings.TrimSpace(string(data))
		}
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	var claims struct {
		Kubernetes struct {
			Node struct {
				Name string `json:"name"`
			} `json:"node"`
		} `json:"kubernetes.io"`
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(data, &claims) != nil {
		return ""
	}
	return claims.Kubernetes.Node.Name
}
