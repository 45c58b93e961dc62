package appliance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apispec "github.com/tlspu/keel/api/appliance"
	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/host"
)

// tree maps paths of a machine to contents; "-> x" makes a link to x, "folder"
// a folder.
type tree map[string]string

// write makes the tree in a new folder.
func (t tree) write(tb testing.TB) string {
	tb.Helper()
	root := tb.TempDir()
	for name, content := range t {
		file := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		target, link := strings.CutPrefix(content, "-> ")
		switch {
		case err != nil:
		case link:
			err = os.Symlink(target, file)
		case content == "directory":
			err = os.MkdirAll(file, 0o755)
		default:
			err = os.WriteFile(file, []byte(content), 0o644)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	return root
}

// machineAt is the machine with that root; live, if run is not nil.
func machineAt(tb testing.TB, root string, run command.Runner) machine {
	tb.Helper()
	view, err := host.OpenView(root)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = view.Close() })
	return machine{root: root, live: run != nil, files: view, run: run}
}

// asked fails the test when anybody runs a command.
type asked struct{ tb testing.TB }

func (a asked) Run(_ context.Context, c command.Cmd) ([]byte, error) {
	a.tb.Errorf("a command was run on a root that is not live: %s", c)
	return nil, fmt.Errorf("run %s: not here", c)
}

// said is the one value of a state: "kind: reason" of an Unknown, with root
// written as ROOT.
func said(root string, s drift.State) string {
	text := drift.Text(s[0].Value)
	if u, ok := s[0].Value.(drift.Unknown); ok {
		text = u.Kind + ": " + u.Reason
	}
	return strings.ReplaceAll(text, root, "ROOT")
}

// reportOf compares a document with the machine at root, section by section.
func reportOf(tb testing.TB, document, root string) drift.Report {
	tb.Helper()
	spec, err := apispec.Parse([]byte(document))
	if err != nil {
		tb.Fatal(err)
	}
	if errs := spec.Validate(); errs != nil {
		tb.Fatal(errs)
	}
	var all drift.Report
	for _, x := range targets(spec, machine{root: root, run: asked{tb}}) {
		all = append(all, drift.Check(tb.Context(), x).Before...)
	}
	return all
}

// verdicts are the lines of a report, as short as they can be.
func verdicts(r drift.Report) string {
	var b strings.Builder
	for _, f := range r {
		fmt.Fprintf(&b, "%s %s\n", f.Path, f.Verdict)
	}
	return b.String()
}

func specLeaf(path []string, value any) apispec.Leaf { return apispec.Leaf{Path: path, Value: value} }
