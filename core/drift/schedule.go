package drift

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Why says what made a target due.
type Why string

// The reasons. The text is part of logs and of the table that String gives.
const (
	New      Why = "new"       // Put, and not in the schedule before
	Changed  Why = "changed"   // Put again
	Interval Why = "interval"  // its interval has passed since its last run
	Retry    Why = "retry"     // its last run failed, and its back-off is over
	Waited   Why = "wait over" // its last run ended with a Wait, whose time has come
	Asked    Why = "asked"     // Ask, Wake or Do named it
)

// An Item is a target in a Schedule.
type Item struct {
	ID string
	// Rank orders targets that are due together: the lowest first, and those of one
	// rank by ID.
	Rank int
	// Interval is from the end of a run that succeeded to the next; targets of one
	// interval that ran in one pass stay together, from the end of the first of them.
	Interval time.Duration
	// Target is called when a run begins, and what it gives is dropped when the run
	// ends: of thousands of targets only those exist that are at work.
	Target func() Target
}

// A Schedule says when each target is due, and why: at once when it is new or
// changed, or after a delay; after its interval; after a failure with a growing
// back-off; when the time of a Wait has come; when somebody asks for it.
//
// Times that carry a monotonic reading, as those of time.Now, do not leap. Where
// others go back, each target has as long to wait as before; where they leap ahead,
// each is due once. Put, Remove and Ask cost O(log n). The zero value is empty. It
// belongs to one goroutine.
type Schedule struct {
	Backoff Backoff // after failures, without its Reset; zero: the interval of the target

	entries map[string]*entry
	queue   queue
	last    time.Time // the latest time that was given
}

// An entry is what a Schedule remembers of one target.
type entry struct {
	item   Item
	why    Why
	due    time.Time
	place  int       // in the queue; -1: it is not in it, because it runs
	waited time.Time // since when it waits, over the runs that ended with a Wait
	retry  BackoffState
}

// Put adds a target that is due after delay, or replaces it because it says
// something else. A target that was due earlier stays so: edits that follow one
// another postpone nothing. What it waited for, and how often it failed, counts no
// more. While it runs, it becomes due again.
func (s *Schedule) Put(i Item, now time.Time, delay time.Duration) {
	s.tick(now)
	e, why, due := s.entries[i.ID], Changed, now.Add(delay)
	switch {
	case s.entries == nil:
		s.entries = map[string]*entry{}
		fallthrough
	case e == nil:
		e, why = &entry{place: -1}, New
		s.entries[i.ID] = e
	case e.place >= 0 && e.due.Before(due):
		due = e.due
	}
	e.item, e.waited, e.retry = i, time.Time{}, BackoffState{}
	s.set(e, why, due)
}

// Remove forgets a target. One that runs is not due again.
func (s *Schedule) Remove(id string) {
	if e := s.entries[id]; e != nil {
		if e.place >= 0 {
			heap.Remove(&s.queue, e.place)
		}
		delete(s.entries, id)
	}
}

// Ask makes a target due at once, and reports whether it is in the schedule.
func (s *Schedule) Ask(id string, now time.Time) bool {
	s.tick(now)
	e := s.entries[id]
	if e != nil {
		e.waited = time.Time{}
		s.set(e, Asked, now)
	}
	return e != nil
}

// All makes every target due at once, as new: of a machine that is another one
// nothing is known.
func (s *Schedule) All(now time.Time) {
	s.tick(now)
	for _, e := range s.entries {
		e.waited, e.retry = time.Time{}, BackoffState{}
		s.set(e, New, now)
	}
}

// Len is the number of targets.
func (s *Schedule) Len() int { return len(s.entries) }

// Next is when the next target is due; ok is false when none is.
func (s *Schedule) Next() (at time.Time, ok bool) {
	if len(s.queue) == 0 {
		return time.Time{}, false
	}
	return s.queue[0].due, true
}

// String is the table, for people and tests: a line for each target in the order in
// which they are due, with the time, the reason, and what it waits for.
func (s *Schedule) String() string {
	var b strings.Builder
	for _, e := range slices.SortedFunc(slices.Values(s.queue), func(x, y *entry) int {
		return cmp.Or(x.due.Compare(y.due), x.before(y))
	}) {
		fmt.Fprintf(&b, "%s  %-9s  %s\n", e.due.UTC().Format(time.RFC3339), e.why, e.item.ID)
	}
	return b.String()
}

