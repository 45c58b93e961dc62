package jail

import (
	"context"
	"errors"
	"fmt"

	"github.com/tlspu/keel/core/drift"
)

// up is the field of everything that brings a jail up.
const up = "jail"

// provision makes the jail from nothing, or from what is left of it: a root file
// system that is there, after a reboot of the host, is used and never taken back.
// A step that fails takes all of them back, but no volume.
func (p *plan) provision() {
	d, t := p.t.host.driver, p.t
	dataset := rootDataset(t.pool, t.name())
	if !t.rec.Provisioning {
		p.try(up, "record that "+t.name()+" is being made", nil, func(ctx context.Context) error {
			return t.record(ctx, func(r *Record) { r.Provisioning = true })
		}, nil)
	}
	if p.drifts("dataset") {
		image := imageDataset(t.pool, p.spec.Image)
		p.try(up, fmt.Sprintf("clone %s to %s", image, dataset), []drift.Path{{"dataset"}, {"image"}},
			func(ctx context.Context) error { return d.Datasets.Clone(ctx, image, dataset) },
			func(ctx context.Context) error { return gone(d.Datasets.Destroy(ctx, dataset), ErrNotFound) })
	}
	p.try(up, "create jail "+p.host, writes("root"),
		func(ctx context.Context) error {
			return d.Jails.Create(ctx, Cell{Name: p.host, Hostname: t.name(), Root: t.rootPath()})
		},
		p.uncreate)
	p.bringUp(true)
}

// uncreate removes the jail and then its mounts: a process in it would keep them
// busy.
func (p *plan) uncreate(ctx context.Context) error {
	d := p.t.host.driver
	errs := []error{gone(d.Jails.Destroy(ctx, p.host), ErrNotFound)}
	for i := len(p.spec.Volumes) - 1; i >= 0; i-- {
		errs = append(errs, gone(d.Mounts.Unmount(ctx, p.t.rootPath()+p.spec.Volumes[i].MountPath), ErrNotMounted))
	}
	return errors.Join(errs...)
}

// restart brings up a jail that exists and has no process. Nothing is taken
// back when it fails: the next try goes on from there.
func (p *plan) restart() { p.bringUp(false) }

// bringUp does what a jail that exists lacks, and starts its command last.
func (p *plan) bringUp(undo bool) {
	d, t := p.t.host.driver, p.t
	back := func(a action) action {
		if undo {
			return a
		}
		return nil
	}
	p.volumes(back)
	link := linkOf(&t.rec)
	if bridge := p.observed("network", "bridge"); bridge != nil && bridge != "" && bridge != link.Bridge {
		p.try(up, fmt.Sprintf("detach %s from %v", p.host, bridge), nil,
			func(ctx context.Context) error { return d.Network.Detach(ctx, link.Name) }, nil)
	}
	if p.drifts("network") {
		p.try(up, attachText(link), writes("network"), p.attach(link),
			back(func(ctx context.Context) error { return d.Network.Detach(ctx, link.Name) }))
	}
	if p.drifts("resources") {
		p.try(up, p.limitText(), writes("resources"), p.limit,
			back(func(ctx context.Context) error { return d.Jails.RemoveLimits(ctx, p.host) }))
	}
	started := false
	p.try(up, fmt.Sprintf("start %s in %s", p.spec.Command[0], p.host), writes("running"), func(ctx context.Context) error {
		err := d.Jails.Start(ctx, p.host, p.spec.Command)
		started = err == nil
		return err
	}, nil)
	p.provisioned(&started)
}

// provisioned records that the jail was started. It is a field of its own: a
// jail that runs is not taken down because its record cannot be written.
func (p *plan) provisioned(started *bool) {
	p.steps = append(p.steps, drift.Step{
		Field: "record", Text: "record that " + p.t.name() + " was started", Writes: writes("provisioned"),
		Do: func(ctx context.Context) (bool, error) {
			if !*started || !p.t.rec.Provisioning {
				return false, nil
			}
			return true, p.t.record(ctx, func(r *Record) { r.Provisioning = false })
		},
	})
}

