package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

// documentSettings is -f.
type documentSettings struct {
	Files []string `flag:"filename" short:"f" usage:"read documents from this file, folder, or - for standard input; may be repeated"`
}

func (s documentSettings) need() error {
	if len(s.Files) == 0 {
		return usagef("name the documents with -f FILE, -f FOLDER or -f -")
	}
	return nil
}

func (a *app) validateCommand() *cobra.Command {
	s := &documentSettings{}
	cmd := &cobra.Command{
		Use:   "validate -f FILE|DIR|-",
		Short: "Check documents without looking at a machine",
		Example: "  keel validate -f /etc/keel/nodeconfigs\n" +
			"  keel validate -f motd.yaml -f - < sshd.yaml",
		Args:                  cobra.NoArgs,
		DisableFlagsInUseLine: true,
	}
	return a.withSettings(cmd, "validate", func(cmd *cobra.Command, _ []string) error {
		if err := s.need(); err != nil {
			return err
		}
		return reading(cmd.Context(), func() error { return a.validate(cmd.Context(), s.Files) })
	}, s)
}

// validate judges documents: a line on standard output for each that is fine,
// the mistakes of the others on standard error.
func (a *app) validate(ctx context.Context, files []string) error {
	docs, err := a.documents(ctx, files)
	if err != nil {
		return err
	}
	env := a.env(a.log())
	for _, b := range a.batches(docs) {
		verdicts := b.kind.Validate(ctx, env, b.docs)
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(verdicts) != len(b.docs) {
			return fmt.Errorf("kind %s judged %d of %d documents (a mistake in Keel; please report it)", b.kind.Name, len(verdicts), len(b.docs))
		}
		for i, err := range verdicts {
			docs[b.at[i]].err, docs[b.at[i]].code = err, exitInvalid
		}
	}
	codes := map[int]bool{}
	for _, d := range docs {
		if d.err == nil {
			if _, err := fmt.Fprintf(a.out, "%s: ok\n", printable(d.doc.Source)); err != nil {
				return err
			}
			continue
		}
		codes[d.code] = true
		a.sayError(named(d.doc.Source, d.err))
	}
	return ended(worst([]int{exitUnreadable, exitInvalid}, codes))
}
