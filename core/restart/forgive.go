package restart

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tlspu/keel/core/command"
)

// Forgive takes units out of the record that nobody declares any more and that
// systemd does not know: nothing runs as it was before the change. Without it a
// unit whose name was misspelt would be owed for ever. Without a record it does
// nothing.
func Forgive(ctx context.Context, run command.Runner, j Journal, declared []string) error {
	rec, ok, err := load(ctx, j)
	if err != nil || !ok {
		return err
	}
	owed := len(rec.Units)
	for _, name := range slices.Sorted(maps.Keys(rec.Units)) {
		if slices.Contains(declared, name) {
			continue
		}
		there, err := known(ctx, run, name)
		if err != nil {
			return fmt.Errorf("restart %s: %w", name, err)
		}
		if !there {
			delete(rec.Units, name)
		}
	}
	if len(rec.Units) == owed {
		return nil
	}
	return j.Save(ctx, rec)
}

// Only takes units out of the record that are not declared any more, and with the last
// of them the reload. Without a record it does nothing.
func Only(ctx context.Context, j Journal, declared []string) error {
	rec, ok, err := load(ctx, j)
	if err != nil || !ok {
		return err
	}
	pending := len(rec.Units)
	maps.DeleteFunc(rec.Units, func(name, _ string) bool { return !slices.Contains(declared, name) })
	if len(rec.Units) == pending {
		return nil
	}
	rec.Reload = rec.Reload && len(rec.Units) > 0
	if rec.Phase == Ensuring && len(rec.Units) == 0 {
		return j.Clear(ctx)
	}
	return j.Save(ctx, rec)
}

// known reports whether systemd knows a unit. Only its "not-found" is a no.
func known(ctx context.Context, run command.Runner, name string) (bool, error) {
	out, err := run.Run(ctx, command.Cmd{Argv: []string{"systemctl", "show", "-p", "LoadState", "--", name}, Query: true})
	if err != nil {
		return false, explain(err)
	}
	lines := slices.Collect(strings.Lines(string(out)))
	return !slices.Contains(lines, "LoadState=not-found\n"), nil
}
