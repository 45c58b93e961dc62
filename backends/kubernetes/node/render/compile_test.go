package render

import (
	"strings"
	"testing"
	"text/template/parse"
)

// The kinds of nodes are those of this Go; another one must not be run unseen.
func TestCompile_refusesWhatItDoesNotKnow(t *testing.T) {
	tree := parse.New(mainName)
	if _, err := tree.Parse("{{ 1 }}", "", "", map[string]*parse.Tree{}); err != nil {
		t.Fatal(err)
	}
	stranger := parse.NewIdentifier("x")
	for name, walk := range map[string]func(c *compiler){
		"in a list":    func(c *compiler) { c.node(stranger) },
		"a command":    func(c *compiler) { c.command(&parse.CommandNode{Args: []parse.Node{&parse.TextNode{}}}, false) },
		"an argument":  func(c *compiler) { c.arg(&parse.TextNode{}) },
		"below a dot":  func(c *compiler) { c.path(&parse.ChainNode{Node: &parse.TextNode{}, Field: []string{"A"}}) },
		"a whole list": func(c *compiler) { c.arg(&parse.ListNode{}) },
	} {
		t.Run(name, func(t *testing.T) {
			c := &compiler{trees: map[string]*parse.Tree{}, costs: map[string]int{}, tree: tree}
			walk(c)
			if c.err == nil || !strings.Contains(c.err.Error(), "is not known here") {
				t.Errorf("error %v", c.err)
			}
		})
	}
}

// Every place in the language is hooked: nothing is looked up, written or repeated
// but through the hooks.
func TestCompile_hooksEveryPlace(t *testing.T) {
	const template = `{{ define "d" }}{{ .A }}{{ end }}{{ .A.B }}{{ $x := .A }}{{ $x.B }}{{ $x = .C }}{{ (index .A 0).B }}{{ if .A }}{{ .B }}{{ else if $x.D }}{{ else }}{{ .E }}{{ end }}` +
		`{{ with .A }}{{ .B }}{{ else with .C }}{{ .D }}{{ end }}{{ range $i, $e := .A }}{{ $e.F }}{{ else }}{{ .G }}{{ end }}{{ template "d" .A }}{{ print .A (print .B) | print $.C }}{{ block "b" .A }}{{ .B }}{{ end }}`
	set, err := compile(template, New(Data{}).callable, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, tree := range set.trees {
		text := tree.Root.String()
		for _, bare := range []string{"{{.", " .A", " .B", " .C", "$x.", "$e.", "$.", ").", "|.", "(."} {
			if strings.Contains(text, bare) {
				t.Errorf("template %s still holds %q: %s", name, bare, text)
			}
		}
	}
	text := set.trees[mainName].Root.String()
	if got := strings.Count(text, rangeHook); got != strings.Count(template, "range") {
		t.Errorf("%d of the ranges are hooked: %s", got, text)
	}
}
