package restart

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	if err := p.reload(ctx); err != nil {
		return err
	}
	_, failed := p.run.Run(ctx, command.Cmd{Argv: []string{"systemctl", "restart", "--", name}, Timeout: unitTime})
	if exit := new(command.ExitError); failed != nil && !errors.As(failed, &exit) {
		return failed // whether it was restarted, the next look will tell
	}
	old := p.rec.Units[name]
	s, err := look(ctx, p.run, name)
	switch {
	case err != nil:
		return errors.Join(failed, err)
	case s.newer(old):
		return p.settle(ctx, name, s, failed)
	case failed != nil:
		return explain(failed)
	case s.id == "" && s.succeeded(), s.skipped():
		// No id will ever tell the next Prove, so the record must.
		delete(p.rec.Units, name)
		return p.save(ctx)
	case s.active == "inactive":
		return errors.New("it was restarted and is inactive: it ended at once, or a condition of it is not met: see systemctl status")
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
		case s.active == "inactive":
			return errors.New("it was restarted and has ended: a unit that is to be restarted must stay active: see systemctl status")
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

// reload makes systemd read its unit files, once a record.
func (p *prover) reload(ctx context.Context) error {
	if !p.rec.Reload {
		return nil
	}
	if _, err := p.run.Run(ctx, command.Cmd{Argv: []string{"systemctl", "daemon-reload"}, Timeout: unitTime}); err != nil {
		return &stop{fmt.Errorf("nothing is restarted before systemd has read its unit files: %w", explain(err))}
	}
	p.rec.Reload = false
	return p.save(ctx)
}

func (p *prover) save(ctx context.Context) error {
	rec := *p.rec
	rec.Units = maps.Clone(rec.Units) // the journal may keep it
	if err := p.journal.Save(ctx, rec); err != nil {
		return &stop{err}
	}
	return nil
}
