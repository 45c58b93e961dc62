package cluster

import (
	"math/rand/v2"
	"time"
)

const (
	// minPause and maxPause limit the pauses after failures, which double.
	minPause = time.Second
	maxPause = time.Minute
	// maxAfter is the longest pause that a server may ask for.
	maxAfter = 10 * time.Minute
)

// A pause is the time until something that failed is tried again. The zero value
// is none.
type pause struct {
	delay time.Duration // the last one, without jitter
	until time.Time
}

// begin begins the pause after a failure at now. It takes least, if the server
// asks for that.
func (p *pause) begin(now time.Time, least time.Duration, jitter func(time.Duration) time.Duration) {
	p.delay = min(max(2*p.delay, minPause), maxPause)
	p.until = now.Add(min(max(jitter(p.delay), least), maxAfter))
}

// left is what is left of it. A clock that went back makes nobody wait for longer
// than the longest pause.
func (p pause) left(now time.Time) time.Duration {
	if left := p.until.Sub(now); left <= maxAfter {
		return max(left, 0)
	}
	return 0
}

// jitter gives a time from d/2 to d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }
