package handler

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/drift"
)

// lamp is a handler whose machine is a switch. Its query goes through the
// machine, so that a remembered answer would be seen.
type lamp struct {
	on      *bool
	fail    error
	queries *int
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

func (l lamp) Observe(ctx context.Context, m Machine, _ map[string]string) (declared, observed drift.State, err error) {
	out, err := m.Run.Run(ctx, command.Cmd{Argv: []string{"lamp", "status"}, Query: true})
	if err != nil {
		return nil, nil, err
	}
	path := drift.Path{"on"}
	return drift.State{{Path: path, Value: "true"}}, drift.State{{Path: path, Value: string(out)}}, nil
}

func (lamp) Params() []Param { return []Param{{Name: "color"}, {Name: "watts"}} }

func (lamp) Claims(map[string]string) []string { return []string{"lamp:desk", "file:/dev/lamp"} }

// Run answers the lamp's query.
func (l lamp) Run(context.Context, command.Cmd) ([]byte, error) {
	*l.queries++
	return fmt.Append(nil, *l.on), nil
}

func newLamp() lamp { return lamp{on: new(bool), queries: new(int)} }

func TestTarget_ensuresAndLooksAnew(t *testing.T) {
	l := newLamp()
	target := Target("desk", l, NewMachine(nil, l), "/", nil)
	res := drift.Ensure(t.Context(), target, drift.Options{})
	if res.Err != nil || !res.Changed || res.After.Count(drift.Same) != 1 {
		t.Errorf("first visit: %+v", res)
	}
	if *l.queries != 2 {
		t.Errorf("%d queries, want one before and one after", *l.queries)
	}
	if got, want := res.Steps[0].Step.Text, "ensure lamp:desk (on)"; got != want {
		t.Errorf("step %q, want %q", got, want)
	}
	res = drift.Ensure(t.Context(), target, drift.Options{})
	if res.Err != nil || res.Changed || res.Steps != nil || *l.queries != 2 {
		t.Errorf("second visit: %+v, %d queries", res, *l.queries)
	}
}

func TestTarget_saysThatItRemoves(t *testing.T) {
	none := drift.Finding{Path: drift.Path{"content"}, Verdict: drift.Drift, Observed: "x"}
	some := drift.Finding{Path: drift.Path{"mode"}, Verdict: drift.Same, Declared: "0644", Observed: "0644"}
	stranger := drift.Finding{Path: drift.Path{"z"}, Verdict: drift.NotDeclared, Observed: "z"}
	for want, r := range map[string]drift.Report{
		"remove lamp:desk (content)": {none, stranger},
		"ensure lamp:desk (content)": {none, some},
	} {
		steps, err := Target("desk", newLamp(), NewMachine(nil, newLamp()), "/", nil).Plan(t.Context(), r)
		if err != nil || len(steps) != 1 || steps[0].Text != want {
			t.Errorf("got %+v, %v, want %q", steps, err, want)
		}
	}
}

func TestTarget_machineCannotBeChanged(t *testing.T) {
	l := newLamp()
	if _, err := NewMachine(nil, l).Run.Run(t.Context(), command.Cmd{Argv: []string{"lamp", "on"}}); err == nil || *l.queries != 0 {
		t.Errorf("a command that is no query ran: %v", err)
	}
}

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
