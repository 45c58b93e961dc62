package restart

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/tlspu/keel/core/command"
)

const (
	// unitTime is how long one unit may take.
	unitTime = 90 * time.Second
	// pollTime is how often a unit that is starting is looked at.
	pollTime = 500 * time.Millisecond
)

// stop is an error after which no other unit is tried.
type stop struct{ error }

func (s *stop) Unwrap() error { return s.error }

// prover brings one record to its end.
type prover struct {
	run     command.Runner
	journal Journal
	rec     *Record
}

// unit proves one unit, restarting it where it must be.
func (p *prover) unit(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, unitTime)
	defer cancel()
	s, err := look(ctx, p.run, name)
	if err != nil {
		return err
	}
	if !s.newer(p.rec.Units[name]) || s.active == "inactive" && !s.succeeded() {
		return p.restart(ctx, name)
	}
	return p.settle(ctx, name, s, nil)
}

// restart restarts a unit and proves it. Whether the unit can be restarted at all
// systemd says best, once it has read its unit files.
func (p *prover) restart(ctx context.Context, name string) error {
	if reloaded, err := p.reload(ctx); err != nil {
		return err
	} else if reloaded && p.rec.Units[name] == "" {
		// The change may have made the unit, which Keel does not start.
		if s, err := look(ctx, p.run, name); err != nil || s.stopped() {
			return cmp.Or(err, p.drop(ctx, name, nil))
		}
	}
	_, failed := p.run.Run(ctx, command.Cmd{Argv: []string{"systemctl", "restart", "--", name}, Timeout: unitTime})
	if exit := new(command.ExitError); failed != nil && !errors.As(failed, &exit) {
		return failed // whether it was restarted, the next look will tell
	}
	old := p.rec.Units[name]
	s, err := look(ctx, p.run, name)
	if err == nil && failed != nil && s.result == limited && !s.newer(old) {
		s, failed, err = p.unlimited(ctx, name)
	}
	switch {
	case err != nil:
		return errors.Join(failed, err)
	case s.newer(old):
		return p.settle(ctx, name, s, failed)
	case failed != nil:
		if advice := hopeless(failed); advice != "" {
			return p.drop(ctx, name, fmt.Errorf("%w: %s", failed, advice))
		}
		return explain(failed)
	case s.id == "" && s.active == "inactive", s.skipped():
		// No id will ever tell the next Prove, so the record must.
		return p.drop(ctx, name, nil)
	}
	return fmt.Errorf("systemctl says that it restarted it, and the unit, %s, still has InvocationID %q: it was not restarted", s.active, old)
}

// settle waits until a unit that was started anew is what it will be. Failed is
// what its restart said.
func (p *prover) settle(ctx context.Context, name string, s state, failed error) error {
	poll := time.NewTicker(pollTime)
	defer poll.Stop()
	for {
		switch {
		case s.active == "active", s.succeeded():
			return nil
		case s.active == "failed":
			return p.failed(ctx, name, s, failed)
		case s.skipped():
			return p.drop(ctx, name, nil)
		case s.active == "inactive":
			return p.drop(ctx, name, errors.New("it was restarted and has ended: see systemctl status, and remove it from services unless it should stay active; it is not restarted again"))
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
		}
		next, err := look(ctx, p.run, name)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("it was restarted, is %s, and did not become active: %w", s.active, ctx.Err())
		case err != nil:
			return err
		}
		s = next
	}
}

// failed takes the id of a failed start for the one to compare with, so that
// the next Prove restarts the unit.
func (p *prover) failed(ctx context.Context, name string, s state, said error) error {
	p.rec.Units[name] = s.id
	if err := p.save(ctx); err != nil {
		return err
	}
	err := fmt.Errorf("it was restarted and failed (%s): see journalctl -u %s: it is restarted again at the next try", s.result, name)
	if said != nil {
		err = fmt.Errorf("%w: %w", err, said)
	}
	return err
}

// limited is the Result of a unit that systemd does not start for its start limit.
const limited = "start-limit-hit"

// unlimited starts a unit that the start limit keeps down: the restart has stopped
// it. It is tried once, so that a unit that fails at each start meets its limit.
func (p *prover) unlimited(ctx context.Context, name string) (s state, failed, err error) {
	for _, verb := range []string{"reset-failed", "start"} {
		_, failed = p.run.Run(ctx, command.Cmd{Argv: []string{"systemctl", verb, "--", name}, Timeout: unitTime})
		if exit := new(command.ExitError); failed != nil && !errors.As(failed, &exit) {
			return s, nil, failed
		}
	}
	s, err = look(ctx, p.run, name)
	return s, failed, err
}

// hopeless says what to do about a refusal that no other try can cure.
func hopeless(failed error) string {
	exit := new(command.ExitError)
	switch {
	case !errors.As(failed, &exit):
		return ""
	case strings.Contains(exit.Stderr, " is masked"):
		return "unmask it, or remove it from services; it is not restarted again for this change"
	case strings.Contains(exit.Stderr, "may be requested by dependency only"):
		return "systemd refuses to stop it by hand (RefuseManualStop=yes): restart the machine, or the unit in the way its package documents, and remove it from services; it is not restarted again for this change"
	}
	return ""
}

// drop takes a unit out of the record, and returns err.
func (p *prover) drop(ctx context.Context, name string, err error) error {
	delete(p.rec.Units, name)
	return cmp.Or(p.save(ctx), err)
}

// reload makes systemd read its unit files, once a record, and reports whether it
// did.
func (p *prover) reload(ctx context.Context) (bool, error) {
	if !p.rec.Reload {
		return false, nil
	}
	if _, err := p.run.Run(ctx, command.Cmd{Argv: []string{"systemctl", "daemon-reload"}, Timeout: unitTime}); err != nil {
		return false, &stop{fmt.Errorf("nothing is restarted before systemd has read its unit files: %w", explain(err))}
	}
	p.rec.Reload = false
	return true, p.save(ctx)
}

func (p *prover) save(ctx context.Context) error {
	rec := *p.rec
	rec.Units = maps.Clone(rec.Units) // the journal may keep it
	if err := p.journal.Save(ctx, rec); err != nil {
		return &stop{err}
	}
	return nil
}
