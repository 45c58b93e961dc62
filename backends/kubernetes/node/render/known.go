package render

import (
	"errors"
	"text/template/parse"

	"github.com/tlspu/keel/backends/kubernetes/node/facts"
)

// place is where a node leads below the data, or nil where that is not certain:
// what a variable holds, or a template is given, is not followed.
func (c *compiler) place(n parse.Node) []string {
	var base, names []string
	switch n := n.(type) {
	case *parse.DotNode:
		return c.dot
	case *parse.FieldNode:
		base, names = c.dot, n.Ident
	case *parse.VariableNode:
		if n.Ident[0] == "$" && c.tree == c.trees[mainName] {
			base, names = []string{}, n.Ident[1:]
		}
	}
	if base == nil {
		return nil
	}
	return append(append([]string{}, base...), names...)
}

// pipePlace is where a pipeline leads that is a path and nothing else.
func (c *compiler) pipePlace(p *parse.PipeNode) []string {
	if len(p.Cmds) != 1 || len(p.Cmds[0].Args) != 1 {
		return nil
	}
	return c.place(p.Cmds[0].Args[0])
}

// below walks a list in which the dot is at place.
func (c *compiler) below(place []string, l *parse.ListNode) (cost int) {
	before := c.dot
	c.dot = place
	defer func() { c.dot = before }()
	return c.list(l)
}

// checkIndex checks what index names with texts alone.
func (c *compiler) checkIndex(cmd *parse.CommandNode) {
	name, ok := cmd.Args[0].(*parse.IdentifierNode)
	if !ok || name.Ident != "index" || len(cmd.Args) < 3 || !allText(cmd.Args[2:]) {
		return
	}
	place := c.place(cmd.Args[1])
	if place == nil {
		return
	}
	for _, key := range cmd.Args[2:] {
		place = append(place, key.(*parse.StringNode).Text)
	}
	c.check(cmd, place)
}

// check fails at a node that leads to what no node of a cluster has.
func (c *compiler) check(n parse.Node, place []string) {
	if c.knows == nil || place == nil {
		return
	}
	if err := c.knows(place); err != nil {
		c.fail(n, "%v", err)
	}
}

// knows says why nothing is at a path, whatever node it is. What only a node can
// tell may be there.
func (d *root) knows(path []string) error {
	var at any = d
	for _, name := range path {
		in, ok := at.(parts)
		if _, leaf := at.(*object); leaf || !ok {
			return nil
		}
		found, err := in.part(name)
		if missing := (*facts.Missing)(nil); errors.As(err, &missing) {
			return nil
		}
		if err != nil {
			return err
		}
		at = found
	}
	return nil
}
