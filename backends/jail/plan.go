package jail

import (
	"context"
	"errors"
	"fmt"

	apijail "github.com/tlspu/keel/api/jail"
	"github.com/tlspu/keel/core/drift"
)

// plan gathers the steps of one visit.
type plan struct {
	t     *target
	r     drift.Report
	spec  *apijail.Spec
	host  string // name of the jail on the host
	steps []drift.Step
	armed bool
}

// Plan answers what was observed. While anything is unknown it does nothing:
// half a picture of a jail is not acted on.
func (t *target) Plan(_ context.Context, r drift.Report) ([]drift.Step, error) {
	if r.Count(drift.NotRead) > 0 {
		return nil, nil
	}
	p := &plan{t: t, r: r, spec: &t.rec.Spec.Spec, host: HostName(t.name())}
	exists := p.observed("root") != nil
	switch {
	case exists && p.observed("root") != t.rootPath():
		p.refuse("look after "+p.host, fmt.Sprintf("%s is a jail that Keel did not make, its root is %v: remove it, or name this one otherwise", p.host, p.observed("root")))
	case t.rec.Deleting:
		return p.paced("deletion continues", p.delete)
	case !exists && p.drifts("image"):
		p.refuse("make "+p.host, fmt.Sprintf("there is no image %s: make the dataset %s", p.spec.Image, imageDataset(t.pool, p.spec.Image)))
	case !exists:
		return p.paced("is made again", p.provision)
	case !p.drifts("running"):
		p.repair()
	case p.leftAlone():
		p.steps = append(p.steps, drift.Step{Text: "leave " + p.host + " as it is", Writes: []drift.Path{{}},
			Note: fmt.Sprintf("its command has ended and restartPolicy is %s", p.spec.RestartPolicy)})
	default:
		return p.paced("is started again", p.restart)
	}
	return p.steps, nil
}

// paced gives the steps, or the time to wait for them.
func (p *plan) paced(what string, steps func()) ([]drift.Step, error) {
	p.t.mu.Lock()
	pause, last := p.t.pause, p.t.last
	p.t.mu.Unlock()
	if backoff().Ready(pause, p.t.now()) {
		steps()
		return p.steps, nil
	}
	why := ""
	if status := p.observed("exit"); last != nil {
		why = fmt.Sprintf(", the last try failed: %v", last)
	} else if status != nil {
		why = fmt.Sprintf(", its command ended with status %v", status)
	}
	return nil, &drift.Wait{Until: pause.Until, Reason: p.t.name() + " " + what + " after a pause" + why}
}

// leftAlone reports that the restart policy says so. A jail whose provisioning
// was interrupted was not started yet, as far as is known.
func (p *plan) leftAlone() bool {
	if p.t.rec.Provisioning {
		return false
	}
	return p.spec.RestartPolicy == apijail.Never ||
		p.spec.RestartPolicy == apijail.OnFailure && p.observed("exit") == int64(0)
}

// observed is the value of a leaf on the host.
func (p *plan) observed(path ...string) any {
	f, _ := p.r.At(path)
	return f.Observed
}

// drifts reports that a leaf, or one below it, is not as declared.
func (p *plan) drifts(path ...string) bool {
	for _, f := range p.r {
		if f.Verdict == drift.Drift && drift.Path(path).Covers(f.Path) {
			return true
		}
	}
	return false
}

// writes makes the paths of a step.
func writes(path ...string) []drift.Path { return []drift.Path{path} }

func (p *plan) refuse(text, reason string) {
	p.steps = append(p.steps, drift.Step{Text: text, Writes: []drift.Path{{}}, Refuse: reason})
}

// action is a change of the host or of the record, and how it is taken back.
type action func(context.Context) error

// do adds a step. Whatever it does, the next look asks anew.
func (p *plan) do(field, text string, writes []drift.Path, do, undo action) {
	step := drift.Step{Field: field, Text: text, Writes: writes, Do: func(ctx context.Context) (bool, error) {
		defer p.t.host.forget()
		err := do(ctx)
		// Facilities promise that these made nothing; any other error may have.
		made := !errors.Is(err, ErrExists) && !errors.Is(err, ErrNotFound)
		return made, err
	}}
	if undo != nil {
		step.Undo = func(ctx context.Context) error {
			defer p.t.host.forget()
			return undo(ctx)
		}
	}
	p.steps = append(p.steps, step)
}

// try adds a step whose first of a plan counts as a start: from here on the
// jail cools down, whatever becomes of it.
func (p *plan) try(field, text string, writes []drift.Path, do, undo action) {
	p.do(field, text, writes, func(ctx context.Context) error {
		if !p.armed {
			p.armed = true
			p.t.mu.Lock()
			p.t.pause = backoff().Started(p.t.pause, p.t.now())
			p.t.mu.Unlock()
		}
		return do(ctx)
	}, undo)
}

// gone is an action for which absence is success.
func gone(err error, absent error) error {
	if errors.Is(err, absent) {
		return nil
	}
	return err
}
