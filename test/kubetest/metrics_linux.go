package kubetest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"k8s.io/client-go/rest"
)

// Metrics are those of the two processes, as they give them to a Prometheus.
func (s *Server) Metrics(t testing.TB) (api, etcd string) {
	t.Helper()
	client, err := rest.HTTPClientFor(s.Admin())
	if err != nil {
		t.Fatal(err)
	}
	if api, err = text(t.Context(), client, s.URL+"/metrics"); err != nil {
		t.Fatal(err)
	}
	if etcd, err = text(t.Context(), http.DefaultClient, s.etcd+"/metrics"); err != nil {
		t.Fatal(err)
	}
	return api, etcd
}

func text(ctx context.Context, client *http.Client, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", fmt.Errorf("%s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return string(data), nil
}
