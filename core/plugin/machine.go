package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tlspu/keel/core/host"
)

// NeedRoot refuses to change this machine without uid 0. The root, which setting
// named, is compared by device and inode: a symlink to / is / too.
func (e Env) NeedRoot(setting string) error {
	if e.UID == 0 {
		return nil
	}
	this, err := os.Stat("/")
	if err != nil {
		return err
	}
	that, err := os.Stat(e.Root)
	switch {
	case err != nil:
		return &Exit{Code: ExitUnreadable, Err: fmt.Errorf("%s: %w", setting, err)}
	case !os.SameFile(this, that):
		return nil
	}
	return &Exit{Code: ExitNeedsRoot, Err: fmt.Errorf("%s %s is this machine: changing it needs uid 0; run keel as root, or look with --dry-run", setting, e.Root)}
}

// Lock takes the machine's lock for one run of a target, in the name of who. It waits
// at most LockTimeout; with no time at all it is tried once.
func (e Env) Lock(ctx context.Context, tree *host.Tree, who string) (unlock func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, max(e.LockTimeout, time.Millisecond))
	defer cancel()
	unlock, err = tree.Lock(waiting, who)
	if held := (*host.Held)(nil); errors.As(err, &held) && ctx.Err() == nil {
		return nil, fmt.Errorf("the lock of root %s is held by %s, waited %s for it: run again when that has ended, or wait longer with --lock-timeout",
			e.Root, held.By, e.LockTimeout)
	}
	return unlock, err
}
