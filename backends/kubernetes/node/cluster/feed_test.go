package cluster

import (
	"crypto/x509"
	"errors"
	"net/url"
	"strings"
	"testing"
)

// An API server that is away is the same trouble with every request, so that it is
// logged once.
func TestFeed_explainsTheSameByTheSameText(t *testing.T) {
	f := feed{resource: "secrets", namespace: "default", name: "db"}
	refused := errors.New("dial tcp 127.0.0.1:6443: connect: connection refused")
	for err, want := range map[error]string{
		&url.Error{Op: "Get", URL: "https://127.0.0.1:6443/x?timeoutSeconds=306", Err: refused}:                    "read secrets default/db: dial tcp 127.0.0.1:6443: connect: connection refused",
		&url.Error{Op: "Get", URL: "https://127.0.0.1:6443/x?timeoutSeconds=451", Err: refused}:                    "read secrets default/db: dial tcp 127.0.0.1:6443: connect: connection refused",
		&url.Error{Op: "Get", URL: "https://127.0.0.1:6443/x", Err: x509.UnknownAuthorityError{}}:                  "not of the authority that the agent was given",
		&url.Error{Op: "Get", URL: "https://user:hunter2@127.0.0.1:6443/x?password=hunter2", Err: errors.New("x")}: "read secrets default/db: x",
	} {
		if got := f.explain(err).Error(); !strings.Contains(got, want) || strings.Contains(got, "hunter2") {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}