// volumes makes and mounts what is missing, in the order of the spec.
func (p *plan) volumes(back func(action) action) {
	d, t := p.t.host.driver, p.t
	for _, v := range p.spec.Volumes {
		dataset, size := volumeDataset(t.pool, v.Name), "size"
		if p.drifts("volumes", v.Name, size) {
			p.volumeSize(up, v.Name)
		}
		if p.drifts("volumes", v.Name, "mounted") {
			p.try(up, fmt.Sprintf("mount %s at %s of %s", dataset, v.MountPath, p.host), writes("volumes", v.Name, "mounted"),
				func(ctx context.Context) error {
					return d.Mounts.Mount(ctx, d.Datasets.Path(dataset), t.rootPath(), v.MountPath)
				}, back(func(context.Context) error { return nil })) // uncreate does it, after the jail's processes
		}
	}
}

// volumeSize makes a volume, or gives one that is there its quota. Neither is
// ever taken back.
func (p *plan) volumeSize(field, volume string) {
	d := p.t.host.driver
	dataset := volumeDataset(p.t.pool, volume)
	for _, f := range p.r {
		if size, ok := f.Declared.(int64); ok && f.Path.String() == "volumes."+volume+".size" {
			if f.Observed == nil {
				p.try(field, "create volume "+dataset, []drift.Path{f.Path},
					func(ctx context.Context) error { return d.Datasets.Create(ctx, dataset, size) }, nil)
				return
			}
			p.do(field, fmt.Sprintf("set quota of %s to %d bytes", dataset, size), []drift.Path{f.Path},
				func(ctx context.Context) error { return d.Datasets.SetQuota(ctx, dataset, size) }, nil)
		}
	}
}

func attachText(l Link) string {
	return fmt.Sprintf("attach %s to %s by %s with %s", l.Jail, l.Bridge, l.Name, l.Address)
}

func (p *plan) attach(l Link) action {
	return func(ctx context.Context) error {
		if err := p.t.host.driver.Network.EnsureBridge(ctx, l.Bridge); err != nil {
			return err
		}
		return p.t.host.driver.Network.Attach(ctx, l)
	}
}

func (p *plan) limitText() string {
	return fmt.Sprintf("limit %s to %s cpu and %s of memory", p.host, p.spec.Resources.CPU, p.spec.Resources.Memory)
}

func (p *plan) limit(ctx context.Context) error {
	return p.t.host.driver.Jails.SetLimits(ctx, p.host, limitsOf(p.spec))
}

// repair mends what can be mended around a process that runs.
func (p *plan) repair() {
	for _, v := range p.spec.Volumes {
		at := []string{"volumes", v.Name}
		switch {
		case p.drifts(append(at, "mounted")...):
			p.steps = append(p.steps, drift.Step{Text: fmt.Sprintf("mount %s at %s", v.Name, v.MountPath), Writes: writes(at...),
				Refuse: fmt.Sprintf("%s runs without it, and what it has written there since would be hidden: save that, then stop its command", p.host)})
		case p.drifts(append(at, "size")...):
			p.volumeSize("", v.Name)
		}
	}
	link := linkOf(&p.t.rec)
	switch bridge := p.observed("network", "bridge"); {
	case !p.drifts("network"):
	case bridge != nil && bridge != "" && bridge != link.Bridge:
		p.steps = append(p.steps, drift.Step{Text: attachText(link), Writes: writes("network"),
			Note: fmt.Sprintf("%s stays on %v until it is started again", p.host, bridge)})
	default:
		p.do("", attachText(link), writes("network"), p.attach(link), nil)
	}
	if p.drifts("resources") {
		p.do("", p.limitText(), writes("resources"), p.limit, nil)
	}
	if p.drifts("provisioned") {
		started := true
		p.provisioned(&started)
	}
}
