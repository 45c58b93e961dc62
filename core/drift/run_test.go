package drift

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// journal makes steps that write down what was done to them.
type journal struct{ lines []string }

func (j *journal) step(field, text string, changed bool, err error) Step {
	return Step{
		Field: field, Text: text,
		Do:   func(context.Context) (bool, error) { j.lines = append(j.lines, "do "+text); return changed, err },
		Undo: func(context.Context) error { j.lines = append(j.lines, "undo "+text); return nil },
	}
}

func (j *journal) String() string { return strings.Join(j.lines, ", ") }

func outcomes(os []Outcome) string {
	var b strings.Builder
	for _, o := range os {
		fmt.Fprintf(&b, "%s:", o.Step.Text)
		for _, mark := range []struct {
			set  bool
			text string
		}{{o.Changed, "changed"}, {o.Skipped, "skipped"}, {o.Undone, "undone"}, {o.Refused != "", "refused " + o.Refused}, {o.Err != nil, fmt.Sprintf("error %v", o.Err)}} {
			if mark.set {
				b.WriteString(" " + mark.text)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestRun_failedStepEndsItsField(t *testing.T) {
	var j journal
	steps := []Step{
		j.step("a", "a1", true, nil),
		j.step("b", "b1", true, nil),
		j.step("a", "a2", false, nil),
		j.step("a", "a3", true, errors.New("no space")),
		j.step("a", "a4", true, nil),
		j.step("b", "b2", true, nil),
	}
	got := outcomes(Run(t.Context(), nil, steps, nil))
	want := "a1: changed undone\nb1: changed\na2:\na3: changed undone error no space\na4: skipped\nb2: changed\n"
	if got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
	if want := "do a1, do b1, do a2, do a3, undo a3, undo a1, do b2"; j.String() != want {
		t.Errorf("order: %s, want %s", &j, want)
	}
}

func TestRun_emptyFieldIsTheStepAlone(t *testing.T) {
	var j journal
	Run(t.Context(), nil, []Step{j.step("", "1", true, nil), j.step("", "2", true, errors.New("x")), j.step("", "3", true, nil)}, nil)
	if want := "do 1, do 2, undo 2, do 3"; j.String() != want {
		t.Errorf("order: %s, want %s", &j, want)
	}
}

func TestRun_panicUndoesNothing(t *testing.T) {
	var j journal
	bad := Step{Field: "a", Text: "bad", Do: func(context.Context) (bool, error) { panic("boom") }}
	got := outcomes(Run(t.Context(), nil, []Step{j.step("a", "a1", true, nil), bad, j.step("a", "a2", true, nil), j.step("b", "b1", true, nil)}, nil))
	want := "a1: changed\nbad: error panic: boom (a defect in Keel; please report it)\na2: skipped\nb1: changed\n"
	if got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

func TestRun_failedUndoIsSaid(t *testing.T) {
	var j journal
	first := j.step("a", "a1", true, nil)
	first.Undo = func(context.Context) error { return errors.New("busy") }
	got := outcomes(Run(t.Context(), nil, []Step{first, j.step("a", "a2", false, errors.New("x"))}, nil))
	if want := "a1: changed error undo: busy\na2: error x\n"; got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

func TestRun_refusals(t *testing.T) {
	report := Report{
		{Path: Path{"role"}, Verdict: Drift, Note: "demoting destroys data"},
		{Path: Path{"hosts", "fqdn"}, Verdict: NotRead, Reason: "root only"},
		{Path: Path{"name"}, Verdict: Drift},
	}
	do := func(context.Context) (bool, error) { return true, nil }
	tests := []struct {
		name string
		step Step
		want string
	}{
		{"drift is written", Step{Do: do, Writes: []Path{{"name"}}}, ": changed\n"},
		{"noted", Step{Do: do, Writes: []Path{{"role"}}}, ": refused role is left as it is: demoting destroys data\n"},
		{"noted, blind", Step{Do: do, Blind: true, Writes: []Path{{"role"}}}, ": refused role is left as it is: demoting destroys data\n"},
		{"unknown", Step{Do: do, Writes: []Path{{"hosts", "fqdn"}}}, ": refused hosts.fqdn is unknown: root only\n"},
		{"unknown below", Step{Do: do, Writes: []Path{{"hosts"}}}, ": refused hosts.fqdn is unknown: root only\n"},
		{"part of an unknown leaf", Step{Do: do, Writes: []Path{{"hosts", "fqdn", "x"}}}, ": refused hosts.fqdn is unknown: root only\n"},
		{"everything", Step{Do: do, Writes: []Path{{}}}, ": refused role is left as it is: demoting destroys data\n"},
		{"unknown, blind", Step{Do: do, Blind: true, Writes: []Path{{"hosts"}}}, ": changed\n"},
		{"refuses itself", Step{Refuse: "needs a reboot"}, ": refused needs a reboot\n"},
		{"a note does nothing", Step{Note: "by hand", Writes: []Path{{"role"}}}, ":\n"},
		{"neither", Step{}, `: error step "" must have exactly one of Do, Note and Refuse (a defect in Keel)` + "\n"},
		{"two", Step{Do: do, Note: "x"}, `: error step "" must have exactly one of Do, Note and Refuse (a defect in Keel)` + "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := outcomes(Run(t.Context(), report, []Step{tt.step}, nil)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestRun_refusalFailsItsField(t *testing.T) {
	var j journal
	got := outcomes(Run(t.Context(), nil, []Step{j.step("a", "a1", true, nil), {Field: "a", Text: "no", Refuse: "never"}, j.step("a", "a2", true, nil)}, nil))
	if want := "a1: changed undone\nno: refused never\na2: skipped\n"; got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

func TestRun_endOfTheVisitFinishesTheStepAndBeginsNone(t *testing.T) {
	var j journal
	ctx, cancel := context.WithCancel(t.Context())
	running := Step{Field: "a", Text: "running", Do: func(ctx context.Context) (bool, error) {
		cancel()
		return true, ctx.Err()
	}, Undo: func(context.Context) error { t.Error("undone"); return nil }}
	got := outcomes(Run(ctx, nil, []Step{running, j.step("a", "next", true, nil)}, nil))
	if want := "running: changed\nnext: skipped error context canceled\n"; got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

func TestRun_deadlineReachesTheStepAndNotItsUndo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		undone := false
		Run(ctx, nil, []Step{{
			Text: "slow",
			Do:   func(ctx context.Context) (bool, error) { <-ctx.Done(); return true, ctx.Err() },
			Undo: func(ctx context.Context) error { undone = true; return ctx.Err() },
		}}, nil)
		if !undone {
			t.Error("the step was not undone")
		}
	})
}

func TestRun_hook(t *testing.T) {
	var j journal
	var seen []string
	hook := func(_ context.Context, i int, s Step, o *Outcome) error {
		switch {
		case o != nil:
			seen = append(seen, fmt.Sprintf("after %d %s changed=%v", i, s.Text, o.Changed))
			return errors.New("not looked at")
		case s.Text == "b":
			return errors.New("stop")
		}
		seen = append(seen, fmt.Sprintf("before %d %s", i, s.Text))
		return nil
	}
	got := outcomes(Run(t.Context(), nil, []Step{j.step("", "a", true, nil), j.step("", "b", true, nil)}, hook))
	if want := "a: changed\nb: error stop\n"; got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
	if want := "before 0 a|after 0 a changed=true|after 1 b changed=false"; strings.Join(seen, "|") != want {
		t.Errorf("hook saw %q", seen)
	}
	if j.String() != "do a" {
		t.Errorf("done: %s", &j)
	}
}
