package render

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
)

// mainName is the name of the template that is the value itself.
const mainName = "value"

// Names of the functions that compile puts into a template and none may call.
const (
	fieldHook = "field" // what .A.B means
	emitHook  = "emit"  // before anything is written
	rangeHook = "each"  // before anything is repeated
)

// A set is a value's template, and those that it defines.
type set struct {
	trees map[string]*parse.Tree
	cost  int // of one run, what is repeated not counted
}

// compile parses a template and puts hooks into it:
//
//	{{ .A.B }}       becomes  {{ field . "A" "B" | emit }}
//	{{ range .A }}   becomes  {{ range field . "A" | each N }}
//
// so that no value is looked up, written or repeated but by code of ours. N is how
// many actions one round runs. knows, unless it is nil, says why there is nothing at
// a path below the data, wherever a template names one for certain.
func compile(text string, functions template.FuncMap, knows func(path []string) error) (set, error) {
	switch {
	case len(text) > maxSource:
		return set{}, &problem{text: fmt.Sprintf("the template is longer than %d MiB", maxSource>>20), safe: true}
	case strings.Count(text, "{{") > maxActions:
		return set{}, &problem{text: fmt.Sprintf("the template has more than %d actions", maxActions), safe: true}
	}
	known := map[string]any{"and": true, "or": true, "not": true} // as they are in Go
	for name, f := range functions {
		known[name] = f
	}
	trees, err := parse.Parse(mainName, text, "", "", known)
	if err != nil {
		return set{}, err
	}
	c := compiler{trees: trees, costs: map[string]int{}, knows: knows, dot: []string{}}
	cost := c.template(trees[mainName], mainName)
	for _, name := range slices.Sorted(maps.Keys(trees)) {
		c.template(trees[name], name)
	}
	return set{trees, cost}, c.err
}

// A compiler walks the templates of a value. costs are those of templates that
// were walked; unfinished marks the ones around the present place.
type compiler struct {
	trees map[string]*parse.Tree
	costs map[string]int
	tree  *parse.Tree
	err   error // the first
	knows func(path []string) error
	dot   []string // where the dot is below the data; nil where that is not certain
}

const unfinished = -1

// fail notes what is wrong at a node.
func (c *compiler) fail(n parse.Node, format string, args ...any) {
	if c.err == nil {
		where, _ := c.tree.ErrorContext(n)
		c.err = fmt.Errorf("template: %s: %w", where, &problem{text: fmt.Sprintf(format, args...), safe: true})
	}
}

// template walks one template once and gives its cost.
func (c *compiler) template(tree *parse.Tree, name string) int {
	if cost, known := c.costs[name]; known {
		return cost
	}
	before, dot := c.tree, c.dot
	c.costs[name], c.tree = unfinished, tree
	if name != mainName {
		c.dot = nil // it is what the caller gives
	}
	c.costs[name] = c.list(tree.Root)
	c.tree, c.dot = before, dot
	return c.costs[name]
}

func (c *compiler) list(l *parse.ListNode) (cost int) {
	if l == nil {
		return 0
	}
	for _, n := range l.Nodes {
		cost = add(cost, c.node(n))
	}
	return cost
}

func (c *compiler) node(n parse.Node) (cost int) {
	switch n := n.(type) {
	case *parse.ActionNode:
		cost = c.pipe(n.Pipe)
		if len(n.Pipe.Decl) == 0 {
			n.Pipe.Cmds = append(n.Pipe.Cmds, call(n.Pos, emitHook))
		}
	case *parse.IfNode:
		cost = add(c.pipe(n.Pipe), add(c.list(n.List), c.list(n.ElseList)))
	case *parse.WithNode:
		inner := c.pipePlace(n.Pipe)
		cost = add(c.pipe(n.Pipe), add(c.below(inner, n.List), c.list(n.ElseList)))
	case *parse.RangeNode:
		cost = add(c.pipe(n.Pipe), c.list(n.ElseList))
		round := int64(add(1, c.below(nil, n.List)))
		n.Pipe.Cmds = append(n.Pipe.Cmds, call(n.Pos, rangeHook,
			&parse.NumberNode{NodeType: parse.NodeNumber, Pos: n.Pos, IsInt: true, Int64: round, Text: strconv.FormatInt(round, 10)}))
	case *parse.TemplateNode:
		cost = c.pipe(n.Pipe)
		called, ok := c.trees[n.Name]
		if !ok {
			c.fail(n, "there is no template %q", n.Name)
			return 0
		}
		inner := c.template(called, n.Name)
		if inner == unfinished {
			c.fail(n, "template %q calls itself", n.Name)
			return 0
		}
		cost = add(cost, inner)
	case *parse.TextNode, *parse.CommentNode, *parse.BreakNode, *parse.ContinueNode:
	default:
		c.fail(n, "%s is not known here", n)
	}
	return add(cost, 1)
}

