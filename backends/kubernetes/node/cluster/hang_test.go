package cluster

import (
	"context"
	"errors"
	"net/http"
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tlspu/keel/api/v1alpha1"
)

// mute is an API server that takes requests and never answers.
type mute struct{ requests int }

func (m *mute) RoundTrip(*http.Request) (*http.Response, error) {
	m.requests++
	return nil, os.ErrDeadlineExceeded
}

// Of an API server that hangs the agent hears with the first request: it is not
// ready meanwhile.
func TestFeed_hearsOfNoAnswer(t *testing.T) {
	for _, tt := range []struct {
		name string
		ask  func(ctx context.Context, f feed) error
	}{
		{"list", func(ctx context.Context, f feed) error {
			_, err := f.listWatch(ctx).ListWithContextFunc(ctx, metav1.ListOptions{})
			return err
		}},
		{"watch", func(ctx context.Context, f feed) error {
			_, err := f.listWatch(ctx).WatchFuncWithContext(ctx, metav1.ListOptions{})
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := new(mute)
			keel, err := client(&rest.Config{Host: "http://server", Transport: server}, scheme(), v1alpha1.GroupVersion, "/apis")
			if err != nil {
				t.Fatal(err)
			}
			var heard []error
			f := feed{client: keel, resource: "nodeconfigs", heard: func(err error) { heard = append(heard, err) }}
			if tt.ask(t.Context(), f) == nil {
				t.Error("no error")
			}
			if len(heard) != 1 || heard[0] == nil || server.requests != 1 {
				t.Errorf("heard %v after %d requests, want one error after one", errors.Join(heard...), server.requests)
			}
		})
	}
}
