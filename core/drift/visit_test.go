package drift

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A late target has one leaf, and needs a late step after each change.
type late struct {
	id      string
	changed bool
	pending bool
	fails   error
	log     *[]string
}

func (l *late) ID() string { return l.id }

func (l *late) Observe(context.Context) (declared, observed State, err error) {
	return State{{Path: Path{"a"}, Value: true}, {Path: Path{"late"}, Value: false}},
		State{{Path: Path{"a"}, Value: l.changed}, {Path: Path{"late"}, Value: l.pending}}, nil
}

func (l *late) Plan(context.Context, Report) ([]Step, error) {
	return []Step{
		{Field: "f", Text: "change", Writes: []Path{{"a"}}, Do: func(context.Context) (bool, error) {
			*l.log = append(*l.log, "change "+l.id)
			l.pending, l.changed = true, l.fails == nil
			return true, l.fails
		}},
		{Field: "f", Text: "late", Late: true, Writes: []Path{{"late"}}, Do: func(context.Context) (bool, error) {
			*l.log = append(*l.log, "late "+l.id)
			l.pending = false
			return true, nil
		}},
	}, nil
}

func TestLoop_lateSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		l := loop(time.Minute, &late{id: "a", log: &log}, &late{id: "b", log: &log, fails: errors.New("disk full")}, &late{id: "c", log: &log})
		locked := 0
		l.Options.Lock = func(context.Context) (func(), error) {
			log = append(log, "lock")
			locked++
			return func() { locked-- }, nil
		}
		l.Done = func(r Result) {
			log = append(log, "done "+r.Target)
			if (r.Err != nil) != (r.Target == "b") || !r.Changed || len(r.Steps) != 2 {
				t.Errorf("%s: %d steps, changed %t, error %v", r.Target, len(r.Steps), r.Changed, r.Err)
			}
		}
		l.Pass(t.Context())
		const want = "lock;change a;lock;change b;lock;change c;lock;late a;done a;lock;done b;lock;late c;done c"
		if got := strings.Join(log, ";"); got != want || locked != 0 {
			t.Errorf("got %s\nwant %s", got, want)
		}
	})
}

// Once ctx has ended no late step is begun.
func TestVisit_endedBeforeTheLateSteps(t *testing.T) {
	var log []string
	ctx, cancel := context.WithCancel(t.Context())
	v := Begin(ctx, &late{id: "a", log: &log}, Options{Lock: func(ctx context.Context) (func(), error) { return func() {}, ctx.Err() }})
	cancel()
	r := v.Finish(ctx)
	if !r.Changed || !errors.Is(r.Err, context.Canceled) || !strings.Contains(r.Err.Error(), "late: not begun") || len(log) != 1 {
		t.Errorf("%v: changed %t, error %v", log, r.Changed, r.Err)
	}
}
