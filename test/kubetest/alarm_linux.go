package kubetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
)

// RefuseWrites makes etcd refuse writes from now on, as when its disk quota is
// used up, or take them again. Reads and watches go on. A server that is refused
// answers 500 with "database space exceeded".
func (s *Server) RefuseWrites(t testing.TB, refuse bool) {
	t.Helper()
	var members struct {
		Header struct {
			MemberID string `json:"member_id"`
		}
	}
	s.askEtcd(t, "/v3/cluster/member/list", map[string]string{}, &members)
	action := "DEACTIVATE"
	if refuse {
		action = "ACTIVATE"
	}
	s.askEtcd(t, "/v3/maintenance/alarm", map[string]string{"action": action, "alarm": "NOSPACE", "memberID": members.Header.MemberID}, nil)
}

// askEtcd calls etcd's gRPC by its JSON gateway.
func (s *Server) askEtcd(t testing.TB, path string, body, into any) {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.etcd+path, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	err = nil
	if resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answers %s", resp.Status)
	} else if into != nil {
		err = json.NewDecoder(resp.Body).Decode(into)
	}
	if err != nil {
		t.Fatalf("ask etcd %s: %v", path, err)
	}
}
