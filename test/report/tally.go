package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// event is a line of go test -json; see `go doc test2json`.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of build-output: the package and its test variant
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

type skip struct{ test, reason string }

// everywhere stands for the package of what no package ran.
const everywhere = "all"

// tally follows one run of go test.
type tally struct {
	w              io.Writer
	passed, failed int
	failures       []string // "package Test/sub", or the package and what became of it
	skips          []skip
	output         map[string][]string // of unfinished tests and packages, by package and test
	build          map[string][]string // compiler output by import path
}

func newTally(w io.Writer) *tally {
	return &tally{w: w, output: map[string][]string{}, build: map[string][]string{}}
}

// read takes the stream to its end. A line that is no event is printed as it is:
// go test prints such lines when it cannot start.
func (t *tally) read(r io.Reader) error {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) == nil && e.Action != "" {
				t.add(e)
			} else {
				t.printf("%s\n", strings.TrimSuffix(line, "\n"))
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (t *tally) add(e event) {
	switch e.Action {
	case "build-output":
		t.build[e.ImportPath] = append(t.build[e.ImportPath], e.Output)
	case "output":
		key := e.Package + " " + e.Test
		t.output[key] = append(t.output[key], e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			t.endPackage(e)
		} else {
			t.endTest(e)
		}
	}
}

func (t *tally) endTest(e event) {
	key := e.Package + " " + e.Test
	lines := t.output[key]
	delete(t.output, key)
	switch e.Action {
	case "pass":
		t.passed++
	case "skip":
		t.skips = append(t.skips, skip{short(e.Package) + " " + e.Test, reason(lines)})
	case "fail":
		t.failed++
		t.failures = append(t.failures, short(e.Package)+" "+e.Test)
		t.printf("%s\n%s", key, strings.Join(lines, ""))
	}
}

// endPackage prints the package's line. A package fails by its tests, or by
// itself: it did not compile, or its process died in the middle of tests, whose
// output is then printed here.
func (t *tally) endPackage(e event) {
	var left []string
	for key, lines := range t.output {
		if pkg, _, _ := strings.Cut(key, " "); pkg == e.Package {
			left = append(left, lines...)
			delete(t.output, key)
		}
	}
	switch e.Action {
	case "pass":
		t.printf("ok   %s %.1fs\n", short(e.Package), e.Elapsed)
	case "fail":
		left = append(t.build[e.FailedBuild], slices.DeleteFunc(left, closing)...)
		if len(left) > 0 {
			t.failed++
			what := "ended before its tests did"
			if e.FailedBuild != "" {
				what = "does not compile"
			}
			t.failures = append(t.failures, short(e.Package)+" ("+what+")")
		}
		t.printf("%sFAIL %s %.1fs\n", strings.Join(left, ""), short(e.Package), e.Elapsed)
	}
}

// closing reports whether a line is go test's own end of a failed package, which
// says no more than that tests failed.
func closing(line string) bool {
	return line == "FAIL\n" || strings.HasPrefix(line, "FAIL\t") || strings.HasPrefix(line, "coverage:")
}

// close prints the skips, those of one reason together, the failures again, and
// the line that counts.
func (t *tally) close() {
	var reasons []string
	tests := map[string][]string{} // by reason
	for _, s := range t.skips {
		if tests[s.reason] == nil {
			reasons = append(reasons, s.reason)
		}
		tests[s.reason] = append(tests[s.reason], s.test)
	}
	slices.Sort(reasons)
	for _, r := range reasons {
		t.printf("\nskipped, %s:\n", r)
		for _, line := range gather(tests[r]) {
			t.printf("  %s\n", line)
		}
	}
	slices.Sort(t.failures)
	if len(t.failures) > 0 {
		t.printf("\nfailed, see above:\n")
	}
	for _, name := range t.failures {
		inner := func(other string) bool { return strings.HasPrefix(other, name+"/") }
		if !slices.ContainsFunc(t.failures, inner) { // else it failed with its subtests
			t.printf("  %s\n", name)
		}
	}
	t.printf("\n%d passed, %d failed, %d skipped\n", t.passed, t.failed, len(t.skips))
}

// gather makes a line for each package of names "package Test/sub": the tests in
// alphabetical order, and how many subtests of one are meant.
func gather(names []string) []string {
	slices.Sort(names)
	var lines []string
	pkg, test, subtests := "", "", 0
	end := func() {
		if subtests > 0 {
			lines[len(lines)-1] += fmt.Sprintf(" (%d subtests)", subtests)
		}
		subtests = 0
	}
	for _, name := range names {
		p, rest, _ := strings.Cut(name, " ")
		top, _, sub := strings.Cut(rest, "/")
		switch {
		case p != pkg:
			end()
			lines = append(lines, p+": "+top)
		case top != test:
			end()
			lines[len(lines)-1] += ", " + top
		}
		if pkg, test = p, top; sub {
			subtests++
		}
	}
	end()
	return lines
}

// printf writes to a reader who may have gone away: the exit code still tells.
func (t *tally) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(t.w, format, args...)
}

var position = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// reason is what t.Skip was given: the lines after go test's own, without the
// position.
func reason(lines []string) string {
	var said []string
	for _, line := range lines {
		if strings.HasPrefix(line, "=== ") || strings.HasPrefix(strings.TrimSpace(line), "--- SKIP") {
			continue
		}
		said = append(said, strings.TrimSpace(position.ReplaceAllString(line, "")))
	}
	if len(said) == 0 {
		return "no reason given"
	}
	return strings.Join(said, " ")
}

// short is the package's path inside the repository.
func short(pkg string) string {
	return strings.TrimPrefix(pkg, "github.com/tlspu/keel/")
}
