package jail

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	apijail "github.com/tlspu/keel/api/jail"
	"github.com/tlspu/keel/core/drift"
)

// backoff paces the starts of one jail, and the tries to delete one.
func backoff() drift.Backoff {
	return drift.Backoff{Min: time.Second, Max: 5 * time.Minute, Reset: time.Minute}
}

// A target is one jail with a record. Its leaves:
//
//	image                          while there is no root file system: what it is made from
//	dataset                        the root file system
//	root                           the path of the jail on the host: the jail exists
//	volumes.NAME.size, .mounted
//	network.link, .bridge, .address, .gateway
//	resources.cpu, .memory         limits in force
//	running                        it has a process; exit is how the last one ended
//	provisioned                    of a jail that runs: its record says so
//	record                         of a jail that is being deleted
type target struct {
	host  *looker
	store *Store
	pool  string
	now   func() time.Time

	rec  Record // changed on the loop's goroutine only
	gone bool   // the record was removed

	mu    sync.Mutex
	pause drift.BackoffState
	last  error // of the last visit that did not only wait
}

// idPrefix begins the ID of a jail's target.
const idPrefix = "jail/"

func targetID(name string) string { return idPrefix + name }

func nameOf(id string) string { return strings.TrimPrefix(id, idPrefix) }

func (t *target) name() string { return t.rec.Spec.Metadata.Name }

func (t *target) ID() string { return targetID(t.name()) }

// Forget drops the listing of the host.
func (t *target) Forget() { t.host.forget() }

func (t *target) rootPath() string {
	return t.host.driver.Datasets.Path(rootDataset(t.pool, t.name()))
}

// sides collects both sides of a comparison, leaf by leaf.
type sides struct{ declared, observed drift.State }

func (s *sides) leaf(want, have any, path ...string) {
	s.declared = append(s.declared, drift.Leaf{Path: path, Value: want})
	s.observed = append(s.observed, drift.Leaf{Path: path, Value: have})
}

// Observe answers from whole listings. What a failed one would have told is
// unknown.
func (t *target) Observe(ctx context.Context) (declared, observed drift.State, err error) {
	l, err := t.host.look(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("look at %s: %w", t.ID(), err)
	}
	s := &sides{}
	t.observeRoot(s, l)
	t.observeVolumes(s, l)
	t.observeNetwork(s, l)
	t.observeLimits(s, l)
	t.observeRunning(s, l)
	if t.rec.Deleting {
		var record any
		if !t.gone {
			record = "deleting"
		}
		s.leaf(nil, record, "record")
	}
	return s.declared, s.observed, nil
}

// unless is nil where the jail shall be gone.
func (t *target) unless(want any) any {
	if t.rec.Deleting {
		return nil
	}
	return want
}

func (t *target) observeRoot(s *sides, l *listing) {
	name := rootDataset(t.pool, t.name())
	var dataset, root any
	switch _, there := l.datasets.value[name]; {
	case l.datasets.err != nil:
		dataset = drift.Unread(l.datasets.err)
	case there:
		dataset = name
	case !t.rec.Deleting:
		var image any
		if _, ok := l.datasets.value[imageDataset(t.pool, t.rec.Spec.Spec.Image)]; ok {
			image = t.rec.Spec.Spec.Image
		}
		s.leaf(t.rec.Spec.Spec.Image, image, "image")
	}
	s.leaf(t.unless(name), dataset, "dataset")
	if j, ok := l.jails.value[HostName(t.name())]; ok {
		root = j.Root
	}
	if l.jails.err != nil {
		root = drift.Unread(l.jails.err)
	}
	s.leaf(t.unless(t.rootPath()), root, "root")
}

