package jail_test

import (
	"context"
	"errors"

	"github.com/tlspu/keel/backends/jail"
)

// counter counts whole listings.
type counter struct {
	jail.Jails
	lists int
}

func (c *counter) List(ctx context.Context) (map[string]jail.Running, error) {
	c.lists++
	return c.Jails.List(ctx)
}

// liar says that it destroyed what it did not.
type liar struct{ jail.Datasets }

func (liar) Destroy(context.Context, string) error { return nil }

// rival makes a jail of the same name while this one is being made.
type rival struct {
	jail.Jails
	root string
}

func (r rival) Create(ctx context.Context, c jail.Cell) error {
	mine := c
	mine.Root = r.root
	if err := r.Jails.Create(ctx, mine); err != nil {
		return err
	}
	return r.Jails.Create(ctx, c)
}

// halfway does what it is told, and then something breaks.
type halfway struct{ jail.Network }

func (h halfway) Attach(ctx context.Context, l jail.Link) error {
	if err := h.Network.Attach(ctx, l); err != nil {
		return err
	}
	return errors.New("broken at the end")
}

// patient answers only who still waits.
type patient struct{ jail.Jails }

func (p patient) List(ctx context.Context) (map[string]jail.Running, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return p.Jails.List(ctx)
}
