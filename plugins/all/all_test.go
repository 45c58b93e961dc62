package all

import (
	"context"
	"testing"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/handler"
)

type nothing struct{}

func (nothing) Run(context.Context, command.Cmd) ([]byte, error) { return nil, nil }

func TestSet_handlersAreUnderTheirNamesAndDescribed(t *testing.T) {
	handlers := Set().Handlers(func(string) command.Runner { return nothing{} })
	for _, name := range handlers.Names() {
		h, err := handlers.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if h.Name() != name {
			t.Errorf("handler %s calls itself %s", name, h.Name())
		}
		if _, ok := h.(handler.Described); !ok {
			t.Errorf("handler %s is not Described: explain and the conflict of two owners know nothing of it", name)
		}
	}
}

func TestSet_backendsAreUnderTheirNamesAndSaySo(t *testing.T) {
	backends := Set().Backends
	for _, name := range backends.Names() {
		b, err := backends.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if b.Name != name || b.Summary == "" || len(b.Kinds)+len(b.Roles) == 0 {
			t.Errorf("backend %s is %+v", name, b)
		}
		for _, k := range b.Kinds {
			if k.Name == "" || k.Validate == nil || k.Targets == nil && k.Apply == nil {
				t.Errorf("backend %s, kind %s can do nothing", name, k.Name)
			}
		}
		for _, r := range b.Roles {
			if r.Summary == "" || r.Run == nil {
				t.Errorf("backend %s, subcommand %s has no summary, or nothing to run", name, r.Name)
			}
		}
	}
}