// set puts an entry into the queue, or moves it.
func (s *Schedule) set(e *entry, why Why, due time.Time) {
	e.why, e.due = why, due
	if e.place < 0 {
		heap.Push(&s.queue, e)
	} else {
		heap.Fix(&s.queue, e.place)
	}
}

// tick takes down the time. When it went back, what is set goes back with it.
func (s *Schedule) tick(now time.Time) {
	if back := s.last.Sub(now); back > 0 {
		for _, e := range s.entries { // their order stays
			e.due, e.retry.Until = e.due.Add(-back), e.retry.Until.Add(-back)
			if !e.waited.IsZero() {
				e.waited = e.waited.Add(-back)
			}
		}
	}
	s.last = now
}

// take takes out what is due at now, in order of rank and ID. Each is to be given
// back by ran.
func (s *Schedule) take(now time.Time) (due []*entry) {
	s.tick(now)
	for len(s.queue) > 0 && !s.queue[0].due.After(now) {
		due = append(due, heap.Pop(&s.queue).(*entry))
	}
	slices.SortFunc(due, (*entry).before)
	return due
}

// pick takes out one target whatever it waits for; nil when there is none of that
// ID. It is to be given back by ran.
func (s *Schedule) pick(id string) *entry {
	e := s.entries[id]
	if e == nil {
		return nil
	}
	if e.place >= 0 {
		heap.Remove(&s.queue, e.place)
	}
	e.why, e.waited = Asked, time.Time{}
	return e
}

// holds reports whether an entry that was taken is still to run: nobody removed it,
// or put it, or ran it by name.
func (s *Schedule) holds(e *entry) bool { return s.entries[e.item.ID] == e && e.place < 0 }

// give puts back an entry that was taken and did not run.
func (s *Schedule) give(e *entry) {
	if s.holds(e) {
		heap.Push(&s.queue, e)
	}
}

// ran puts an entry back whose run ended at now with err, unless it was removed
// meanwhile, and returns the error to report: a Wait that has lasted GiveUp is a
// plain one. final reports errors that no retry can cure. A target that was put or
// asked for while it ran is due as that says.
func (s *Schedule) ran(e *entry, err error, final func(error) bool, now time.Time) error {
	s.tick(now)
	if s.entries[e.item.ID] != e {
		return err
	}
	why, due, waited := Interval, now.Add(e.item.Interval), time.Time{}
	retry := BackoffState{}
	var w *Wait
	switch {
	case errors.As(err, &w):
		waited = e.waited
		if waited.IsZero() {
			waited = now
		}
		why, due, retry = Waited, w.Until, e.retry
		if lasted := now.Sub(waited); w.GiveUp > 0 && lasted >= w.GiveUp {
			err = fmt.Errorf("gave up after %s: %s", lasted.Round(time.Second), w.Reason)
		}
	case err != nil && s.Backoff.Max > 0 && (final == nil || !final(err)):
		retry = s.Backoff.Started(e.retry, now)
		why, due = Retry, retry.Until
	}
	if e.place < 0 {
		e.waited, e.retry = waited, retry
		s.set(e, why, due)
	}
	return err
}

// align has those of entries that wait for the same interval wait for the first of
// them: what ran in one pass is due in one pass, which asks the machine once.
func (s *Schedule) align(entries []*entry) {
	first := map[time.Duration]time.Time{}
	for _, e := range entries {
		if s.entries[e.item.ID] != e || e.place < 0 || e.why != Interval {
			continue
		}
		due, ok := first[e.item.Interval]
		if !ok {
			due = e.due
			first[e.item.Interval] = due
		}
		if due.Before(e.due) {
			s.set(e, Interval, due)
		}
	}
}

// before orders entries that are due together.
func (e *entry) before(other *entry) int {
	return cmp.Or(cmp.Compare(e.item.Rank, other.item.Rank), strings.Compare(e.item.ID, other.item.ID))
}

// A queue is a heap of entries by the time when they are due.
type queue []*entry

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

func (q *queue) Push(x any) {
	e := x.(*entry)
	e.place = len(*q)
	*q = append(*q, e)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	e.place = -1
	return e
}
