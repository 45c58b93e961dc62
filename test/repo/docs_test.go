package repo

import (
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The map names every directory that holds files. Trees of fixtures and examples
// count as one.
func TestArchitecture_namesEveryFolder(t *testing.T) {
	var tree []string
	files(t, func(name string) {
		dir := path.Dir(name)
		for _, whole := range []string{"test/fixtures", "docs/examples", "docs/changes", "docs/adr"} {
			if under(dir, whole) {
				dir = whole
			}
		}
		if i := strings.Index(dir, "/testdata"); i > 0 {
			dir = dir[:i]
		}
		if dir != "." && !slices.Contains(tree, dir) {
			tree = append(tree, dir)
		}
	})
	slices.Sort(tree)

	var named []string
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")
	for _, m := range row.FindAllStringSubmatch(section(t, "docs/develop/architecture.md", "## Directories"), -1) {
		named = append(named, m[1])
	}
	slices.Sort(named)
	if diff := cmp.Diff(tree, named); diff != "" {
		t.Errorf("the directories of docs/develop/architecture.md (+) are not those of the tree (-):\n%s", diff)
	}
}

// section returns what stands between a heading and the next of its kind.
func section(t *testing.T, file, heading string) string {
	t.Helper()
	_, rest, ok := strings.Cut(read(t, file), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("%s has no %q", file, heading)
	}
	level, _, _ := strings.Cut(heading, " ")
	text, _, _ := strings.Cut(rest, "\n"+level+" ")
	return text
}

// Every decision has the four parts and is in the index.
func TestDecisions_areComplete(t *testing.T) {
	index := read(t, "docs/adr/README.md")
	number := regexp.MustCompile(`^[0-9]{4}-[a-z0-9-]+\.md$`)
	taken := map[string]string{}
	files(t, func(name string) {
		base := path.Base(name)
		if !under(name, "docs/adr") || base == "README.md" || base == "template.md" {
			return
		}
		if !number.MatchString(base) {
			t.Errorf("%s is not named NNNN-title.md", name)
			return
		}
		if other := taken[base[:4]]; other != "" {
			t.Errorf("%s has the number of %s", name, other)
		}
		taken[base[:4]] = name
		text := read(t, name)
		for _, part := range []string{"## Context", "## Decision", "## Example", "## Consequences"} {
			if !strings.Contains(text, "\n"+part+"\n") {
				t.Errorf("%s has no %q", name, part)
			}
		}
		if !strings.Contains(index, "("+base+")") {
			t.Errorf("docs/adr/README.md does not list %s", base)
		}
	})
}

// A change fragment says in its first line what kind of change it is.
func TestChanges_areLabelled(t *testing.T) {
	name := regexp.MustCompile(`^docs/changes/unreleased/[0-9]{4}-[a-z0-9-]+\.md$`)
	first := regexp.MustCompile(`^(Change|Feature|Fix): [^\n]+\n\n\S`)
	files(t, func(file string) {
		if !under(file, "docs/changes/unreleased") {
			return
		}
		if !name.MatchString(file) {
			t.Errorf("%s is not named NNNN-slug.md", file)
		}
		if !first.MatchString(read(t, file)) {
			t.Errorf("%s does not start with \"Change: …\", \"Feature: …\" or \"Fix: …\", an empty line and a text", file)
		}
	})
}

// Which mirrors and registries a machine uses is the machine's own business, and
// so is where a checkout lies.
func TestFiles_nameNoMachine(t *testing.T) {
	checkout, err := filepath.Abs(top)
	if err != nil {
		t.Fatal(err)
	}
	hosts := regexp.MustCompile(`\b(deb|security|ftp|httpredir|snapshot)(\.[a-z]{2})?\.debian\.org\b|\bproxy\.golang\.org\b|\bregistry\.npmjs\.org\b`)
	files(t, func(name string) {
		text := read(t, name)
		if host := hosts.FindString(text); host != "" && name != "test/repo/docs_test.go" {
			t.Errorf("%s names %s", name, host)
		}
		if strings.Contains(text, checkout+"/") {
			t.Errorf("%s names the checkout, %s", name, checkout)
		}
	})
}
