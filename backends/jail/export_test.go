package jail

import (
	"context"

	apijail "github.com/tlspu/keel/api/jail"
	"github.com/tlspu/keel/core/drift"
)

// Without Run, a test is the loop: it makes passes and records what is wanted
// itself, at the times it chooses.

func (k *Keeper) Pass(ctx context.Context) { k.loop.Pass(ctx) }

func (k *Keeper) Record(ctx context.Context, j *apijail.Jail) error { return k.apply(ctx, j) }

func (k *Keeper) RecordDelete(ctx context.Context, name string) error { return k.delete(ctx, name) }

func (k *Keeper) Targets(ctx context.Context) ([]drift.Target, error) { return k.list(ctx) }

func ParseRecord(data []byte, name string) (Record, error) { return parseRecord(data, name) }
