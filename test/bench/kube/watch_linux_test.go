package kube

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tlspu/keel/test/kubetest"
)

// A watcher counts what watches of the NodeConfigs bring. They read it and throw it
// away: an agent would have to decode it.
type watcher struct {
	bytes atomic.Int64
	again atomic.Int64 // how often one began anew, as when it was too slow
}

// watch holds as many watches as the flag says, each on a connection of its own,
// until b ends, and waits until they have begun.
func watch(b *testing.B, s *kubetest.Server) *watcher {
	b.Helper()
	w := &watcher{}
	ctx, stop := context.WithCancel(b.Context())
	var running, begun sync.WaitGroup
	b.Cleanup(func() {
		stop()
		running.Wait()
	})
	for range *watches {
		tls, err := rest.TLSConfigFor(s.Admin())
		if err != nil {
			b.Fatal(err)
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true}}
		begun.Add(1)
		ready := sync.OnceFunc(begun.Done)
		running.Go(func() {
			defer client.CloseIdleConnections()
			for {
				err := w.hold(ctx, s, client, ready)
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Second):
				}
				w.again.Add(1)
				progress("a watch ended: %v", err)
			}
		})
	}
	begun.Wait()
	return w
}

// hold holds one watch, of what comes after now, until it ends.
func (w *watcher) hold(ctx context.Context, s *kubetest.Server, client *http.Client, ready func()) error {
	var list metav1.PartialObjectMetadataList
	if err := s.Do(ctx, s.Admin(), http.MethodGet, nodeConfigs+"?limit=1", nil, &list); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+nodeConfigs+"?watch=true&resourceVersion="+list.ResourceVersion, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	ready()
	_, err = io.Copy(w, resp.Body)
	return err
}

func (w *watcher) Write(p []byte) (int, error) {
	w.bytes.Add(int64(len(p)))
	return len(p), nil
}
