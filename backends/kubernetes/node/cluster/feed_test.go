package cluster

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A watch and a list that are refused in turn are one trouble.
func TestFeed_explainsARightThatIsMissingByTheSameText(t *testing.T) {
	f := feed{resource: "secrets", namespace: "default", name: "db"}
	want := `give the agent's ServiceAccount get, list and watch on secrets default/db: secrets "db" is forbidden: User "keel" cannot read resource "secrets"`
	for _, verb := range []string{"list", "watch"} {
		err := f.explain(apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "db", fmt.Errorf(`User "keel" cannot %s resource "secrets"`, verb)))
		if err.Error() != want || !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want %s", verb, err, want)
		}
	}
}

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

// What is refused in other words is told once.
func TestSay_saysTheSameOnce(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	list := &Forbidden{text: "give it rights", err: apierrors.NewForbidden(nodes, "n1", errors.New("cannot list"))}
	watch := &Forbidden{text: "give it rights", err: apierrors.NewForbidden(nodes, "n1", errors.New("cannot watch"))}
	reset, refused := errors.New("read nodes n1: connection reset by peer"), errors.New("read nodes n1: connection refused")
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	var before error
	for _, err := range []error{nil, list, watch, list, reset, refused, apierrors.NewUnauthorized("no"), nil, nil} {
		say(logger, "nodes n1", before, err)
		before = err
	}
	var got []string
	for line := range strings.Lines(log.String()) {
		_, line, _ = strings.Cut(line, "msg=")
		got = append(got, strings.TrimSpace(line))
	}
	want := []string{
		`"API server cannot be read" what="nodes n1" err="give it rights"`,
		`"API server cannot be read" what="nodes n1" err="read nodes n1: connection reset by peer"`,
		`"API server cannot be read" what="nodes n1" err=no`,
		`"API server can be read again" what="nodes n1"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}
