package drift

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// shelf is a target whose machine is a map and whose plan is to copy.
type shelf struct {
	want, have map[string]any
	observe    func() error
	plan       func(r Report) ([]Step, error) // nil: set each leaf
	log        []string
}

func (s *shelf) ID() string { return "shelf" }

func (s *shelf) Observe(context.Context) (declared, observed State, err error) {
	s.log = append(s.log, "observe")
	if s.observe != nil {
		if err := s.observe(); err != nil {
			return nil, nil, err
		}
	}
	for _, k := range []string{"a", "b", "c"} {
		if v, ok := s.want[k]; ok {
			declared = append(declared, Leaf{Path: Path{k}, Value: v})
		}
		if v, ok := s.have[k]; ok {
			observed = append(observed, Leaf{Path: Path{k}, Value: v})
		}
	}
	return declared, observed, nil
}

func (s *shelf) Plan(_ context.Context, r Report) ([]Step, error) {
	s.log = append(s.log, "plan")
	if s.plan != nil {
		return s.plan(r)
	}
	var steps []Step
	for _, f := range r {
		if f.Verdict == Drift {
			steps = append(steps, s.set(f.Path[0], s.want[f.Path[0]]))
		}
	}
	return steps, nil
}

func (s *shelf) set(k string, v any) Step {
	return Step{Text: "set " + k, Writes: []Path{{k}}, Do: func(context.Context) (bool, error) {
		s.log = append(s.log, "set "+k)
		s.have[k] = v
		return true, nil
	}}
}

func TestEnsure(t *testing.T) {
	tests := []struct {
		name       string
		want, have map[string]any
		plan       func(s *shelf) func(Report) ([]Step, error)
		options    Options
		changed    bool
		log        string
		wantErr    string
	}{
		{
			name: "settled is left alone",
			want: map[string]any{"a": "x"}, have: map[string]any{"a": "x", "b": "y"},
			log: "observe",
		},
		{
			name: "drift is mended and looked at again",
			want: map[string]any{"a": "x", "b": "y"}, have: map[string]any{"a": nil, "b": "y"},
			changed: true, log: "observe plan set a observe",
		},
		{
			name: "dry run does nothing",
			want: map[string]any{"a": "x"}, have: map[string]any{"a": nil}, options: Options{DryRun: true},
			log: "observe plan",
		},
		{
			name: "unread is no success",
			want: map[string]any{"a": "x", "b": "y"}, have: map[string]any{"a": nil, "b": Unknown{Permission, "root only"}},
			changed: true, log: "observe plan set a observe plan", wantErr: "b is unknown: root only",
		},
		{
			name: "a dry run of what is unread is no success",
			want: map[string]any{"a": "x"}, have: map[string]any{}, options: Options{DryRun: true},
			log: "observe plan", wantErr: "a is unknown: not observed",
		},
		{
			name: "an unknown leaf forbids its step, said once",
			want: map[string]any{"a": "x"}, have: map[string]any{},
			plan: func(s *shelf) func(Report) ([]Step, error) {
				return func(Report) ([]Step, error) { return []Step{s.set("a", "x")}, nil }
			},
			log: "observe plan", wantErr: "set a: refused: a is unknown: not observed",
		},
		{
			name: "a dry run says what would be refused",
			want: map[string]any{"a": "x"}, have: map[string]any{}, options: Options{DryRun: true},
			plan: func(s *shelf) func(Report) ([]Step, error) {
				return func(Report) ([]Step, error) { return []Step{s.set("a", "x")}, nil }
			},
			log: "observe plan", wantErr: "set a: refused: a is unknown: not observed",
		},
		{
			name: "drift that stays as it was is an error",
			want: map[string]any{"a": "x"}, have: map[string]any{"a": nil},
			plan: func(s *shelf) func(Report) ([]Step, error) {
				return func(Report) ([]Step, error) { return []Step{s.set("a", "z")}, nil }
			},
			changed: true, log: "observe plan set a observe plan set a observe",
			wantErr: `a is not as declared after "set a": declared x, observed z`,
		},
		{
			name: "drift that only shows after the first round",
			want: map[string]any{"a": "x", "b": "y"}, have: map[string]any{"a": nil, "b": "y"},
			plan: func(s *shelf) func(Report) ([]Step, error) {
				return func(r Report) ([]Step, error) {
					if r[0].Verdict == Drift {
						s.have["b"] = nil
						return []Step{s.set("a", "x")}, nil
					}
					return []Step{s.set("b", "y")}, nil
				}
			},
			changed: true, log: "observe plan set a observe plan set b observe",
		},
		{
			name: "drift that no step is for",
			want: map[string]any{"a": "x"}, have: map[string]any{"a": nil},
			plan: func(*shelf) func(Report) ([]Step, error) {
				return func(Report) ([]Step, error) { return nil, nil }
			},
			log: "observe plan", wantErr: "a is not as declared and nothing here can correct it: declared x, observed nothing",
		},
		{
			name: "drift under a note is reported and no error",
			want: map[string]any{"a": "x", "b": "y"}, have: map[string]any{"a": nil, "b": nil},
			plan: func(s *shelf) func(Report) ([]Step, error) {
				return func(r Report) ([]Step, error) {
					return []Step{{Text: "by hand", Note: "b is an operator's", Writes: []Path{{"b"}}}, s.set("a", "x")}, nil
				}
			},
			changed: true, log: "observe plan set a observe plan set a observe",
		},
		{
			name: "a failed step is not tried again",
			want: map[string]any{"a": "x", "b": "y"}, have: map[string]any{"a": nil, "b": nil},
			plan: func(s *shelf) func(Report) ([]Step, error) {
				return func(Report) ([]Step, error) {
					return []Step{{Text: "set a", Writes: []Path{{"a"}}, Do: func(context.Context) (bool, error) { return false, errors.New("disk full") }}, s.set("b", "y")}, nil
				}
			},
			changed: true, log: "observe plan set b observe", wantErr: "set a: disk full",
		},
		{
			name: "what was taken back is said by the step that failed",
			want: map[string]any{"a": "x", "b": "y"}, have: map[string]any{"a": nil, "b": nil},
			plan: func(s *shelf) func(Report) ([]Step, error) {
				return func(Report) ([]Step, error) {
					first := s.set("a", "x")
					first.Field, first.Undo = "f", func(context.Context) error { s.have["a"] = nil; return nil }
					return []Step{first, {Field: "f", Text: "set b", Writes: []Path{{"b"}}, Do: func(context.Context) (bool, error) { return false, errors.New("disk full") }}}, nil
				}
			},
			log: "observe plan set a observe", wantErr: "set b: disk full",
		},
		{
			name: "a wait ends the visit",
			want: map[string]any{"a": "x"}, have: map[string]any{"a": nil},
			plan: func(*shelf) func(Report) ([]Step, error) {
				return func(Report) ([]Step, error) { return nil, &Wait{Until: time.Unix(9, 0), Reason: "cooling"} }
			},
			log: "observe plan", wantErr: "waits until 1970-01-01T00:00:09Z: cooling",
		},
		{
			name: "a panic in plan",
			want: map[string]any{"a": "x"}, have: map[string]any{"a": nil},
			plan: func(*shelf) func(Report) ([]Step, error) {
				return func(Report) ([]Step, error) { panic("boom") }
			},
			log: "observe plan", wantErr: "panic: boom (a defect in Keel; please report it)",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &shelf{want: tt.want, have: tt.have}
			if tt.plan != nil {
				s.plan = tt.plan(s)
			}
			res := Ensure(t.Context(), s, tt.options)
			if got := fmt.Sprint(res.Err); (tt.wantErr != "" || res.Err != nil) && got != tt.wantErr {
				t.Errorf("error %q, want %q", got, tt.wantErr)
			}
			if res.Changed != tt.changed {
				t.Errorf("changed %v, want %v", res.Changed, tt.changed)
			}
			if got := strings.Join(s.log, " "); got != tt.log {
				t.Errorf("did %q, want %q", got, tt.log)
			}
			if acted := strings.Contains(tt.log, "set"); (res.After != nil) != acted {
				t.Errorf("after is %v, acted %v", res.After, acted)
			}
		})
	}
}

