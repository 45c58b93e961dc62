package drift

import "time"

// Backoff is arithmetic: Started arms and doubles up to Max, on every start;
// Seen forgets only after Reset of unbroken observed running. The target keeps
// the state and decides.
type Backoff struct{ Min, Max, Reset time.Duration }

// BackoffState belongs to one target; the zero value is "never failed".
type BackoffState struct {
	Delay time.Duration // what the next start will arm; 0: Min
	Until time.Time     // not to be started again before
	Up    time.Time     // since when it was seen running; zero: it was not
}

// Started is the state after a start at now, whether the start succeeded or
// not: a successful spawn proves nothing.
func (b Backoff) Started(s BackoffState, now time.Time) BackoffState {
	delay := min(max(s.Delay, b.Min), b.Max)
	return BackoffState{Delay: min(2*delay, b.Max), Until: now.Add(delay)}
}

// Seen is the state after a look at now. A clock that went back begins the
// count of unbroken running anew.
func (b Backoff) Seen(s BackoffState, running bool, now time.Time) BackoffState {
	switch {
	case !running:
		s.Up = time.Time{}
	case s.Up.IsZero() || now.Before(s.Up):
		s.Up = now
	case now.Sub(s.Up) >= b.Reset:
		return BackoffState{Up: s.Up}
	}
	return s
}

// Ready reports whether a start at now is allowed. A clock that went back does
// not make anybody wait for longer than Max.
func (b Backoff) Ready(s BackoffState, now time.Time) bool {
	return !now.Before(s.Until) || s.Until.Sub(now) > b.Max
}
