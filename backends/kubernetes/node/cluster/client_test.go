package cluster

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A token that was renewed is used as soon as the server refuses the old one.
func TestConnect_readsATokenAgain(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer renewed" {
			http.Error(w, "who is that", http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	token, kubeconfig := filepath.Join(t.TempDir(), "token"), filepath.Join(t.TempDir(), "kubeconfig")
	text := `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %q}}]
users: [{name: u, user: {tokenFile: %q}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
`
	authority := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	for name, content := range map[string]string{token: "expired\n", kubeconfig: fmt.Sprintf(text, server.URL, authority, token)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	client, err := Connect(kubeconfig, "keel-test")
	if err != nil {
		t.Fatal(err)
	}
	ask := func() error { return client.core.Get().AbsPath("/version").Do(t.Context()).Error() }
	for range 2 { // client-go believes in a token that it has just read
		if err := ask(); !apierrors.IsUnauthorized(err) {
			t.Fatalf("got %v, want it refused", err)
		}
	}
	if err := os.WriteFile(token, []byte("renewed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ask(); err != nil {
		t.Errorf("with a new token: %v", err)
	}
}
