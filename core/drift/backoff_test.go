package drift

import (
	"strings"
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	b := Backoff{Min: time.Second, Max: 300 * time.Second, Reset: time.Minute}
	now := time.Unix(0, 0)
	var s BackoffState
	var armed []string
	for range 11 {
		s = b.Started(s, now)
		armed = append(armed, s.Until.Sub(now).String())
		if b.Ready(s, s.Until.Add(-1)) || !b.Ready(s, s.Until) {
			t.Errorf("not ready exactly at %s", s.Until)
		}
		now = s.Until
	}
	if got, want := strings.Join(armed, " "), "1s 2s 4s 8s 16s 32s 1m4s 2m8s 4m16s 5m0s 5m0s"; got != want {
		t.Errorf("armed %s, want %s", got, want)
	}
}

func TestBackoff_forgetsOnlyAfterUnbrokenRunning(t *testing.T) {
	b := Backoff{Min: time.Second, Max: 300 * time.Second, Reset: time.Minute}
	start := time.Unix(0, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	s := b.Started(b.Started(BackoffState{}, at(0)), at(1))
	steps := []struct {
		second  int
		running bool
		forgets bool
	}{
		{2, true, false},
		{61, true, false},
		{62, true, true},
	}
	seen := s
	for _, step := range steps {
		seen = b.Seen(seen, step.running, at(step.second))
		if (seen.Delay == 0) != step.forgets {
			t.Errorf("at %d s: %+v", step.second, seen)
		}
	}
	broken := b.Seen(b.Seen(b.Seen(s, true, at(2)), false, at(30)), true, at(62))
	if broken.Delay == 0 {
		t.Error("running that was broken was counted")
	}
	if again := b.Started(seen, at(100)); again.Until.Sub(at(100)) != time.Second {
		t.Errorf("after the reset %s was armed", again.Until.Sub(at(100)))
	}
	if back := b.Seen(b.Seen(s, true, at(100)), true, at(10)); back.Up != at(10) {
		t.Error("a clock that went back counted as running")
	}
	if far := (BackoffState{Until: at(100000)}); !b.Ready(far, at(0)) {
		t.Error("a clock that went back blocks a start for longer than Max")
	}
}
