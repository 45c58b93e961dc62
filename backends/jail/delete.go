package jail

import (
	"context"
	"fmt"

	"github.com/tlspu/keel/core/drift"
)

// delete takes a jail away, but no volume, in the order that leaves nothing
// behind: the link first, since it would come back to the host as an orphan, and
// the record last, since it is what makes a delete go on after a crash. A step
// that fails ends the try.
func (p *plan) delete() {
	const field = "delete"
	d, t := p.t.host.driver, p.t
	if p.drifts("network", "link") {
		link := linkOf(&t.rec).Name
		p.try(field, "detach "+p.host, writes("network"),
			func(ctx context.Context) error { return d.Network.Detach(ctx, link) }, nil)
	}
	if p.drifts("root") {
		p.try(field, "destroy jail "+p.host, writes("root"),
			func(ctx context.Context) error { return gone(d.Jails.Destroy(ctx, p.host), ErrNotFound) }, nil)
	}
	for i := len(p.spec.Volumes) - 1; i >= 0; i-- {
		v := p.spec.Volumes[i]
		if p.drifts("volumes", v.Name) {
			p.try(field, fmt.Sprintf("unmount %s from %s", v.MountPath, p.host), writes("volumes", v.Name),
				func(ctx context.Context) error {
					return gone(d.Mounts.Unmount(ctx, t.rootPath()+v.MountPath), ErrNotMounted)
				}, nil)
		}
	}
	if p.drifts("dataset") {
		dataset := rootDataset(t.pool, t.name())
		p.try(field, "destroy dataset "+dataset, writes("dataset"),
			func(ctx context.Context) error { return gone(d.Datasets.Destroy(ctx, dataset), ErrNotFound) }, nil)
	}
	if p.drifts("resources") {
		p.try(field, "remove limits of "+p.host, writes("resources"),
			func(ctx context.Context) error { return d.Jails.RemoveLimits(ctx, p.host) }, nil)
	}
	p.try(field, "remove the record of "+t.name(), writes("record"), p.unrecord, nil)
}

// unrecord removes the record once a look shows that nothing is left.
func (p *plan) unrecord(ctx context.Context) error {
	p.t.host.forget()
	declared, observed, err := p.t.Observe(ctx)
	if err != nil {
		return err
	}
	for _, f := range drift.Compare(declared, observed) {
		if f.Path.String() == "record" || f.Verdict == drift.Same || f.Verdict == drift.NotDeclared {
			continue
		}
		if f.Verdict == drift.NotRead {
			return fmt.Errorf("whether %s is gone is unknown: %s", f.Path, f.Reason)
		}
		return fmt.Errorf("%s is still there: %s", f.Path, drift.Text(f.Observed))
	}
	if err := p.t.store.Remove(p.t.name()); err != nil {
		return err
	}
	p.t.gone = true
	return nil
}
