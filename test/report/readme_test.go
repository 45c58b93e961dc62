package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What testing.md shows of make test is in the form in which this program prints,
// but for lines that are left out, and names packages and tests that exist.
func TestReadme_showsTheReport(t *testing.T) {
	readme, err := os.ReadFile("../../docs/develop/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(readme), "```\n$ make test\n")
	if !ok {
		t.Fatal("testing.md has no block that starts with $ make test")
	}
	block, _, _ = strings.Cut(block, "```\n")
	block = regexp.MustCompile(`(?m)^ *…\n`).ReplaceAllString(block, "") // what is left out

	var out strings.Builder
	report := newTally(&out)
	why := ""
	for line := range strings.Lines(block) {
		line = strings.TrimSuffix(line, "\n")
		if said, ok := strings.CutPrefix(line, "skipped, "); ok {
			why = strings.TrimSuffix(said, ":")
			continue
		}
		fields := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "ok "):
			exists(t, fields[1])
			report.add(event{Action: "pass", Package: "github.com/tlspu/keel/" + fields[1]})
		case strings.HasPrefix(line, "  "):
			pkg, tests, _ := strings.Cut(strings.TrimSpace(line), ": ")
			for _, test := range strings.Split(tests, ", ") {
				name, count := test, 0
				if _, err := fmt.Sscanf(test, "%s (%d subtests)", &name, &count); err != nil {
					count = 0
				}
				if pkg != everywhere {
					exists(t, pkg, name)
				}
				for i := range max(count, 1) {
					full := name
					if count > 0 {
						full = fmt.Sprintf("%s/%d", name, i)
					}
					report.skips = append(report.skips, skip{pkg + " " + full, why})
				}
			}
		}
	}
	report.close()
	if diff := cmp.Diff(numberless(out.String()), numberless(block)); diff != "" {
		t.Errorf("make test prints (-), testing.md shows (+):\n%s", diff)
	}
}

// exists fails when there is no such package, or no such test in it.
func exists(t *testing.T, pkg string, tests ...string) {
	t.Helper()
	files, err := filepath.Glob("../../" + pkg + "/*_test.go")
	if err != nil || len(files) == 0 {
		t.Errorf("testing.md names %s, in which there are no tests: %v", pkg, err)
	}
	var all strings.Builder
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(content)
	}
	for _, test := range tests {
		if !strings.Contains(all.String(), "\nfunc "+test+"(") {
			t.Errorf("testing.md names %s of %s, which is not there", test, pkg)
		}
	}
}

// numberless replaces what differs from run to run.
func numberless(text string) string {
	text = regexp.MustCompile(`(?m)^(ok   \S+) [\d.]+s$`).ReplaceAllString(text, "$1 TOOK")
	return regexp.MustCompile(`(?m)^\d+ passed, 0 failed, \d+ skipped$`).ReplaceAllString(text, "N passed, 0 failed, N skipped")
}