func (t *target) observeVolumes(s *sides, l *listing) {
	for _, v := range t.rec.Spec.Spec.Volumes {
		name := volumeDataset(t.pool, v.Name)
		if !t.rec.Deleting {
			want, _ := v.Size.Bytes() // a record holds valid specs only
			var size any
			if d, ok := l.datasets.value[name]; ok {
				size = d.Quota
			}
			if l.datasets.err != nil {
				size = drift.Unread(l.datasets.err)
			}
			s.leaf(want, size, "volumes", v.Name, "size")
		}
		source, there := l.mounts.value[t.rootPath()+v.MountPath]
		var mounted any = there && source == t.host.driver.Datasets.Path(name)
		if l.mounts.err != nil {
			mounted = drift.Unread(l.mounts.err)
		}
		s.leaf(!t.rec.Deleting, mounted, "volumes", v.Name, "mounted")
	}
}

func (t *target) observeNetwork(s *sides, l *listing) {
	want := linkOf(&t.rec)
	var name, bridge, address, gateway any
	if have, ok := l.network.value.Links[want.Name]; ok && have.Jail == want.Jail {
		name, bridge = have.Name, have.Bridge
		if have.Address.IsValid() {
			address = have.Address.String()
		}
	}
	if slices.Contains(l.network.value.Bridges[want.Bridge], want.Gateway) {
		gateway = want.Gateway.String()
	}
	if l.network.err != nil {
		name = drift.Unread(l.network.err)
		bridge, address, gateway = name, name, name
	}
	s.leaf(t.unless(want.Name), name, "network", "link")
	if !t.rec.Deleting {
		s.leaf(want.Bridge, bridge, "network", "bridge")
		s.leaf(want.Address.String(), address, "network", "address")
		s.leaf(want.Gateway.String(), gateway, "network", "gateway")
	}
}

func (t *target) observeLimits(s *sides, l *listing) {
	want := limitsOf(&t.rec.Spec.Spec)
	have := l.limits.value[HostName(t.name())]
	leaf := func(want, have int64, name string) {
		var observed any
		if have != 0 {
			observed = have
		}
		if l.limits.err != nil {
			observed = drift.Unread(l.limits.err)
		}
		s.leaf(t.unless(want), observed, "resources", name)
	}
	leaf(want.CPU, have.CPU, "cpu")
	leaf(want.Memory, have.Memory, "memory")
}

// observeRunning also counts how long the jail was seen running, which is what
// ends its back-off.
func (t *target) observeRunning(s *sides, l *listing) {
	if t.rec.Deleting {
		return
	}
	j := l.jails.value[HostName(t.name())]
	if l.jails.err != nil {
		s.leaf(true, drift.Unread(l.jails.err), "running")
		return
	}
	t.mu.Lock()
	t.pause = backoff().Seen(t.pause, j.Alive, t.now())
	t.mu.Unlock()
	s.leaf(true, j.Alive, "running")
	if j.Alive {
		s.leaf(true, !t.rec.Provisioning, "provisioned")
	}
	if !j.Alive && j.Exit != nil {
		s.observed = append(s.observed, drift.Leaf{Path: drift.Path{"exit"}, Value: int64(*j.Exit)})
	}
}

// record changes the record of the jail, first on disk.
func (t *target) record(ctx context.Context, change func(*Record)) error {
	next := t.rec
	change(&next)
	if err := t.store.Save(ctx, &next); err != nil {
		return err
	}
	t.rec = next
	return nil
}

// replace records another spec for the jail. A change is a reason to try at
// once; how long the pauses have become is not forgotten.
func (t *target) replace(ctx context.Context, j *apijail.Jail) error {
	if reflect.DeepEqual(t.rec.Spec, j) {
		return nil
	}
	if err := t.record(ctx, func(r *Record) { r.Spec = j }); err != nil {
		return err
	}
	t.hurry()
	return nil
}

// visited remembers what went wrong, for the visits that wait because of it.
func (t *target) visited(err error) {
	if wait := (*drift.Wait)(nil); errors.As(err, &wait) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = err
}

// hurry ends the pause that runs.
func (t *target) hurry() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pause.Until = time.Time{}
}
