package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/tlspu/keel/core/plugin"
)

// split takes a file apart into its documents: YAML, a stream of it, or JSON. A
// file in which anything is broken gives none: half of it may be missing.
func split(source string, data []byte) ([]document, error) {
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return nil, fmt.Errorf("%s: is UTF-16, not UTF-8", source)
	}
	data = plainJSON(data)
	var docs []document
	var starts []int // line on which each document starts, empty ones included
	for dec := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var node yaml.Node
		err := dec.Decode(&node)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: not valid YAML: %s", source, strings.TrimPrefix(err.Error(), "yaml: "))
		}
		starts = append(starts, node.Line)
		docs = append(docs, sniff(node.Content[0]))
	}
	if len(docs) == 1 {
		docs[0].doc = plugin.Doc{Source: source, Data: data}
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

// lineOffsets is where each line starts, with the line ends that YAML 1.1 knows:
// the parser counts them all.
func lineOffsets(data []byte) []int {
	offsets := []int{0}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		i += size
		switch r {
		case '\r':
			if i < len(data) && data[i] == '\n' {
				continue
			}
		case '\n', '\u0085', '\u2028', '\u2029':
		default:
			continue
		}
		offsets = append(offsets, i)
	}
	return offsets
}

// sniff reads which kind of document a node is. A mapping without a kind and
// with version 1 is an Instance.
func sniff(n *yaml.Node) document {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return document{empty: true}
	}
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

// plainJSON replaces, in a JSON text, the two escapes that YAML parsers do not
// know: \/ and pairs of surrogates. Line ends stay where they are. Anything else
// than JSON is returned as it is.
func plainJSON(data []byte) []byte {
	text := bytes.TrimLeft(data, " \t\r\n")
	if len(text) == 0 || text[0] != '{' && text[0] != '[' || !bytes.ContainsRune(data, '\\') || !json.Valid(data) {
		return data
	}
	plain := make([]byte, 0, len(data))
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			plain = append(plain, data[i])
			continue
		}
		i++ // valid JSON: something follows
		if data[i] == '/' {
			plain = append(plain, '/')
			continue
		}
		if r := utf16.DecodeRune(escape(data[i-1:]), escape(data[min(i+5, len(data)):])); r != utf8.RuneError {
			plain = utf8.AppendRune(plain, r)
			i += len(`uXXXX\uXXXX`) - 1
			continue
		}
		plain = append(plain, '\\', data[i])
	}
	return plain
}

// escape is the rune of a \uXXXX at the start of text, or 0.
func escape(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(n)
}
