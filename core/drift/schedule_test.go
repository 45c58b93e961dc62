package drift

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// The table of a Schedule: what is done to it, and when what is due then and why.
func TestSchedule(t *testing.T) {
	const minute = time.Minute
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	failed, invalid := errors.New("failed"), errors.New("invalid")
	final := func(err error) bool { return errors.Is(err, invalid) }
	put := func(ids ...string) func(*Schedule, time.Time) {
		return func(s *Schedule, now time.Time) {
			for _, id := range ids {
				s.Put(Item{ID: id, Interval: 10 * minute}, now, 0)
			}
		}
	}
	ran := func(errs ...error) func(*Schedule, time.Time) {
		return func(s *Schedule, now time.Time) {
			for _, err := range errs {
				for _, e := range s.take(now) {
					_ = s.ran(e, err, final, now)
				}
				now, _ = s.Next()
			}
		}
	}
	tests := []struct {
		name string
		do   []func(*Schedule, time.Time)
		want string
	}{
		{"new ones, in order of their names", []func(*Schedule, time.Time){put("b", "a")}, "0s new a, 0s new b"},
		{"after a run, the interval", []func(*Schedule, time.Time){put("a"), ran(nil)}, "10m0s interval a"},
		{"after failures, a growing back-off", []func(*Schedule, time.Time){put("a"), ran(failed, failed, failed)}, "7s retry a"},
		{"an error that no retry cures", []func(*Schedule, time.Time){put("a"), ran(invalid)}, "10m0s interval a"},
		{"a success forgets the failures", []func(*Schedule, time.Time){put("a"), ran(failed, nil, failed)}, "10m2s retry a"},
		{"a Wait", []func(*Schedule, time.Time){put("a"), ran(&Wait{Until: start.Add(minute)})}, "1m0s wait over a"},
		{"a change", []func(*Schedule, time.Time){put("a"), ran(nil), put("a")}, "0s changed a"},
		{"a change forgets the failures", []func(*Schedule, time.Time){put("a"), ran(failed, failed, failed), put("a"), ran(failed)}, "1s retry a"},
		{"a change that is spread", []func(*Schedule, time.Time){put("a"), ran(nil), func(s *Schedule, now time.Time) {
			s.Put(Item{ID: "a"}, now, minute)
		}}, "1m0s changed a"},
		{"changes that follow one another postpone nothing", []func(*Schedule, time.Time){func(s *Schedule, now time.Time) {
			s.Put(Item{ID: "a"}, now, minute)
			s.Put(Item{ID: "a"}, now.Add(30*time.Second), minute)
		}}, "1m0s changed a"},
		{"asked for", []func(*Schedule, time.Time){put("a", "b"), ran(nil), func(s *Schedule, now time.Time) {
			if !s.Ask("b", now) || s.Ask("stranger", now) {
				t.Error("Ask is wrong about what is there")
			}
		}}, "0s asked b, 10m0s interval a"},
		{"removed", []func(*Schedule, time.Time){put("a", "b"), func(s *Schedule, _ time.Time) { s.Remove("a"); s.Remove("a") }}, "0s new b"},
		{"put while it ran", []func(*Schedule, time.Time){put("a"), func(s *Schedule, now time.Time) {
			e := s.take(now)[0]
			put("a")(s, now.Add(time.Second))
			_ = s.ran(e, failed, final, now.Add(2*time.Second))
		}}, "1s changed a"},
		{"removed while it ran", []func(*Schedule, time.Time){put("a"), func(s *Schedule, now time.Time) {
			e := s.take(now)[0]
			s.Remove("a")
			_ = s.ran(e, failed, final, now)
		}}, ""},
		{"removed and put while it ran: another", []func(*Schedule, time.Time){put("a"), func(s *Schedule, now time.Time) {
			e := s.take(now)[0]
			s.Remove("a")
			put("a")(s, now)
			_ = s.ran(e, failed, final, now)
		}}, "0s new a"},
		{"taken and not run", []func(*Schedule, time.Time){put("a"), func(s *Schedule, now time.Time) { s.give(s.take(now)[0]) }}, "0s new a"},
		{"all of them", []func(*Schedule, time.Time){put("a", "b"), ran(failed), func(s *Schedule, now time.Time) { s.All(now) }}, "0s new a, 0s new b"},
		{"a clock that goes back", []func(*Schedule, time.Time){put("a"), ran(nil), func(s *Schedule, now time.Time) {
			s.tick(now.Add(-time.Hour))
		}}, "-50m0s interval a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := Schedule{Backoff: Backoff{Min: time.Second, Max: 5 * minute}}
			for _, do := range tt.do {
				do(&s, start)
			}
			var got []string
			for line := range strings.Lines(s.String()) {
				at, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
				due, err := time.Parse(time.RFC3339, at)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, due.Sub(start).String()+" "+strings.Join(strings.Fields(rest), " "))
			}
			if got := strings.Join(got, ", "); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestSchedule_ranks(t *testing.T) {
	var s Schedule
	now := time.Unix(0, 0)
	for id, rank := range map[string]int{"b": 0, "a": 1, "c": 0} {
		s.Put(Item{ID: id, Rank: rank}, now, 0)
	}
	var got []string
	for _, e := range s.take(now) {
		got = append(got, e.item.ID)
	}
	if want := []string{"b", "c", "a"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Whatever is done to a Schedule, and however its clock jumps: what is due is taken,
// what is not due is not, nothing is taken twice before it ran, and nothing waits
// for longer than its interval, or its back-off, allows.
func TestSchedule_holdsWhateverHappens(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := Schedule{Backoff: Backoff{Min: time.Second, Max: time.Minute}}
		now := time.Unix(1<<30, 0)
		const longest = 10 * time.Minute
		age := map[string]time.Duration{} // since it last ran or was put, by a clock that does not jump
		for range 400 {
			id := fmt.Sprint(r.IntN(8))
			switch r.IntN(7) {
			case 0:
				s.Put(Item{ID: id, Interval: time.Duration(1+r.IntN(10)) * time.Minute}, now, time.Duration(r.IntN(60))*time.Second)
				age[id] = 0
			case 1:
				s.Remove(id)
				delete(age, id)
			case 2:
				if s.Ask(id, now) {
					if at, ok := s.Next(); !ok || at.After(now) {
						t.Fatalf("seed %d: %s was asked for and is not due", seed, id)
					}
				}
			case 3:
				now = now.Add(-time.Duration(r.IntN(3600)) * time.Second) // a jump: no time went by
			default:
				d := time.Duration(r.IntN(90)) * time.Second
				now = now.Add(d)
				for id := range age {
					age[id] += d
				}
			}
			taken := map[string]bool{}
			for _, e := range s.take(now) {
				id := e.item.ID
				if taken[id] || e.due.After(now) {
					t.Fatalf("seed %d: %s was taken twice, or early", seed, id)
				}
				taken[id] = true
				err := []error{nil, errors.New("failed"), &Wait{Until: now.Add(30 * time.Second)}}[r.IntN(3)]
				_ = s.ran(e, err, nil, now)
				age[id] = 0
			}
			for id, since := range age {
				if since > longest {
					t.Fatalf("seed %d: %s was starved for %s:\n%s", seed, id, since, s.String())
				}
			}
			if s.Len() != len(age) {
				t.Fatalf("seed %d: %d targets, want %d", seed, s.Len(), len(age))
			}
		}
	}
}

// One change in a schedule of many costs no look at the others.
func BenchmarkSchedule_oneChange(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var s Schedule
			now := time.Unix(0, 0)
			for i := range n {
				s.Put(Item{ID: fmt.Sprint(i), Interval: time.Hour}, now, time.Hour)
			}
			for b.Loop() {
				s.Put(Item{ID: "7", Interval: time.Hour}, now, 0)
				for _, e := range s.take(now) {
					_ = s.ran(e, nil, nil, now)
				}
			}
		})
	}
}
