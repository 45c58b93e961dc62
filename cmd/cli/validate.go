package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tlspu/keel/core/plugin"
)

// documentSettings is -f.
type documentSettings struct {
	Files []string `flag:"filename" short:"f" usage:"read documents from this file, directory, or - for standard input; may be repeated"`
}

// nodeConfigSettings is what only NodeConfigs need.
type nodeConfigSettings struct {
	Facts              string `flag:"facts" usage:"for NodeConfigs: file of what the machine itself cannot know"`
	AllowUnknownParams bool   `flag:"allow-unknown-params" usage:"for NodeConfigs: accept a parameter that looks like a typing error of a known one"`
}

func (s nodeConfigSettings) into(env *plugin.Env) {
	env.Facts, env.AllowUnknownParams = s.Facts, s.AllowUnknownParams
}

func (s documentSettings) need() error {
	if len(s.Files) == 0 {
		return usagef("name the documents with -f FILE, -f DIR or -f -")
	}
	return nil
}

type validateSettings struct {
	documentSettings
	nodeConfigSettings
	Output string `flag:"output" short:"o" usage:"form of the output" enum:"text|json"`
}

func (a *app) validateCommand() *cobra.Command {
	s := &validateSettings{Output: formText}
	cmd := &cobra.Command{
		Use:   "validate -f FILE|DIR|- [flags]",
		Short: "Check documents without looking at a machine",
		Long: `Check documents without looking at a machine.

With --facts the templates of NodeConfigs are filled, with what that file gives
and nothing else, and what they give is checked too.`,
		Example: "  keel validate -f /etc/keel/nodeconfigs\n" +
			"  keel validate -f motd.yaml -f - < sshd.yaml",
		Args:                  cobra.NoArgs,
		DisableFlagsInUseLine: true,
	}
	return a.withSettings(cmd, "validate", func(cmd *cobra.Command, _ []string) error {
		if err := s.need(); err != nil {
			return err
		}
		return a.reading(cmd.Context(), func(ctx context.Context) error { return a.validate(ctx, s) })
	}, s)
}

// judged is what validate found about one document, in JSON.
type judged struct {
	Source string   `json:"source"`
	Kind   string   `json:"kind"`
	OK     bool     `json:"ok"`
	Errors []string `json:"errors"`
}

// validate judges documents: a line on standard output for each that is fine,
// the mistakes of the others on standard error.
func (a *app) validate(ctx context.Context, s *validateSettings) error {
	docs, err := a.documents(ctx, s.Files)
	if err != nil {
		return err
	}
	if err := a.judge(ctx, docs, s.nodeConfigSettings); err != nil {
		return err
	}
	results := []judged{}
	codes := map[int]bool{}
	for _, d := range docs {
		j := judged{Source: d.doc.Source, Kind: d.kind, OK: d.err == nil, Errors: []string{}}
		switch {
		case d.err != nil:
			codes[d.code] = true
			j.Errors = strings.Split(d.err.Error(), "\n")
			a.sayError(named(d.doc.Source, d.err))
		case s.Output == formText:
			if _, err := fmt.Fprintf(a.out, "%s: ok\n", plugin.Printable(d.doc.Source)); err != nil {
				return err
			}
		}
		results = append(results, j)
	}
	code := worst([]int{exitUnreadable, exitInvalid}, codes)
	if s.Output == formJSON {
		document := struct {
			Results  []judged `json:"results"`
			ExitCode int      `json:"exit_code"`
		}{results, code}
		if err := writeJSON(a.out, document); err != nil {
			return err
		}
	}
	return ended(code)
}

// judge notes in docs what their kinds say about them.
func (a *app) judge(ctx context.Context, docs []document, s nodeConfigSettings) error {
	env := a.env(a.log())
	s.into(&env)
	for _, b := range a.batches(docs) {
		verdicts := b.kind.Validate(ctx, env, b.docs)
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(verdicts) != len(b.docs) {
			return fmt.Errorf("kind %s judged %d of %d documents (a defect in Keel; please report it)", b.kind.Name, len(verdicts), len(b.docs))
		}
		for i, err := range verdicts {
			d := &docs[b.at[i]]
			d.err, d.code = err, exitInvalid
			if codeOf(err) == exitUnreadable {
				d.code = exitUnreadable
			}
		}
	}
	return nil
}
