package repo

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

// repository is how files outside docs link to a page, as alerts do.
const repository = "https://github.com/tlspu/keel/blob/main/"

// documents calls f for every Markdown page that people read.
func documents(t *testing.T, f func(name, text string)) {
	t.Helper()
	files(t, func(name string) {
		if path.Ext(name) == ".md" && !under(name, "test/fixtures") && !strings.Contains(name, "/testdata/") {
			f(name, read(t, name))
		}
	})
}

// prose returns the text of a page with an empty line for each line of a code
// block, so that lines keep their numbers.
func prose(text string) string {
	lines := strings.Split(text, "\n")
	fence := ""
	for i, line := range lines {
		mark := strings.TrimLeft(line, " ")
		switch {
		case fence != "":
			if strings.HasPrefix(mark, fence) && strings.Trim(mark, fence[:1]+" ") == "" {
				fence = ""
			}
			lines[i] = ""
		case strings.HasPrefix(mark, "```") || strings.HasPrefix(mark, "~~~"):
			fence = mark[:len(mark)-len(strings.TrimLeft(mark, mark[:1]))]
			lines[i] = ""
		}
	}
	return strings.Join(lines, "\n")
}

// codeSpan is inline code.
var codeSpan = regexp.MustCompile("``[^\n]*?``|`[^`\n]*`")

// anchors lists what GitHub makes of the headings of a page, and the anchors
// that the page sets itself.
func anchors(text string) map[string]bool {
	set := map[string]bool{}
	heading := regexp.MustCompile(`^ {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$`)
	link := regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	own := regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	for line := range strings.SplitSeq(prose(text), "\n") {
		for _, m := range own.FindAllStringSubmatch(line, -1) {
			set[m[1]] = true
		}
		m := heading.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		slug := slug(link.ReplaceAllString(m[1], "$1"))
		for name, n := slug, 1; ; n++ {
			if !set[name] {
				set[name] = true
				break
			}
			name = fmt.Sprintf("%s-%d", slug, n)
		}
	}
	return set
}

// slug is a heading in lower case with dashes for spaces, without what is no
// letter, digit, dash or underscore.
func slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsMark(r), unicode.IsNumber(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// badLinks lists the links of a page that lead nowhere. exists tells whether the
// repository has a file or directory, page gives the text of one.
func badLinks(name, text string, exists func(string) bool, page func(string) string) (bad []string) {
	link := regexp.MustCompile(`\]\(<?([^)\s>]+)>?(?:[ \t]+"[^"]*")?\)|(?m:^ {0,3}\[[^\]]+\]:[ \t]+(\S+))`)
	absolute := regexp.MustCompile(`^[a-z][a-z+.-]*:`)
	for _, m := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(prose(text), "code"), -1) {
		target := m[1] + m[2]
		file, anchor, hasAnchor := strings.Cut(target, "#")
		switch rest, ours := strings.CutPrefix(file, repository); {
		case ours:
			file = rest
		case absolute.MatchString(target):
			continue
		case file == "":
			file = name
		default:
			file = path.Join(path.Dir(name), file)
		}
		switch {
		case !exists(file):
			bad = append(bad, target+": there is no such file")
		case !hasAnchor || path.Ext(file) != ".md":
		case !anchors(page(file))[anchor]:
			bad = append(bad, target+": "+file+" has no heading with that anchor")
		}
	}
	return bad
}

// Every link of every page leads to a file of the repository, and its anchor to
// a heading of that file.
func TestDocuments_linksLeadSomewhere(t *testing.T) {
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(top, name))
		return err == nil
	}
	documents(t, func(name, text string) {
		for _, bad := range badLinks(name, text, exists, func(file string) string { return read(t, file) }) {
			t.Errorf("%s links to %s", name, bad)
		}
	})
}

// Links to pages that stand in other files, such as the runbooks of alerts and
// comments of manifests, lead somewhere, too.
func TestFiles_linksToPagesLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(regexp.QuoteMeta(repository) + `([\w./-]+)(?:#([\w-]+))?|\b(docs/[\w/-]+\.md)\b`)
	files(t, func(name string) {
		if ext := path.Ext(name); ext != ".go" && ext != ".yaml" && ext != ".sh" || under(name, "test/repo") {
			return
		}
		for _, m := range link.FindAllStringSubmatch(read(t, name), -1) {
			file := strings.TrimSuffix(m[1]+m[3], ".")
			if _, err := os.Stat(filepath.Join(top, file)); err != nil {
				t.Errorf("%s names %s, which is not there", name, file)
			} else if m[2] != "" && !anchors(read(t, file))[m[2]] {
				t.Errorf("%s links to %s#%s, which is not a heading there", name, file, m[2])
			}
		}
	})
}

func TestAnchors(t *testing.T) {
	text := strings.Join([]string{
		"# The image", "## `--status` and [links](x.md)", "## Again", "## Again", "### Don't, ever: a_b (c)", "## Über 1.5 MiB ##",
		"```sh", "# a comment", "```", "<a id=\"own\"></a>", "#no-heading",
	}, "\n")
	want := map[string]bool{
		"the-image": true, "--status-and-links": true, "again": true, "again-1": true, "dont-ever-a_b-c": true, "über-15-mib": true, "own": true,
	}
	if diff := cmp.Diff(want, anchors(text)); diff != "" {
		t.Errorf("anchors (-want +got):\n%s", diff)
	}
}

func TestBadLinks(t *testing.T) {
	pages := map[string]string{
		"docs/a.md": "# A\n[up](../README.md) [own](#a) [other](b.md#b) [web](https://example.com/#x)\n" +
			"`[code](gone.md)`\n```\n[block](gone.md)\n```\n[ref]: b.md\n[old](b.md#a \"title\") [gone](gone.md) [none](#none) [run](" + repository + "docs/b.md#c)\n",
		"docs/b.md": "# B\n",
		"README.md": "",
	}
	exists := func(name string) bool { _, ok := pages[name]; return ok }
	got := badLinks("docs/a.md", pages["docs/a.md"], exists, func(name string) string { return pages[name] })
	want := []string{
		"b.md#a: docs/b.md has no heading with that anchor",
		"gone.md: there is no such file",
		"#none: docs/a.md has no heading with that anchor",
		repository + "docs/b.md#c: docs/b.md has no heading with that anchor",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bad links (-want +got):\n%s", diff)
	}
}
