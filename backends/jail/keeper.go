package jail

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apijail "github.com/tlspu/keel/api/jail"
	"github.com/tlspu/keel/core/drift"
)

// Options of a Keeper.
type Options struct {
	Driver Driver
	Store  *Store
	Pool   string // the dataset above Keel's, "zroot"
	// Visit goes with every visit of a jail.
	Visit drift.Options
	// Done is told what became of every visit.
	Done func(drift.Result)
	Now  func() time.Time
}

// How often jails are looked at, and how long one visit may take.
const (
	interval = 5 * time.Second
	deadline = 5 * time.Minute
)

// A Keeper keeps the jails that have a record: makes them, starts them again
// with a growing pause when they end, and deletes them.
type Keeper struct {
	options Options
	host    *looker
	loop    drift.Loop
	targets map[string]*target // by name; of the loop's goroutine
}

// NewKeeper reads the records. It does not look at the host.
func NewKeeper(ctx context.Context, o Options) (*Keeper, error) {
	records, err := o.Store.Load(ctx)
	if err != nil {
		return nil, err
	}
	k := &Keeper{options: o, host: &looker{driver: o.Driver}, targets: make(map[string]*target, len(records))}
	k.loop.Begin = func(context.Context, int) { k.host.forget() } // a pass looks at the host once
	k.loop.Deadline, k.loop.Options, k.loop.Done, k.loop.Now = deadline, o.Visit, k.done, o.Now
	for _, r := range records {
		k.add(r)
	}
	return k, nil
}

// add has a jail with a record be managed from now on.
func (k *Keeper) add(r Record) {
	name := r.Spec.Metadata.Name
	t := &target{host: k.host, store: k.options.Store, pool: k.options.Pool, now: k.options.Now, rec: r}
	k.targets[name] = t
	k.loop.Schedule.Put(drift.Item{
		ID: targetID(name), Interval: interval, Target: func() drift.Target { return t },
	}, k.options.Now(), 0)
}

// Run keeps the jails until ctx ends, and returns why it ended. The jails stay
// as they are then. It may be called once.
func (k *Keeper) Run(ctx context.Context) error { return k.loop.Run(ctx) }

// done takes down what became of a run, and forgets a jail that is deleted.
func (k *Keeper) done(r drift.Result) {
	name := nameOf(r.Target)
	if t := k.targets[name]; t != nil {
		t.visited(r.Err)
		if t.gone {
			delete(k.targets, name)
			k.loop.Schedule.Remove(r.Target)
		}
	}
	k.options.Done(r)
}

// Apply records what a jail shall be and visits it at once. The error says why
// it was not recorded; what became of the visit is in the Result, and tried again
// by later passes. The Keeper keeps j, which must not be changed any more. It needs
// Run.
func (k *Keeper) Apply(ctx context.Context, j *apijail.Jail) (drift.Result, error) {
	return k.loop.Do(ctx, targetID(j.Metadata.Name), func(ctx context.Context) error { return k.apply(ctx, j) })
}

// Delete records that a jail shall go and takes it away at once, but none of its
// volumes. A delete that fails, or is interrupted, goes on by itself. ErrNotFound:
// there is no record of that name. It needs Run.
func (k *Keeper) Delete(ctx context.Context, name string) (drift.Result, error) {
	return k.loop.Do(ctx, targetID(name), func(ctx context.Context) error { return k.delete(ctx, name) })
}

func (k *Keeper) apply(ctx context.Context, j *apijail.Jail) error {
	if err := j.Validate(); err != nil {
		return err
	}
	name := j.Metadata.Name
	t, known := k.targets[name]
	switch {
	case known && t.rec.Deleting:
		return fmt.Errorf("apply jail %s: it is being deleted, apply it again when it is gone: %w", name, ErrBusy)
	case known:
		if err := apijail.Transition(t.rec.Spec, j); err != nil {
			return err
		}
	}
	if err := k.clash(j); err != nil {
		return fmt.Errorf("apply jail %s: %w", name, err)
	}
	if !known {
		r := Record{Spec: j, EpairOrdinal: k.nextOrdinal(), Provisioning: true}
		if err := k.options.Store.Save(ctx, &r); err != nil {
			return err
		}
		k.add(r)
		return nil
	}
	return t.replace(ctx, j)
}

// clash refuses what two jails cannot both have.
func (k *Keeper) clash(j *apijail.Jail) error {
	address, err := j.Spec.Network.Prefix()
	if err != nil {
		return err
	}
	sizes := map[string]apijail.Memory{}
	for _, v := range j.Spec.Volumes {
		sizes[v.Name] = v.Size
	}
	for _, name := range slices.Sorted(maps.Keys(k.targets)) {
		other := &k.targets[name].rec
		if name == j.Metadata.Name {
			continue
		}
		if linkOf(other).Address.Addr() == address.Addr() {
			return fmt.Errorf("spec.network.address: %s is that of jail %s already: %w", address.Addr(), name, ErrExists)
		}
		for _, v := range other.Spec.Spec.Volumes {
			size, shared := sizes[v.Name]
			mine, _ := size.Bytes() // both are valid
			its, _ := v.Size.Bytes()
			if shared && mine != its {
				return fmt.Errorf("spec.volumes: volume %s has size %s in jail %s, and cannot have %s here: %w", v.Name, v.Size, name, size, ErrExists)
			}
		}
	}
	return nil
}

// nextOrdinal is one more than the highest in use, at least 1.
func (k *Keeper) nextOrdinal() int {
	highest := 0
	for _, t := range k.targets {
		highest = max(highest, t.rec.EpairOrdinal)
	}
	return highest + 1
}

func (k *Keeper) delete(ctx context.Context, name string) error {
	t, known := k.targets[name]
	if !known {
		return fmt.Errorf("delete jail %s: %w", name, ErrNotFound)
	}
	if err := t.record(ctx, func(r *Record) { r.Deleting = true }); err != nil {
		return err
	}
	t.hurry()
	return nil
}