func TestEnsure_lock(t *testing.T) {
	lock := func(s *shelf, meanwhile map[string]any) func(context.Context) (func(), error) {
		return func(context.Context) (func(), error) {
			s.log = append(s.log, "lock")
			for k, v := range meanwhile {
				s.have[k] = v
			}
			return func() { s.log = append(s.log, "unlock") }, nil
		}
	}
	tests := []struct {
		name      string
		have      any
		meanwhile map[string]any
		dry       bool
		log       string
	}{
		{"settled takes no lock", "x", nil, false, "observe"},
		{"drift takes it and looks anew", nil, nil, false, "observe lock observe plan set a observe unlock"},
		{"somebody else mended it", nil, map[string]any{"a": "x"}, false, "observe lock observe unlock"},
		{"a dry run takes none", nil, nil, true, "observe plan"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &shelf{want: map[string]any{"a": "x"}, have: map[string]any{"a": tt.have}}
			res := Ensure(t.Context(), s, Options{Lock: lock(s, tt.meanwhile), DryRun: tt.dry})
			if got := strings.Join(s.log, " "); got != tt.log || res.Err != nil {
				t.Errorf("did %q (%v), want %q", got, res.Err, tt.log)
			}
		})
	}
	s := &shelf{want: map[string]any{"a": "x"}, have: map[string]any{"a": nil}}
	res := Ensure(t.Context(), s, Options{Lock: func(context.Context) (func(), error) { return nil, errors.New("pid 7 holds it") }})
	if fmt.Sprint(res.Err) != "pid 7 holds it" || res.Changed {
		t.Errorf("without the lock: %+v", res)
	}
}

