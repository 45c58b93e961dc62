package handler

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/core/drift"
)

// lamp is a handler whose machine is a switch.
type lamp struct {
	on   *bool
	fail error
}

func (lamp) Name() string { return "lamp" }

func (lamp) Validate(map[string]string) error { return nil }

func (l lamp) Ensure(context.Context, string, map[string]string) (bool, error) {
	if l.fail != nil {
		return false, l.fail
	}
	changed := !*l.on
	*l.on = true
	return changed, nil
}

func (lamp) Params() []Param { return []Param{{Name: "color"}, {Name: "watts"}} }

func (lamp) Claims(map[string]string) []string { return []string{"lamp:desk"} }

func newLamp() lamp { return lamp{on: new(bool)} }

func TestOpaque_isUnknownUntilEnsured(t *testing.T) {
	l := newLamp()
	target := Opaque("desk", l, "/", nil)
	if res := drift.Check(t.Context(), target); res.Err == nil || res.Before[0].Verdict != drift.NotRead {
		t.Errorf("a look: %+v", res)
	}
	for i, changed := range []bool{true, false} {
		res := drift.Ensure(t.Context(), target, drift.Options{})
		if res.Err != nil || res.Changed != changed || res.After.Count(drift.Same) != 1 {
			t.Errorf("visit %d: %+v", i, res)
		}
	}
	if res := drift.Check(t.Context(), target); res.Err == nil {
		t.Error("an old Ensure answered a new look")
	}
	if res := drift.Ensure(t.Context(), target, drift.Options{DryRun: true}); res.Err == nil || res.Changed {
		t.Errorf("dry run: %+v", res)
	}
	l.fail = errors.New("no current")
	res := drift.Ensure(t.Context(), Opaque("desk", l, "/", nil), drift.Options{})
	if want := "ensure lamp:desk (applied): no current"; fmt.Sprint(res.Err) != want {
		t.Errorf("got %v, want %s", res.Err, want)
	}
}

func TestUnknown(t *testing.T) {
	got := Unknown(lamp{}, map[string]string{"watts": "", "colour": "", "Watts": ""})
	if diff := cmp.Diff([]string{"Watts", "colour"}, got); diff != "" {
		t.Error(diff)
	}
	if got := Unknown(lamp{}, nil); got != nil {
		t.Errorf("got %q", got)
	}
}

func TestSensitive(t *testing.T) {
	if Sensitive(t.Context()) || !Sensitive(WithSensitive(t.Context())) {
		t.Error("the mark is lost or found where it is not")
	}
}
