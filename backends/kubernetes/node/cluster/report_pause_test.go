package cluster

import (
	"testing"
	"time"
)

func TestPause(t *testing.T) {
	start := time.Date(2026, 10, 15, 12, 0, 0, 0, time.UTC)
	half := func(d time.Duration) time.Duration { return d / 2 }
	tests := []struct {
		name     string
		failures int
		least    time.Duration // that the server asks for
		passed   time.Duration
		want     time.Duration
	}{
		{"none", 0, 0, 0, 0},
		{"the first", 1, 0, 0, 500 * time.Millisecond},
		{"the third", 3, 0, time.Second, time.Second},
		{"the last", 20, 0, 0, 30 * time.Second},
		{"over", 1, 0, time.Hour, 0},
		{"as the server asks", 1, 90 * time.Second, 0, 90 * time.Second},
		{"less than there is anyway", 20, time.Second, 0, 30 * time.Second},
		{"for a year", 1, 365 * 24 * time.Hour, 0, 10 * time.Minute},
		{"a clock that went back", 1, 0, -time.Hour, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var p pause
			for range tt.failures {
				p.begin(start, tt.least, half)
			}
			if got := p.left(start.Add(tt.passed)); got != tt.want {
				t.Errorf("left %v, want %v", got, tt.want)
			}
		})
	}
	for range 1000 {
		if d := jitter(time.Second); d < time.Second/2 || d > time.Second {
			t.Fatalf("jitter of a second: %v", d)
		}
	}
}
