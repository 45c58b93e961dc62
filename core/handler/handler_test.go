package handler

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/host"
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

func (l lamp) Ensure(context.Context, Call) (bool, error) {
	if l.fail != nil {
		return false, l.fail
	}
	changed := !*l.on
	*l.on = true
	return changed, nil
}

func (l lamp) Observe(ctx context.Context, look Look) (declared, observed drift.State, err error) {
	out, err := look.Query.Run(ctx, command.Cmd{Argv: []string{"lamp", "status"}, Query: true})
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

// target is the lamp on an empty machine of which notes are given to note.
func (l lamp) target(t *testing.T, h Handler, note func(sentence string)) drift.Planner {
	t.Helper()
	root := t.TempDir()
	tree, err := host.OpenTree(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tree.Close() })
	return NewMachine(root, tree, l).Target(Spec{ID: "desk", Handler: h, Note: note})
}

// A simple lamp cannot look.
type simple struct{ lamp }

func (s simple) Ensure(ctx context.Context, root string, _ map[string]string) (bool, error) {
	if root == "" {
		return false, errors.New("no root")
	}
	return s.lamp.Ensure(ctx, Call{})
}

func TestTarget_ensuresAndLooksAnew(t *testing.T) {
	l := newLamp()
	target := l.target(t, l, nil)
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
		steps, err := newLamp().target(t, newLamp(), nil).Plan(t.Context(), r)
		if err != nil || len(steps) != 1 || steps[0].Text != want {
			t.Errorf("got %+v, %v, want %q", steps, err, want)
		}
	}
}

// asker is a handler that reports what it was given.
type asker struct {
	lamp
	look func(Look)
	call func(Call) error
}

func (a asker) Observe(_ context.Context, l Look) (declared, observed drift.State, err error) {
	a.look(l)
	return drift.State{{Path: drift.Path{"on"}, Value: true}}, drift.State{{Path: drift.Path{"on"}, Value: false}}, nil
}

func (a asker) Ensure(_ context.Context, c Call) (bool, error) { return false, a.call(c) }

// A look can change nothing, a call can, and its notes reach the operator.
func TestTarget_looksAndCalls(t *testing.T) {
	l := newLamp()
	var notes []string
	on := command.Cmd{Argv: []string{"lamp", "on"}}
	h := asker{lamp: l}
	h.look = func(look Look) {
		if _, err := look.Query.Run(t.Context(), on); err == nil {
			t.Error("a command that is no query ran in a look")
		}
		if claims, known := look.Others(); claims != nil || known {
			t.Errorf("of others nothing is known, got %q, %v", claims, known)
		}
		if look.ID != "desk" {
			t.Errorf("ID %q", look.ID)
		}
	}
	h.call = func(c Call) error {
		if _, err := c.Run.Run(t.Context(), on); err != nil {
			t.Errorf("a command of a call: %v", err)
		}
		c.Note("it flickers")
		return &drift.Wait{Reason: "the fuse is out"}
	}
	res := drift.Ensure(t.Context(), l.target(t, h, func(sentence string) { notes = append(notes, sentence) }), drift.Options{})
	if wait := (*drift.Wait)(nil); !errors.As(res.Err, &wait) || wait.Reason != "the fuse is out" {
		t.Errorf("got %v, want the Wait", res.Err)
	}
	if diff := cmp.Diff([]string{"it flickers"}, notes); diff != "" {
		t.Error(diff)
	}
}

func TestAdapt_isUnknownUntilEnsured(t *testing.T) {
	l := newLamp()
	target := l.target(t, Adapt(simple{l}), nil)
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
	res := drift.Ensure(t.Context(), l.target(t, Adapt(simple{l}), nil), drift.Options{})
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
