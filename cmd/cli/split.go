package cli

import (
	"bytes"
	"fmt"
	"strconv"

	"gopkg.in/yaml.v3"

	yamldoc "github.com/tlspu/keel/api/document"
	"github.com/tlspu/keel/core/plugin"
)

// split takes a file apart into its documents: YAML, a stream of it, or JSON. A
// file in which anything is broken gives none: half of it may be missing. The
// documents name their source as it can be printed.
func split(source string, data []byte) ([]document, error) {
	source = plugin.Printable(source)
	nodes, err := yamldoc.Nodes(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	docs := make([]document, len(nodes))
	starts := make([]int, len(nodes)) // line on which each document starts, empty ones included
	for i, n := range nodes {
		docs[i], starts[i] = sniff(n), n.Line
		docs[i].doc.Tree = n
	}
	if len(docs) == 1 {
		docs[0].doc.Source, docs[0].doc.Data = source, data
		if docs[0].empty {
			docs = nil
		}
	}
	if len(docs) > 1 {
		docs = slice(docs, starts, source, data)
	}
	if len(docs) == 0 {
		return nil, fmt.Errorf("%s: file is empty", source)
	}
	return docs, nil
}

// maxPadding is how many line ends may stand for what precedes documents in
// their file, all of its documents together: their number grows with the square
// of the documents'.
const maxPadding = 32 << 20

// slice gives each document its part of the file and drops empty ones. The
// numbers in the sources count what is there, as a person does.
func slice(docs []document, starts []int, source string, data []byte) []document {
	offsets := lineOffsets(data)
	filled := 0
	for _, d := range docs {
		if !d.empty {
			filled++
		}
	}
	var kept []document
	padding := 0
	for i, d := range docs {
		if d.empty {
			continue
		}
		end := len(data)
		if i+1 < len(docs) {
			end = offsets[starts[i+1]-1]
		}
		d.doc.Source = source
		if filled > 1 {
			d.doc.Source = fmt.Sprintf("%s document %d", source, len(kept)+1)
		}
		above := starts[i] - 1
		if padding += above; padding > maxPadding {
			d.doc.Source += fmt.Sprintf(", from line %d", starts[i])
			above = 0
		}
		part := data[offsets[starts[i]-1]:end]
		d.doc.Data = append(bytes.Repeat([]byte("\n"), above), part...)
		kept = append(kept, d)
	}
	return kept
}

// lineOffsets is where each line starts, as the parser counts them: CR ends one,
// too.
func lineOffsets(data []byte) []int {
	offsets := []int{0}
	for i, c := range data {
		if c == '\n' || c == '\r' && (i+1 == len(data) || data[i+1] != '\n') {
			offsets = append(offsets, i+1)
		}
	}
	return offsets
}

// sniff reads which kind of document one is. A mapping without a kind and
// with version 1 is an Instance.
func sniff(doc *yaml.Node) document {
	if yamldoc.Empty(doc) {
		return document{empty: true}
	}
	n := doc.Content[0]
	if n.Kind != yaml.MappingNode {
		return document{err: fmt.Errorf("line %d: top level must be a mapping", n.Line), code: exitUnreadable}
	}
	version := false
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch key.Value {
		case "kind":
			if value.Kind != yaml.ScalarNode || value.Tag != "!!str" || value.Value == "" {
				return document{err: fmt.Errorf("line %d: kind: must be a name", value.Line), code: exitInvalid}
			}
			return document{kind: value.Value}
		case "version":
			number, err := strconv.ParseInt(value.Value, 0, 64)
			version = value.Tag == "!!int" && err == nil && number == 1
		}
	}
	if version {
		return document{kind: instanceKind}
	}
	return document{err: fmt.Errorf("line %d: names no kind", n.Line), code: exitInvalid, noKind: true}
}
