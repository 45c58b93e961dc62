package command

import (
	"context"
	"fmt"
)

// ReadOnly refuses every command that is no query: what diff, inspect, Plan and
// dry runs are given.
type ReadOnly struct{ next Runner }

// NewReadOnly returns a Runner that hands only queries to r.
func NewReadOnly(r Runner) ReadOnly { return ReadOnly{next: r} }

// Run runs a query and refuses anything else without running it.
func (r ReadOnly) Run(ctx context.Context, c Cmd) ([]byte, error) {
	if !c.Query {
		return nil, fmt.Errorf("run %s: refused: only commands that read are allowed here", c)
	}
	return r.next.Run(ctx, c)
}