func TestEnsure_lookAgainFails(t *testing.T) {
	s := &shelf{want: map[string]any{"a": "x"}, have: map[string]any{"a": nil}}
	s.observe = func() error {
		if len(s.log) > 1 {
			return errors.New("gone")
		}
		return nil
	}
	res := Ensure(t.Context(), s, Options{})
	if want := "look again: gone"; fmt.Sprint(res.Err) != want || !res.Changed {
		t.Errorf("got %v, changed %v, want %s", res.Err, res.Changed, want)
	}
}

// normalising is a shelf that compares in lower case.
type normalising struct{ shelf }

func (n *normalising) Compare(declared, observed State) Report {
	for _, s := range []State{declared, observed} {
		for i := range s {
			if text, ok := s[i].Value.(string); ok {
				s[i].Value = strings.ToLower(text)
			}
		}
	}
	return Compare(declared, observed)
}

func TestCheck(t *testing.T) {
	res := Check(t.Context(), &normalising{shelf{want: map[string]any{"a": "X", "b": "y"}, have: map[string]any{"a": "x", "b": nil}}})
	if got := list(res.Before); got != "a: same x/x\nb: drift y/nothing\n" || res.Err != nil {
		t.Errorf("got %q, %v", got, res.Err)
	}
	res = Check(t.Context(), &shelf{want: map[string]any{"a": "x"}, have: map[string]any{}})
	if fmt.Sprint(res.Err) != "a is unknown: not observed" || res.Before == nil {
		t.Errorf("unread: %+v", res)
	}
	res = Check(t.Context(), &shelf{observe: func() error { return errors.New("no machine") }})
	if fmt.Sprint(res.Err) != "no machine" || res.Before != nil {
		t.Errorf("nothing asked: %+v", res)
	}
	res = Check(t.Context(), &shelf{observe: func() error { panic("boom") }})
	if p := (*Panic)(nil); !errors.As(res.Err, &p) || len(p.Stack) == 0 {
		t.Errorf("panic: %+v", res)
	}
	if res = Check(t.Context(), &shelf{}); res.Before == nil {
		t.Error("an empty report reads as nothing asked")
	}
}

type slow struct {
	id           string
	running, top *atomic.Int32
	gate         *sync.WaitGroup
}

func (s slow) ID() string { return s.id }

func (s slow) Observe(context.Context) (declared, observed State, err error) {
	n := s.running.Add(1)
	defer s.running.Add(-1)
	for {
		top := s.top.Load()
		if n <= top || s.top.CompareAndSwap(top, n) {
			break
		}
	}
	if s.gate != nil {
		s.gate.Done()
		s.gate.Wait()
	}
	return State{{Path: Path{s.id}, Value: s.id}}, State{{Path: Path{s.id}, Value: s.id}}, nil
}

func TestCheckAll_keepsOrderAndBound(t *testing.T) {
	for _, parallel := range []int{-1, 1, 3} {
		var running, top atomic.Int32
		var gate *sync.WaitGroup
		if parallel == 3 {
			gate = new(sync.WaitGroup)
			gate.Add(3) // passes only if three really run side by side
		}
		var ts []Target
		for i := range 3 {
			ts = append(ts, slow{fmt.Sprint(i), &running, &top, gate})
		}
		for i, res := range CheckAll(t.Context(), ts, parallel) {
			if res.Target != fmt.Sprint(i) || res.Before.Count(Same) != 1 {
				t.Errorf("result %d: %+v", i, res)
			}
		}
		if got := int(top.Load()); got > max(parallel, 1) {
			t.Errorf("%d ran at once, want at most %d", got, parallel)
		}
	}
}

func TestEnsure_calledOff(t *testing.T) {
	tests := []struct {
		name       string
		want, have map[string]any
		wantErr    string
	}{
		{"all was done", map[string]any{"a": "x"}, map[string]any{"a": nil}, "<nil>"},
		{"a step was not begun", map[string]any{"a": "x", "b": "y"}, map[string]any{"a": nil, "b": nil}, "set b: not begun: context canceled"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			s := &watchful{shelf{want: tt.want, have: tt.have}}
			hook := func(context.Context, int, Step, *Outcome) error { cancel(); return nil }
			r := Ensure(ctx, s, Options{Hook: hook})
			if text := fmt.Sprint(r.Err); text != tt.wantErr || !r.Changed {
				t.Errorf("error %q, want %q; changed %t", text, tt.wantErr, r.Changed)
			}
			if f, _ := r.After.At(Path{"a"}); f.Verdict != Same {
				t.Errorf("afterwards %+v", r.After)
			}
		})
	}
}

// watchful is a shelf that does not look for a visit that was called off.
type watchful struct{ shelf }

func (w *watchful) Observe(ctx context.Context) (declared, observed State, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	return w.shelf.Observe(ctx)
}
