package contract

import (
	"context"
	"fmt"
	"sync"

	"github.com/tlspu/keel/core/command"
)

// faults counts commands and lets one of them fail before it runs.
type faults struct {
	next command.Runner
	at   int // the command that fails, from 1; 0 for none
	fail func(command.Cmd) error

	mu sync.Mutex
	n  int
}

func (f *faults) Run(ctx context.Context, c command.Cmd) ([]byte, error) {
	f.mu.Lock()
	f.n++
	n := f.n
	f.mu.Unlock()
	if n == f.at {
		return nil, f.fail(c)
	}
	if f.next == nil {
		return nil, fmt.Errorf("run %v: this test has no machine to run it on", c.Argv)
	}
	return f.next.Run(ctx, c)
}

// asked is how many commands were tried.
func (f *faults) asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

// hit reports whether the command that fails was reached.
func (f *faults) hit() bool { return f.at > 0 && f.asked() >= f.at }
