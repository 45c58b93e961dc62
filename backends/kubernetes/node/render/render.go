// Package render fills the templates in the values of a NodeConfig. They are Go's
// text/template, made safe to let a cluster's users write: what has no value is an
// error and never "<no value>", every function fails loudly, and neither time nor
// memory has no bound.
package render

import (
	"fmt"
	"strings"
	"text/template"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/node/facts"
)

const (
	// MaxOutput is the size of the longest value that is made, in bytes: of what
	// is rendered, and of every text on the way.
	MaxOutput = 1 << 20
	// maxSource is the size of the longest template.
	maxSource = 1 << 20
	// maxActions is how many actions, "{{", a template may hold.
	maxActions = 10_000
	// maxSteps is how many actions the templates of a NodeConfig may run.
	maxSteps = 200_000
	// maxWork is how many bytes their functions may take and give.
	maxWork = 32 << 20
)

// Data is what the templates of a NodeConfig may use.
type Data struct {
	Facts               facts.Facts
	ConfigMaps, Secrets []Object
}

// An Object is a ConfigMap or a Secret that the NodeConfig names.
type Object struct {
	As     string // its name in templates
	Title  string // its name in messages: "Secret kube-system/db"
	Absent bool   // it is optional and not there
	Values map[string]string
}

// A Run renders the values of one NodeConfig, which share the limits. Where there
// are Secrets an error shows position and function, and nothing that was in a
// value.
type Run struct {
	data        Data
	callable    template.FuncMap
	steps, work int
	secret      bool
}

// New begins to render the values of a NodeConfig.
func New(d Data) *Run {
	r := &Run{data: d}
	r.callable = r.functions()
	return r
}

// Value renders a value; one that is no template is returned as it is. secret says
// that it was made from a Secret.
func (r *Run) Value(value string) (text string, secret bool, err error) {
	if !v1alpha1.IsTemplate(value) {
		return value, false, nil
	}
	r.secret = false
	text, err = r.run(value)
	if err != nil {
		return "", r.secret, explain(err, len(r.data.Secrets) > 0)
	}
	return text, r.secret, nil
}

func (r *Run) run(value string) (string, error) {
	set, err := compile(value, r.callable, nil)
	if err != nil {
		return "", err
	}
	if err := r.step(set.cost); err != nil {
		return "", err
	}
	t := template.New(mainName).Option("missingkey=error").Funcs(r.callable).Funcs(r.hooks())
	for name, tree := range set.trees {
		if _, err := t.AddParseTree(name, tree); err != nil {
			return "", err
		}
	}
	w := &writer{run: r}
	if err := t.Execute(w, &root{r}); err != nil {
		return "", err
	}
	return w.text.String(), nil
}

// Check says what is wrong with a template on every node, before anything is
// known: it cannot be parsed, uses a function that there is not, or names what no
// node has, which is a group or a fact that there is not, or a ConfigMap or Secret
// that is not among those of d, whose names are all that counts of it. With Secrets
// the error shows nothing of a value.
func Check(value string, d Data) error {
	if !v1alpha1.IsTemplate(value) {
		return nil
	}
	r := New(d)
	if _, err := compile(value, r.callable, (&root{r}).knows); err != nil {
		return explain(err, len(d.Secrets) > 0)
	}
	return nil
}

// step counts actions that are run.
func (r *Run) step(n int) error {
	if r.steps = add(r.steps, n); r.steps > maxSteps {
		return &problem{text: fmt.Sprintf("the templates of this NodeConfig run more than %d actions", maxSteps), safe: true}
	}
	return nil
}

// spend counts bytes that are handled.
func (r *Run) spend(n int) error {
	if r.work = add(r.work, n); r.work > maxWork {
		return &problem{text: fmt.Sprintf("the templates of this NodeConfig handle more than %d MiB", maxWork>>20), safe: true}
	}
	return nil
}

// add is a sum of two numbers that are not negative, or the largest number.
func add(a, b int) int { return a + min(b, maxInt-a) }

// times is their product, or the largest number.
func times(a, b int) int {
	if a > 0 && b > maxInt/a {
		return maxInt
	}
	return a * b
}

const maxInt = int(^uint(0) >> 1)

// A writer takes what a template writes, and refuses more than a value may hold.
type writer struct {
	run  *Run
	text strings.Builder
}

func (w *writer) Write(p []byte) (int, error) {
	if w.text.Len()+len(p) > MaxOutput {
		return 0, tooLong("")
	}
	if err := w.run.spend(len(p)); err != nil {
		return 0, err
	}
	return w.text.Write(p)
}

func tooLong(function string) error {
	return &problem{function: function, text: fmt.Sprintf("gives more than %d MiB", MaxOutput>>20), safe: true}
}
