// Package document takes what an operator wrote apart into its documents: a
// stream of YAML documents, or JSON.
package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Nodes returns the documents of text in order, each a DocumentNode with one node
// of content; one that holds nothing but comments has a null. JSON is read as the YAML that it
// nearly is. An error means that text is not YAML in UTF-8 from its beginning to
// its end: nothing is returned then, because what follows the mistake cannot be
// told from what is missing.
func Nodes(text []byte) ([]*yaml.Node, error) {
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return nil, errors.New("is UTF-16, not UTF-8")
	}
	var nodes []*yaml.Node
	for dec := yaml.NewDecoder(bytes.NewReader(plainJSON(text))); ; {
		var top yaml.Node
		switch err := dec.Decode(&top); {
		case errors.Is(err, io.EOF):
			return nodes, nil
		case err != nil:
			return nil, fmt.Errorf("not valid YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
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
