package appliance

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/tlspu/keel/core/drift"
)

const (
	interfacesFile = "/etc/network/interfaces"
	// maxSources is how deep files of interfaces(5) may name each other, and
	// maxSourced how many there may be: a file that names itself ends there.
	maxSources = 8
	maxSourced = 256
)

// A statement is one of interfaces(5) with the options below it.
type statement struct {
	words   []string   // "iface eth0 inet static"
	options [][]string // "address 192.0.2.1/24"
	source  string     // the file, as operators know it
}

// interfaces reads interfaces(5) with every file that it names, each where it
// is named. A file that is not there holds nothing; one that cannot be read may
// hold anything, so that nothing is known.
func (m machine) interfaces() ([]statement, *drift.Unknown) {
	r := interfacesReader{m: m}
	if problem := r.file(interfacesFile, 0); problem != nil {
		return nil, problem
	}
	return r.statements, nil
}

type interfacesReader struct {
	m          machine
	files      int
	statements []statement
}

func (r *interfacesReader) file(name string, depth int) *drift.Unknown {
	file := r.m.file(name)
	switch {
	case file.absent():
		return nil
	case !file.ok():
		return file.problem
	}
	if r.files++; depth > maxSources || r.files > maxSourced {
		return &drift.Unknown{Kind: drift.Malformed, Reason: file.source + " is named by too many files: one names itself"}
	}
	for _, s := range parseInterfaces(file.text) {
		s.source = file.source
		if s.words[0] != "source" && s.words[0] != "source-directory" {
			r.statements = append(r.statements, s)
			continue
		}
		for _, pattern := range s.words[1:] {
			if problem := r.follow(s, path.Dir(name), pattern, depth); problem != nil {
				return problem
			}
		}
	}
	return nil
}

// follow reads the files that one word of a source statement names.
func (r *interfacesReader) follow(s statement, dir, pattern string, depth int) *drift.Unknown {
	if strings.ContainsAny(pattern, "$`~\"'\\{}|&;<>()") {
		return &drift.Unknown{Kind: drift.Unsupported, Reason: fmt.Sprintf("%s names %q, which only a shell can expand", s.source, pattern)}
	}
	if !path.IsAbs(pattern) {
		pattern = path.Join(dir, pattern)
	}
	names, problem := r.m.glob(pattern)
	if problem != nil {
		return problem
	}
	if s.words[0] == "source-directory" {
		folders := names
		names = nil
		for _, folder := range folders {
			below, problem := r.m.list(folder)
			if problem != nil {
				return problem
			}
			for _, name := range below {
				if runParts(name) {
					names = append(names, path.Join(folder, name))
				}
			}
		}
	}
	for _, name := range names {
		if info, err := r.m.files.Stat(name); err == nil && info.IsDir() {
			continue // as ifupdown does
		}
		if problem := r.file(name, depth+1); problem != nil {
			return problem
		}
	}
	return nil
}

// runParts reports whether source-directory reads a file of that name.
func runParts(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// parseInterfaces takes one file apart. As ifupdown does it: comments are whole
// lines, a backslash joins two lines, blanks at the start mean nothing, and what
// starts with no word that opens a statement is an option of the one before.
func parseInterfaces(text string) []statement {
	var found []statement
	for _, line := range joined(text) {
		if opens(line[0]) {
			found = append(found, statement{words: line})
		} else if n := len(found); n > 0 {
			found[n-1].options = append(found[n-1].options, line)
		}
	}
	return found
}

// joined returns the words of each logical line that is not blank.
func joined(text string) [][]string {
	var all [][]string
	logical := ""
	end := func() {
		if found := words(logical); len(found) > 0 {
			all = append(all, found)
		}
		logical = ""
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if strings.HasPrefix(strings.Trim(line, blanks), "#") {
			continue
		}
		more, continued := strings.CutSuffix(line, `\`)
		logical += more
		if !continued {
			end()
		}
	}
	end()
	return all
}

func opens(word string) bool {
	switch word {
	case "iface", "mapping", "auto", "source", "source-directory", "rename", "template", "no-auto-down", "no-scripts":
		return true
	}
	return strings.HasPrefix(word, "allow-")
}

// list returns the names in a folder, sorted; none when it is not there.
func (m machine) list(folder string) ([]string, *drift.Unknown) {
	names, err := m.files.List(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, problem(m.shown(folder), err)
	}
	return names, nil
}

// glob returns the paths that match, sorted, as a shell expands a word: a
// pattern does not match a dot at the start of a name, and a word without
// special characters is itself.
func (m machine) glob(pattern string) ([]string, *drift.Unknown) {
	found := []string{"/"}
	for part := range strings.SplitSeq(strings.Trim(path.Clean(pattern), "/"), "/") {
		var next []string
		for _, folder := range found {
			if !strings.ContainsAny(part, "*?[") {
				next = append(next, path.Join(folder, part))
				continue
			}
			names, problem := m.list(folder)
			if problem != nil {
				return nil, problem
			}
			for _, name := range names {
				ok, err := path.Match(part, name)
				if err != nil {
					return nil, &drift.Unknown{Kind: drift.Malformed, Reason: fmt.Sprintf("%s: bad pattern %q", m.shown(folder), part)}
				}
				if ok && (name[0] != '.' || part[0] == '.') {
					next = append(next, path.Join(folder, name))
				}
			}
		}
		found = next
	}
	return found, nil
}
