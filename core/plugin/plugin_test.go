package plugin

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/core/host"
)

type motd struct{ run host.Runner }

func (motd) Name() string                     { return "motd" }
func (motd) Validate(map[string]string) error { return nil }
func (m motd) Ensure(context.Context, string, map[string]string) (bool, error) {
	return m.run != nil, nil
}

func TestSet_AddHandlerGivesItTheRunner(t *testing.T) {
	set := Set{Handlers: func(func(string) host.Runner) *Registry[handler.Handler] {
		r := NewRegistry[handler.Handler]("handler")
		r.Register("file", motd{})
		return r
	}}
	set.AddHandler(func(run func(root string) host.Runner) handler.Handler {
		return motd{run: run("/")}
	})
	handlers := set.Handlers(func(string) host.Runner { return &host.Recorded{} })
	if diff := cmp.Diff([]string{"file", "motd"}, handlers.Names()); diff != "" {
		t.Error(diff)
	}
	h, err := handlers.Lookup("motd")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := h.Ensure(t.Context(), "/", nil); err != nil || !got {
		t.Errorf("the handler was made without the runner: %v, %v", got, err)
	}
}