// pipe walks a pipeline; nil is none.
func (c *compiler) pipe(p *parse.PipeNode) (cost int) {
	if p == nil {
		return 0
	}
	for i, cmd := range p.Cmds {
		cost = add(cost, c.command(cmd, i > 0))
	}
	return cost
}

// command walks a command; piped says that it is given a value.
func (c *compiler) command(cmd *parse.CommandNode, piped bool) (cost int) {
	first := cmd.Args[0]
	c.checkIndex(cmd)
	for i, arg := range cmd.Args[1:] {
		n, argCost := c.arg(arg)
		cmd.Args[i+1], cost = n, add(cost, argCost)
	}
	switch n := first.(type) {
	case *parse.FieldNode, *parse.VariableNode, *parse.ChainNode:
		path, pathCost := c.path(n)
		cost = add(cost, pathCost)
		if path != nil && (piped || len(cmd.Args) > 1) {
			c.fail(n, "%s is a value and takes nothing", n)
		}
		if path != nil {
			cmd.Args = path
		}
	case *parse.PipeNode:
		cost = add(cost, c.pipe(n))
	case *parse.IdentifierNode:
		if n.Ident == "index" && !piped && len(cmd.Args) > 2 && allText(cmd.Args[2:]) {
			cmd.Args[0] = parse.NewIdentifier(fieldHook).SetPos(n.Pos) // its error may name the key
		}
	default:
		c.path(n) // there is none, but the kind of the node is looked at
	}
	return add(cost, len(cmd.Args))
}

func allText(nodes []parse.Node) bool {
	for _, n := range nodes {
		if _, ok := n.(*parse.StringNode); !ok {
			return false
		}
	}
	return true
}

// arg walks an argument and gives what stands in its place.
func (c *compiler) arg(n parse.Node) (parse.Node, int) {
	if p, ok := n.(*parse.PipeNode); ok {
		return n, c.pipe(p)
	}
	path, cost := c.path(n)
	if path == nil {
		return n, cost
	}
	pos := n.Position()
	cmd := &parse.CommandNode{NodeType: parse.NodeCommand, Pos: pos, Args: path}
	return &parse.PipeNode{NodeType: parse.NodePipe, Pos: pos, Cmds: []*parse.CommandNode{cmd}}, add(cost, len(path))
}

// path gives the call that looks up .A.B, $x.A or (…).A, or nil for anything else.
func (c *compiler) path(n parse.Node) (args []parse.Node, cost int) {
	var base parse.Node
	var names []string
	pos := n.Position()
	c.check(n, c.place(n))
	switch n := n.(type) {
	case *parse.FieldNode:
		base, names = &parse.DotNode{NodeType: parse.NodeDot, Pos: pos}, n.Ident
	case *parse.VariableNode:
		base, names = &parse.VariableNode{NodeType: parse.NodeVariable, Pos: pos, Ident: n.Ident[:1]}, n.Ident[1:]
	case *parse.ChainNode:
		base, cost = c.arg(n.Node)
		names = n.Field
	case *parse.DotNode, *parse.NilNode, *parse.BoolNode, *parse.NumberNode, *parse.StringNode, *parse.IdentifierNode:
	default:
		c.fail(n, "%s is not known here", n)
	}
	if len(names) == 0 {
		return nil, cost
	}
	args = []parse.Node{parse.NewIdentifier(fieldHook).SetPos(pos), base}
	for _, name := range names {
		args = append(args, &parse.StringNode{NodeType: parse.NodeString, Pos: pos, Quoted: strconv.Quote(name), Text: name})
	}
	return args, cost
}

// call is the command that calls a hook.
func call(pos parse.Pos, hook string, args ...parse.Node) *parse.CommandNode {
	return &parse.CommandNode{NodeType: parse.NodeCommand, Pos: pos,
		Args: append([]parse.Node{parse.NewIdentifier(hook).SetPos(pos)}, args...)}
}
