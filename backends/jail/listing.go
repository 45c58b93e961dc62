package jail

import (
	"context"
	"sync"
)

// A listing is a host at one moment. Each part is whole, or an error.
type listing struct {
	jails    answer[map[string]Running]
	limits   answer[map[string]Limits]
	datasets answer[map[string]Dataset]
	mounts   answer[map[string]string] // source by target, the topmost
	network  answer[Net]
}

type answer[T any] struct {
	value T
	err   error
}

// looker asks a host for whole listings, once until something was changed or a
// pass begins. What could not be listed stays unknown for so long, too: a host
// that hangs is not asked anew for every jail. It is safe for concurrent use.
type looker struct {
	driver Driver

	mu   sync.Mutex
	last *listing
}

// look returns the newest listing. It is an error only when ctx has ended.
func (k *looker) look(ctx context.Context) (*listing, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last != nil {
		return k.last, nil
	}
	l := &listing{
		jails:    ask(ctx, k.driver.Jails.List),
		limits:   ask(ctx, k.driver.Jails.Limits),
		datasets: ask(ctx, k.driver.Datasets.List),
		network:  ask(ctx, k.driver.Network.List),
	}
	mounts := ask(ctx, k.driver.Mounts.List)
	l.mounts = answer[map[string]string]{value: map[string]string{}, err: mounts.err}
	for _, m := range mounts.value {
		l.mounts.value[m.Target] = m.Source
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	k.last = l
	return l, nil
}

// forget makes the next look ask anew.
func (k *looker) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = nil
}

func ask[T any](ctx context.Context, list func(context.Context) (T, error)) answer[T] {
	value, err := list(ctx)
	return answer[T]{value, err}
}
