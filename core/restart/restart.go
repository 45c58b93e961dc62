// Package restart makes restarts happen exactly as often as they must, and proves it.
package restart

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tlspu/keel/core/command"
)

// The phases of a Record.
const (
	Ensuring   = "ensuring"
	Restarting = "restarting"
)

// Record is what must survive a crash. Phase is "ensuring" from before the
// change, "restarting" once it was made; Units holds each unit's InvocationID
// as it was read after the change and before its restart. A unit whose restart
// cannot be proven by its id later leaves Units as soon as it was restarted.
type Record struct {
	Phase  string            `json:"phase"`
	Units  map[string]string `json:"units"`
	Order  []string          `json:"order,omitempty"`  // names in Units, in the order of their restarts; others follow
	Why    string            `json:"why,omitempty"`    // for kata, the content's digest
	Reload bool              `json:"reload,omitempty"` // one daemon-reload before the first restart
}

// A Journal keeps one Record durably: a synced file on the host, or annotations
// of a Node written by one PATCH.
type Journal interface {
	// Load says ok=false for "no record"; a broken record is an error.
	Load(ctx context.Context) (rec Record, ok bool, err error)
	Save(ctx context.Context, r Record) error
	// Clear marks the record as proven: a file is removed, kata writes "done".
	Clear(ctx context.Context) error
}

// Changed says that the change was made: it reads the units' ids and saves the
// record as "restarting". Without a record, or in that phase already, it does
// nothing. A unit that is inactive and has not failed leaves the record: nothing runs
// as it was before, and Keel starts no units. It restarts nothing and need not be called before Prove; who keeps
// other work between the change and the restarts calls it in between.
func Changed(ctx context.Context, run command.Runner, j Journal) error {
	rec, ok, err := load(ctx, j)
	if err != nil || !ok || rec.Phase == Restarting {
		return err
	}
	return changed(ctx, run, j, &rec)
}

// Prove brings a journal to its end. Phase "ensuring" means the change may have
// happened: the ids are read, "restarting" is saved, and it goes on. Then, after
// the reload, each unit: its id is still the recorded one: restart it; the id
// differs and the unit is active (a oneshot: succeeded): proven; the id differs
// and it failed: the new id is saved, it is named in the error, and the next
// Prove restarts it, with the caller's back-off. At most 90 s a unit. After the
// last proof: Clear. An answer without InvocationID, "ignored in a chroot", or a
// machine without systemctl is an error.
//
// An error about one unit does not keep the others from being restarted; a
// failed reload does. Without a record Prove does nothing.
//
// A oneshot that systemd forgets once it has ended has no id to compare: its
// restart's exit code is the proof. So is it for any unit that is inactive after it
// and that systemd forgot, or whose condition is not met: nothing runs as it was
// before. What no other try can cure is said once, and leaves the record: a unit that
// ends at once, that is masked, or that refuses to be stopped by hand.
func Prove(ctx context.Context, run command.Runner, j Journal) error {
	rec, ok, err := load(ctx, j)
	if err != nil || !ok {
		return err
	}
	if rec.Phase == Ensuring {
		if err := changed(ctx, run, j, &rec); err != nil {
			return err
		}
	}
	p := prover{run: run, journal: j, rec: &rec}
	var failed []error
	for _, name := range rec.Names() {
		err := p.unit(ctx, name)
		if err == nil {
			continue
		}
		failed = append(failed, fmt.Errorf("restart %s: %w", name, err))
		if fatal := new(stop); errors.As(err, &fatal) || ctx.Err() != nil {
			return errors.Join(failed...)
		}
	}
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	if _, err := p.reload(ctx); err != nil {
		return err
	}
	return j.Clear(ctx)
}

// load refuses a record that nobody can have meant.
func load(ctx context.Context, j Journal) (Record, bool, error) {
	rec, ok, err := j.Load(ctx)
	if err != nil || !ok {
		return Record{}, false, err
	}
	if err := rec.valid(); err != nil {
		return Record{}, false, fmt.Errorf("restart record: %w", err)
	}
	rec.Units = maps.Clone(rec.Units)
	return rec, true, nil
}

// Names gives the units in the order of their restarts.
func (r Record) Names() []string {
	var names []string
	for _, name := range r.Order {
		if _, ok := r.Units[name]; ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Units)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (r Record) valid() error {
	if r.Phase != Ensuring && r.Phase != Restarting {
		return fmt.Errorf("phase %q: want %s or %s", r.Phase, Ensuring, Restarting)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Units)) {
		if err := ValidUnit(name); err != nil {
			return err
		}
	}
	return nil
}

// readable is what a record must be that was read from a file: Keel saves none
// that names no unit, but in phase "restarting" without a reload, once the last
// unit has left it. Units are an empty object then, and not missing.
func (r Record) readable() error {
	if r.Phase == Restarting && !r.Reload && r.Units == nil {
		return errors.New("phase restarting without units: nobody knows what to restart")
	}
	return r.valid()
}

// changed reads the ids, all of them or none: an id that was not read must not
// be taken for that of a unit which does not run.
func changed(ctx context.Context, run command.Runner, j Journal, rec *Record) error {
	for _, name := range rec.Names() {
		s, err := look(ctx, run, name)
		if err != nil {
			return fmt.Errorf("restart %s: %w", name, err)
		}
		rec.Units[name] = s.id
		if s.stopped() {
			delete(rec.Units, name)
		}
	}
	rec.Phase = Restarting
	return j.Save(ctx, *rec)
}

// maxUnit is the longest name systemd takes.
const maxUnit = 255

// ValidUnit says what is wrong with a unit's name:
// ^[A-Za-z0-9@._:\\][A-Za-z0-9@._:\\-]*$, at most 255 bytes. Such a name is
// neither an option nor a pattern to systemctl, nor a path.
func ValidUnit(name string) error {
	const others = `@._:\-`
	bad := func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		return !letter && (r < '0' || r > '9') && !strings.ContainsRune(others, r)
	}
	switch {
	case name == "":
		return errors.New("unit name is empty")
	case len(name) > maxUnit:
		return fmt.Errorf("unit name %q…: has %d bytes, want at most %d", name[:20], len(name), maxUnit)
	case name[0] == '-':
		return fmt.Errorf("unit name %q: must not begin with -", name)
	case strings.ContainsFunc(name, bad):
		return fmt.Errorf("unit name %q: want letters, digits and %s only", name, others)
	}
	return nil
}
