package document

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// checkBreaks refuses the line ends that only YAML 1.1 knows: the parser would
// replace them without a word.
func checkBreaks(text []byte) error {
	if !bytes.Contains(text, []byte("\u0085")) && !bytes.Contains(text, []byte("\u2028")) && !bytes.Contains(text, []byte("\u2029")) {
		return nil
	}
	line := 1
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch r {
		case '\n':
			line++
		case '\u0085', '\u2028', '\u2029':
			return fmt.Errorf(`line %d: holds %U, which YAML reads as the end of a line; write "\u%04x" in double quotes, or use contentBase64`, line, r, r)
		}
		text = text[size:]
	}
	return nil
}

// checkBlocks refuses a block of several lines that end in CR, in the lines that
// text has: YAML reads each as LF.
func checkBlocks(lines []string, n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode && n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		for i := n.Line; i < min(n.Line+strings.Count(n.Value, "\n"), len(lines)); i++ {
			if strings.Contains(lines[i], "\r") {
				return fmt.Errorf("line %d: the line of a block ends in CR, which YAML reads as LF; save the file with LF, or use contentBase64", i+1)
			}
		}
	}
	for _, c := range n.Content {
		if err := checkBlocks(lines, c); err != nil {
			return err
		}
	}
	return nil
}

var (
	unknownAnchor = regexp.MustCompile(`unknown anchor '[\s\S]*' referenced$`)
	errorLine     = regexp.MustCompile(`^line (\d+): `)
)

// explain is an error of the YAML parser in words that help, and without anything
// of the text: that may be a Secret's.
func explain(err error, text []byte) error {
	said := strings.TrimPrefix(err.Error(), "yaml: ")
	said = unknownAnchor.ReplaceAllString(said, "an alias (*) names no anchor; put a value that begins with * in quotes")
	if found := errorLine.FindStringSubmatch(said); found != nil && strings.HasSuffix(said, "found character that cannot start any token") {
		number, _ := strconv.Atoi(found[1]) // digits, as the expression says
		lines := bytes.Split(text, []byte("\n"))
		for at := max(number-1, 0); at < min(number+2, len(lines)); at++ { // the parser's number may be one off
			before := lines[at][:len(lines[at])-len(bytes.TrimLeft(lines[at], " \t"))]
			if bytes.Contains(before, []byte("\t")) {
				return fmt.Errorf("not valid YAML: line %d: a tab, indent with spaces", at+1)
			}
		}
	}
	return fmt.Errorf("not valid YAML: %s", said)
}
