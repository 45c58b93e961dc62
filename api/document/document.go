// Package document takes what an operator wrote apart into its documents: a
// stream of YAML documents, or JSON.
package document

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Nodes returns the documents of text in order, each a DocumentNode with one node
// of content; one that holds nothing but comments has a null. A document that
// begins with { or [ and is JSON is read as JSON, exactly. The number, the depth
// and the aliases of values are limited before anything is expanded. An error
// means that text is not YAML in UTF-8 from its beginning to its end, or not
// within these limits: nothing is returned then, because what follows the error
// cannot be told from what is missing. An error shows nothing of text.
func Nodes(text []byte) ([]*yaml.Node, error) {
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return nil, errors.New("is UTF-16, not UTF-8")
	}
	text = plainJSON(text)
	if err := errors.Join(checkSize(text), checkBreaks(text)); err != nil {
		return nil, err
	}
	var lines []string
	if bytes.ContainsRune(text, '\r') {
		lines = strings.Split(string(text), "\n")
	}
	var nodes []*yaml.Node
	for dec := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var top yaml.Node
		switch err := dec.Decode(&top); {
		case errors.Is(err, io.EOF):
			return nodes, nil
		case err != nil:
			return nil, explain(err, text)
		}
		if err := (&measure{sizes: map[*yaml.Node]int{}}).check(&top); err != nil {
			return nil, err
		}
		if err := checkBlocks(lines, &top); lines != nil && err != nil {
			return nil, err
		}
		nodes = append(nodes, &top)
	}
}

// Filled returns the documents of Nodes that hold something.
func Filled(nodes []*yaml.Node) []*yaml.Node {
	return slices.DeleteFunc(slices.Clone(nodes), Empty)
}

// Empty reports that a document of Nodes holds nothing.
func Empty(doc *yaml.Node) bool {
	n := doc.Content[0]
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}
