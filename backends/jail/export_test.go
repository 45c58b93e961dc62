package jail

import (
	"context"
	"maps"
	"slices"
	"strings"

	apijail "github.com/tlspu/keel/api/jail"
	"github.com/tlspu/keel/core/drift"
)

// Without Run, a test is the loop: it makes passes and records what is wanted
// itself, at the times it chooses.

// Pass runs every jail whose Wait is not to come.
func (k *Keeper) Pass(ctx context.Context) {
	for line := range strings.Lines(k.loop.Schedule.String()) {
		if fields := strings.Fields(line); !strings.Contains(line, string(drift.Waited)) {
			k.loop.Schedule.Ask(fields[len(fields)-1], k.options.Now())
		}
	}
	k.loop.Pass(ctx)
}

func (k *Keeper) Record(ctx context.Context, j *apijail.Jail) error { return k.apply(ctx, j) }

func (k *Keeper) RecordDelete(ctx context.Context, name string) error { return k.delete(ctx, name) }

func (k *Keeper) Targets() (list []drift.Target) {
	k.host.forget()
	for _, name := range slices.Sorted(maps.Keys(k.targets)) {
		list = append(list, k.targets[name])
	}
	return list
}

func ParseRecord(data []byte, name string) (Record, error) { return parseRecord(data, name) }
