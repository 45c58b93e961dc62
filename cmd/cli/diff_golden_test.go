package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/backends/appliance"
	"github.com/tlspu/keel/core/plugin"
	"github.com/tlspu/keel/test/contract"
)

var update = flag.Bool("update", false, "rewrite the goldens")

const diffCases = "../../test/fixtures/diff"

// TestDiff_golden runs "keel diff" over each folder of test/fixtures/diff: the
// spec, a machine's root, and what must come out of comparing them, as text and
// as JSON, with the exit code in the goldens' names. Nothing below the root may
// change.
func TestDiff_golden(t *testing.T) {
	folders, err := filepath.Glob(diffCases + "/*/root")
	if err != nil || len(folders) < 20 {
		t.Fatalf("%d cases in %s: %v", len(folders), diffCases, err)
	}
	for _, folder := range folders {
		folder = filepath.Dir(folder)
		t.Run(filepath.Base(folder), func(t *testing.T) {
			b := newBench(t)
			c := goldenCase{t: t, b: b, folder: folder, dir: filepath.Join(b.dir, "case")}
			if err := errors.Join(os.CopyFS(c.dir, os.DirFS(folder)), unstorable(filepath.Base(folder), filepath.Join(c.dir, "root"))); err != nil {
				t.Fatal(err)
			}
			before := contract.Snapshot(t, c.dir)
			code, text, errs := c.run("text")
			same, document, again := c.run("json")
			before.Unchanged(t, c.dir, "keel diff")
			if same != code || again != errs {
				t.Errorf("text exits %d and says %q, JSON exits %d and says %q", code, errs, same, again)
			}
			c.golden(fmt.Sprintf("out.%d.txt", code), text)
			c.golden(fmt.Sprintf("out.%d.json", code), document)
			c.golden("err.txt", errs)
			if document != "" {
				agree(t, code, text, document)
			}
		})
	}
}

// unstorable makes what git cannot hold.
func unstorable(name, root string) error {
	file := func(name string) string { return filepath.Join(root, name) }
	switch name {
	case "pipes":
		return errors.Join(syscall.Mkfifo(file("etc/hostname"), 0o644), syscall.Mkfifo(file("etc/resolv.conf"), 0o644))
	case "hosts-large": // as those are who block advertisements by it
		name := file("etc/hosts")
		names, err := os.ReadFile(name)
		blocked := bytes.Repeat([]byte("0.0.0.0 ads.example.net\n"), 3<<20/24)
		return errors.Join(err, os.WriteFile(name, append(blocked, names...), 0o644))
	case "too-large":
		var errs []error
		for _, large := range []string{file("etc/hosts"), file("etc/resolv.conf")} {
			errs = append(errs, os.WriteFile(large, nil, 0o644), os.Truncate(large, 100<<20))
		}
		return errors.Join(errs...)
	}
	return nil
}

type goldenCase struct {
	t           *testing.T
	b           *bench
	folder, dir string
}

// run compares, and returns what came out with the case's folder as /case.
func (c goldenCase) run(form string) (code int, stdout, stderr string) {
	var out, errs safeBuffer
	a := c.b.app(&out, &errs, "diff", "--spec", filepath.Join(c.dir, "spec.yaml"), "--root", filepath.Join(c.dir, "root"), "--format", form)
	a.set.Backends = plugin.NewRegistry[plugin.Backend]("backend")
	a.set.Backends.Register("appliance", plugin.Backend{Name: "appliance", Kinds: []plugin.Kind{appliance.Kind()}})
	code = a.run(c.b.ctx)
	moved := func(s string) string { return strings.ReplaceAll(s, c.dir, "/case") }
	return code, moved(out.String()), moved(errs.String())
}

// golden compares got with the file of that name. Only a text on standard
// output always has its file, for the exit code in its name.
func (c goldenCase) golden(name, got string) {
	c.t.Helper()
	path := filepath.Join(c.folder, name)
	optional := name == "err.txt" || filepath.Ext(name) == ".json"
	if *update {
		stale, _ := filepath.Glob(filepath.Join(c.folder, strings.Split(name, ".")[0]+".*"+filepath.Ext(name)))
		for _, old := range stale {
			if err := os.Remove(old); err != nil {
				c.t.Fatal(err)
			}
		}
		if got != "" || !optional {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	want, err := os.ReadFile(path)
	if err != nil && (got != "" || !optional) {
		c.t.Errorf("no golden for what came out: %v\n%s", err, got)
		return
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		c.t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// agree holds the two forms of one report, and the exit code, to one statement.
func agree(t *testing.T, code int, text, document string) {
	t.Helper()
	var d struct {
		Fields []struct {
			Field, Section, Status, Reason, Note string
			Declared, Observed                   any
		}
		Counts     map[string]int
		Drift      bool
		Incomplete bool
		ExitCode   int `json:"exit_code"`
	}
	if err := json.Unmarshal([]byte(document), &d); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{"same": 0, "drift": 0, "unknown": 0, "not_declared": 0, "not_compared": 0}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) != len(d.Fields)+1 {
		t.Fatalf("%d lines for %d fields", len(lines), len(d.Fields))
	}
	for i, f := range d.Fields {
		counts[strings.ReplaceAll(f.Status, " ", "_")]++
		if !strings.HasPrefix(lines[i], f.Field+": "+f.Status+" (") {
			t.Errorf("line %d is %q, field %d is %s, %s", i+1, lines[i], i+1, f.Field, f.Status)
		}
		if f.Note != "" && f.Status != "drift" {
			t.Errorf("%s is %s with a note", f.Field, f.Status)
		}
	}
	if diff := cmp.Diff(counts, d.Counts); diff != "" {
		t.Errorf("counts (-fields +counts):\n%s", diff)
	}
	summary := fmt.Sprintf("diff: %d same, %d drift, %d unknown, %d not declared, %d not compared; ",
		counts["same"], counts["drift"], counts["unknown"], counts["not_declared"], counts["not_compared"])
	want, state := 0, "no drift"
	switch {
	case counts["drift"] > 0:
		want, state = exitDrift, "drift found"
	case counts["unknown"] > 0:
		want, state = exitIncomplete, "no drift, but declared fields could not be observed"
	}
	if lines[len(lines)-1] != summary+state {
		t.Errorf("summary is %q, want %q", lines[len(lines)-1], summary+state)
	}
	if code != want || d.ExitCode != want || d.Drift != (counts["drift"] > 0) || d.Incomplete != (counts["unknown"] > 0) {
		t.Errorf("exit %d, exit_code %d, drift %v, incomplete %v for %v", code, d.ExitCode, d.Drift, d.Incomplete, counts)
	}
}

// TestDiff_goldenSecretsAreNowhere: the goldens hold none of the secrets that
// their specs spell.
func TestDiff_goldenSecretsAreNowhere(t *testing.T) {
	goldens, err := filepath.Glob(diffCases + "/*/*.*")
	if err != nil {
		t.Fatal(err)
	}
	spelled := 0
	for _, name := range goldens {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "hunter2") {
			spelled++
			if filepath.Base(name) != "spec.yaml" {
				t.Errorf("%s holds a secret", name)
			}
		}
	}
	if spelled == 0 {
		t.Error("no spec spells a secret: nothing was tested")
	}
}
