package plugin

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/test/recorded"
)

type motd struct{ run command.Runner }

func (motd) Name() string                     { return "motd" }
func (motd) Validate(map[string]string) error { return nil }
func (m motd) Ensure(context.Context, string, map[string]string) (bool, error) {
	return m.run != nil, nil
}

func TestSet_AddHandlerGivesItTheRunner(t *testing.T) {
	set := Set{Handlers: func(func(string) command.Runner) *Registry[handler.Handler] {
		r := NewRegistry[handler.Handler]("handler")
		r.Register("file", handler.Adapt(motd{}))
		return r
	}}
	set.AddHandler(func(run func(root string) command.Runner) handler.Handler {
		return handler.Adapt(motd{run: run("/")})
	})
	handlers := set.Handlers(func(string) command.Runner { return &recorded.Runner{} })
	if diff := cmp.Diff([]string{"file", "motd"}, handlers.Names()); diff != "" {
		t.Error(diff)
	}
	h, err := handlers.Lookup("motd")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := h.Ensure(t.Context(), handler.Call{}); err != nil || !got {
		t.Errorf("the handler was made without the runner: %v, %v", got, err)
	}
}
