package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/plugin"
)

// defaultSpec is the appliance's specification.
const defaultSpec = "/etc/keel/instance.yaml"

type diffSettings struct {
	documentSettings
	nodeConfigSettings
	onMachine
	Spec    string `flag:"spec" env:"KEEL_SPEC" usage:"without -f: the appliance's specification"`
	Require bool   `flag:"require" usage:"a specification that is not there is an error, not nothing to do"`
	Output  string `flag:"output" short:"o" usage:"form of the output; --format is the same" enum:"text|json"`
}

func (a *app) diffCommand() *cobra.Command {
	s := &diffSettings{onMachine: thisMachine(), Spec: defaultSpec, Output: formText}
	cmd := &cobra.Command{
		Use:   "diff [-f FILE|DIR|-] [--spec FILE] [flags]",
		Short: "Compare a machine with what documents declare",
		Long: `Compare a machine with what documents declare, and change nothing.

Each declared value is "same", "drift", "unknown" when it could not be read, or
"not compared"; a value that is there and not declared is "not declared". Without
-f the appliance's specification is compared; when there is none, there is
nothing to do, which is said on standard error and exits 0. With --require that
is an error (exit 2), as it is for a file that -f names.`,
		Example: "  keel diff -f /etc/keel/nodeconfigs\n" +
			"  keel diff --spec old.yaml --root /mnt/old-appliance --format json",
		Args:                  cobra.NoArgs,
		DisableFlagsInUseLine: true,
	}
	cmd = a.withSettings(cmd, "diff", func(cmd *cobra.Command, _ []string) error {
		if changed(cmd.Flags(), "filename") && changed(cmd.Flags(), "spec") {
			return usagef("-f and --spec exclude each other")
		}
		if len(s.Files) == 0 && s.Spec == "" {
			return usagef("--spec is empty: name the appliance's specification, or documents with -f")
		}
		return a.reading(cmd.Context(), func(ctx context.Context) error { return a.diff(ctx, s) })
	}, s)
	cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "format" {
			name = outputFlagName
		}
		return pflag.NormalizedName(name)
	})
	return cmd
}

// diff compares and prints.
func (a *app) diff(ctx context.Context, s *diffSettings) error {
	env, err := a.reach(a.env(a.log()), "root", s.Root, s.ExecMode, true)
	if err != nil {
		return err
	}
	s.into(&env)
	r := comparison{spec: strings.Join(s.Files, ", "), root: env.Root}
	var docs []document
	if len(s.Files) > 0 {
		docs, err = a.documents(ctx, s.Files)
	} else {
		r.spec, r.silent = s.Spec, true
		docs, err = a.specification(ctx, s.Spec)
	}
	if err != nil {
		return err
	}
	if docs == nil && s.Require {
		docs = []document{unreadable(s.Spec, fs.ErrNotExist)}
	}
	if docs == nil {
		a.say("%s: not found, nothing to do", plugin.Printable(s.Spec))
		if s.Spec == defaultSpec {
			a.say("Nothing was compared: neither -f, --spec nor KEEL_SPEC names anything; --require makes this an error")
		}
		return nil
	}
	for _, d := range docs {
		if d.err != nil {
			r.failed(a, exitWith(d.code, named(d.doc.Source, d.err)))
		}
	}
	for _, b := range a.batches(docs) {
		targets, errs := b.targets(ctx, env)
		for _, err := range errs {
			r.failed(a, err)
		}
		for _, result := range drift.CheckAll(ctx, targets, runtime.GOMAXPROCS(0)) {
			r.add(a, b.sourced(result))
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return r.print(a.out, s.Output)
}

// targets are what is compared for a batch, or why nothing is: an error that
// speaks for all documents is given once, and named by its document if there is
// but one.
func (b batch) targets(ctx context.Context, env plugin.Env) (targets []drift.Target, errs []error) {
	if b.kind.Targets == nil {
		for _, doc := range b.docs {
			errs = append(errs, fmt.Errorf("%s: kind %s is not compared here", doc.Source, b.kind.Name))
		}
		return nil, errs
	}
	targets, err := b.kind.Targets(ctx, env, b.docs)
	switch {
	case err == nil:
		return targets, nil
	case len(b.docs) == 1:
		err = exitWith(codeOf(err), named(b.docs[0].Source, err))
	}
	return nil, []error{err}
}

// sourced is a result whose error names its document, if it does, in every line.
func (b batch) sourced(r drift.Result) drift.Result {
	for _, doc := range b.docs {
		if r.Err != nil && strings.HasPrefix(r.Err.Error(), doc.Source+": ") {
			r.Err = exitWith(codeOf(r.Err), named(doc.Source, r.Err))
			break
		}
	}
	return r
}

// specification reads the appliance's specification, whatever kind it says it
// is. That there is no file is no error: nothing is returned.
func (a *app) specification(ctx context.Context, path string) ([]document, error) {
	if _, err := a.kinds().Lookup(instanceKind); err != nil {
		return nil, usagef("compare what? name documents with -f")
	}
	data, err := readFile(ctx, path)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, fs.ErrNotExist) && !isLink(path):
		return nil, nil
	case errors.Is(err, fs.ErrNotExist):
		return []document{unreadable(path, errors.New("is a link that leads to no file"))}, nil
	case err != nil:
		return []document{unreadable(path, err)}, nil
	}
	docs, err := split(path, data)
	if err != nil {
		return []document{unreadable(path, err)}, nil
	}
	if len(docs) > 1 {
		return []document{unreadable(path, fmt.Errorf("holds %d documents, want one", len(docs)))}, nil
	}
	docs[0].kind, docs[0].err = instanceKind, nil // whatever is wrong with it, its kind says so
	return docs, nil
}
