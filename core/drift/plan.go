package drift

import (
	"context"
	"fmt"
	"time"
)

// A Target is one thing with a declared and an observed side.
type Target interface {
	// ID names the target in logs, metrics and back-off.
	ID() string
	// Observe returns both sides in comparable form and changes nothing; it may
	// run beside other targets'. The error is for "nothing could be asked". A leaf
	// this machine can never have is declared as Skip, not observed as Unknown.
	Observe(ctx context.Context) (declared, observed State, err error)
}

// A Comparer replaces Compare for a target whose verdicts need more than
// equality: it normalises, calls Compare, and may append derived findings.
type Comparer interface {
	Compare(declared, observed State) Report
}

// A Forgetter is a Target that may answer Observe from memory. Forget drops that
// memory: Ensure calls it once it holds the lock, since another process may have
// changed the machine while this one waited.
type Forgetter interface {
	Forget()
}

// A Planner is a Target that may be changed. Plan reads, and changes nothing.
// It is called whenever a declared leaf is not the same. Every such leaf lies
// under the Writes of a step: under Do it must be the same afterwards, under
// Note it is reported and no error, under Refuse, or under none, an error.
type Planner interface {
	Target
	Plan(ctx context.Context, r Report) ([]Step, error)
}

// A Step is one action: exactly one of Do, Note, Refuse is set. A path in
// Writes covers all below it; Run refuses a Do that writes a noted or unknown leaf.
type Step struct {
	Field  string // steps of one field stand and fall together; empty: on its own
	Text   string // "write /etc/hosts (mode 0644)"; never a secret
	Writes []Path
	// Blind says that Do looks for itself before it writes, so that a leaf
	// nobody could observe does not forbid it. A noted leaf still does.
	Blind bool
	// Late says that the step comes after the changes of all targets of a pass. A
	// late step that fails undoes no step that is not late.
	Late   bool
	Note   string
	Refuse string
	// Do is one command or one write, with its own deadline. That the visit is
	// called off does not reach it, a step that began is finished; the deadline of
	// the visit does.
	Do func(context.Context) (changed bool, err error)
	// Undo takes Do back, with its own deadline; nil: the change stays when a
	// later step of the field fails.
	Undo func(context.Context) error
}

// Outcome is what became of one step. A refusal counts as a failure.
type Outcome struct {
	Step    Step
	Changed bool
	Skipped bool // not tried: an earlier step of its field failed, or the visit ended
	Undone  bool // changed, and taken back because a later step of its field failed
	Refused string
	Err     error
}

// Failed reports whether the step was refused or did not do what it should.
func (o Outcome) Failed() bool { return o.Refused != "" || o.Err != nil }

// Hook is called before (o is nil) and after each step that is tried: output,
// crash tests. An error before the step fails the step, which is then not run;
// what it returns afterwards is not looked at.
type Hook func(ctx context.Context, i int, s Step, o *Outcome) error

// Wait is an error that is no failure: visit again at Until. The caller makes it
// one GiveUp after this target's first Wait; 0 means never.
type Wait struct {
	Until  time.Time
	Reason string
	GiveUp time.Duration
}

func (w *Wait) Error() string {
	return fmt.Sprintf("waits until %s: %s", w.Until.UTC().Format(time.RFC3339), w.Reason)
}

// Panic is the error made of a panic in a target or a step. Its text names the
// value; Stack is for the log.
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) Error() string {
	return fmt.Sprintf("panic: %v (a defect in Keel; please report it)", p.Value)
}
