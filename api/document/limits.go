package document

import (
	"bytes"
	"fmt"

	"gopkg.in/yaml.v3"
)

const (
	// maxMarks bounds what the YAML parser builds: each value takes some 200 bytes
	// there, so a text of 16 MiB costs no more than ten times its size.
	maxMarks = 1 << 18
	// maxDepth is how deep lists and mappings may lie in each other.
	maxDepth = 64
	// maxExpanded is how many values a document may have once each alias is
	// replaced by what it stands for.
	maxExpanded = 100_000
)

// checkSize refuses a text before it is parsed when it may hold more values than
// maxMarks. It counts the characters that begin or end a value, inside quotes and
// blocks too: telling those apart is the parser's work.
func checkSize(text []byte) error {
	if len(text) <= maxMarks {
		return nil
	}
	marks := 0
	for i, c := range text {
		switch c {
		case ',', '[', '{':
			marks++
		case ':', '-', '?', '#':
			if i+1 == len(text) || bytes.IndexByte([]byte(" \t\r\n,[]{}\"'"), text[i+1]) >= 0 || i > 0 && (text[i-1] == '"' || text[i-1] == '\'') {
				marks++
			}
		}
	}
	if marks > maxMarks {
		return fmt.Errorf("holds up to %d keys and values, at most %d are read; split it into several files", marks, maxMarks)
	}
	return nil
}

// A measure counts the values of one document with its aliases replaced, and
// replaces none of them.
type measure struct {
	sizes map[*yaml.Node]int // of what aliases stand for; 0 while it is counted
}

// check says where a document is too deep, too large with its aliases, or contains
// itself.
func (m *measure) check(n *yaml.Node) error {
	_, err := m.size(n, 0)
	return err
}

func (m *measure) size(n *yaml.Node, depth int) (int, error) {
	if depth > maxDepth {
		return 0, fmt.Errorf("line %d: lists and mappings are nested deeper than %d levels", n.Line, maxDepth)
	}
	if n.Kind == yaml.AliasNode {
		return m.alias(n, depth)
	}
	sum := 1
	for _, c := range n.Content {
		size, err := m.size(c, depth+1)
		if err != nil {
			return 0, err
		}
		if sum += size; sum > maxExpanded {
			return 0, fmt.Errorf("line %d: holds more than %d values once its aliases are replaced; write fewer aliases", c.Line, maxExpanded)
		}
	}
	return sum, nil
}

func (m *measure) alias(n *yaml.Node, depth int) (int, error) {
	size, known := m.sizes[n.Alias]
	switch {
	case known && size == 0:
		return 0, fmt.Errorf("line %d: an alias stands for something that contains the alias itself", n.Line)
	case known:
		return size, nil
	}
	m.sizes[n.Alias] = 0
	size, err := m.size(n.Alias, depth)
	m.sizes[n.Alias] = size
	return size, err
}
