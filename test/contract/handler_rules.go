package contract

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/handler"
)

var (
	handlerName = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
	paramName   = regexp.MustCompile(`^[a-z][A-Za-z0-9]*$`)
	paramKind   = regexp.MustCompile(`^(string|text|bool|int|duration|mode|path|user|list|enum:[^|]+(\|[^|]+)+)$`)
	claim       = regexp.MustCompile(`^[a-z]+:.+$`)
)

func (s *handlers) name(t *testing.T) {
	h := s.make(t)
	if !handlerName.MatchString(h.Name()) {
		t.Errorf("the name %q is not lower-case words", h.Name())
	}
	if again := s.make(t).Name(); again != h.Name() {
		t.Errorf("the name is %q and then %q", h.Name(), again)
	}
	if len(s.Good) == 0 || len(s.Bad) == 0 {
		t.Error("the suite needs good and bad cases")
	}
}

func (s *handlers) params(t *testing.T) {
	known := map[string]bool{}
	for _, p := range s.make(t).Params() {
		if !paramName.MatchString(p.Name) || known[p.Name] {
			t.Errorf("param %q is taken or no name", p.Name)
		}
		known[p.Name] = true
		if !paramKind.MatchString(p.Kind) {
			t.Errorf("param %s is of no known kind: %q", p.Name, p.Kind)
		}
		if p.Help == "" || strings.Contains(p.Help, "\n") {
			t.Errorf("param %s needs help of one line, got %q", p.Name, p.Help)
		}
		if p.Required && p.Default != "" {
			t.Errorf("param %s is required and has a default", p.Name)
		}
		values, enum := strings.CutPrefix(p.Kind, "enum:")
		if enum && p.Default != "" && !slices.Contains(strings.Split(values, "|"), p.Default) {
			t.Errorf("param %s has the default %q, which is none of %s", p.Name, p.Default, values)
		}
		if !slices.ContainsFunc(s.Good, func(g Good) bool { _, used := g.Params[p.Name]; return used }) {
			t.Errorf("param %s is used by no good case", p.Name)
		}
	}
	for _, g := range s.Good {
		for key := range g.Params {
			if !known[key] {
				t.Errorf("case %q uses %q, which Params does not describe", g.Name, key)
			}
		}
	}
	for _, b := range s.Bad {
		if !known[b.Key] {
			t.Errorf("case %q is about %q, which Params does not describe", b.Name, b.Key)
		}
	}
}

// Table is the table of parameters of a handler's page, so that the page and the
// code cannot tell different things.
func Table(params []handler.Param) string {
	var b strings.Builder
	b.WriteString("| parameter | kind | default | meaning |\n|---|---|---|---|\n")
	for _, p := range params {
		kind, value := p.Kind, ""
		if values, ok := strings.CutPrefix(kind, "enum:"); ok {
			kind = "`" + strings.ReplaceAll(values, "|", "`, `") + "`"
		}
		switch {
		case p.Required:
			value = "required"
		case p.Default != "":
			value = "`" + p.Default + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", p.Name, kind, value, strings.ReplaceAll(p.Help, "|", `\|`))
	}
	return b.String()
}

func (s *handlers) documented(t *testing.T) {
	page, err := os.ReadFile(s.Doc)
	if err != nil {
		t.Fatal(err)
	}
	h := s.make(t)
	if table := Table(h.Params()); !strings.Contains(string(page), table) {
		t.Errorf("%s does not hold the table of %s, which is printed below, to be pasted", s.Doc, h.Name())
		_, _ = fmt.Fprintf(os.Stdout, "\n%s\n", table) // t.Errorf would indent it
	}
}

func (s *handlers) required(t *testing.T) {
	h := s.make(t)
	for _, p := range h.Params() {
		for _, g := range s.Good {
			params := maps.Clone(g.Params)
			delete(params, p.Name)
			if err := h.Validate(params); p.Required && (err == nil || !names(err, p.Name)) {
				t.Errorf("%s without %s: got error %v, want one that names it", g.Name, p.Name, err)
			}
		}
	}
}

func (s *handlers) bad(t *testing.T) {
	for _, b := range s.Bad {
		t.Run(b.Name, func(t *testing.T) {
			m := s.prepare(t, Good{Params: b.Params})
			before := Snapshot(t, m.outer)
			if err := m.handler.Validate(b.Params); err == nil || !names(err, b.Key) {
				t.Errorf("Validate: got error %v, want one that names %s", err, b.Key)
			}
			if changed, err := m.ensure(t.Context(), t); changed || err == nil || !names(err, b.Key) {
				t.Errorf("Ensure: got %v, %v, want false and an error that names %s", changed, err, b.Key)
			}
			if _, _, err := m.observe(t.Context(), t); err == nil || !names(err, b.Key) {
				t.Errorf("Observe: got error %v, want one that names %s", err, b.Key)
			}
			m.handler.Claims(b.Params) // must not panic
			if n := m.run.asked(); n > 0 {
				t.Errorf("%d commands were run for it", n)
			}
			before.Unchanged(t, m.outer, "a bad param")
		})
	}
}

// names reports whether the error holds the key as a word of its own.
func names(err error, key string) bool {
	return regexp.MustCompile(`(^|[^A-Za-z0-9])` + regexp.QuoteMeta(key) + `($|[^A-Za-z0-9])`).MatchString(err.Error())
}

func (s *handlers) valid(t *testing.T, g Good) {
	h := s.make(t)
	if err := h.Validate(g.Params); err != nil {
		t.Errorf("Validate: %v", err)
	}
	params := maps.Clone(g.Params)
	params["noSuchKey"] = "x"
	if err := h.Validate(params); err != nil {
		t.Errorf("with an extra key, of which others warn: %v", err)
	}
	for key := range g.Params {
		params := maps.Clone(g.Params)
		params[key] = "{{ .Unrendered }}"
		if err := h.Validate(params); err != nil {
			t.Errorf("with %s not rendered yet: %v", key, err)
		}
	}
}

func (s *handlers) twice(t *testing.T, g Good) {
	m := s.prepare(t, g)
	for i, want := range []bool{!g.Met, false} {
		changed, err := m.ensure(t.Context(), t)
		if err != nil || changed != want {
			t.Fatalf("call %d: got %v, %v, want %v", i+1, changed, err, want)
		}
	}
	before := Snapshot(t, m.outer)
	if _, err := m.ensure(t.Context(), t); err != nil {
		t.Fatal(err)
	}
	before.Unchanged(t, m.outer, "Ensure that says unchanged")
	if !maps.Equal(m.params, g.Params) {
		t.Errorf("Ensure wrote to the params it was given: %v, want %v", m.params, g.Params)
	}
}

func (s *handlers) same(t *testing.T, g Good) {
	m := s.prepare(t, g)
	ctx := t.Context()
	if met := allSame(ctx, t, m); met != g.Met {
		t.Errorf("before Ensure all is the same: %v, want %v", met, g.Met)
	}
	if _, err := m.ensure(ctx, t); err != nil {
		t.Fatal(err)
	}
	if !allSame(ctx, t, m) {
		declared, observed, _ := m.observe(ctx, t)
		t.Errorf("after Ensure not all is the same:\ndeclared %v\nobserved %v", declared, observed)
	}
}

func allSame(ctx context.Context, t testing.TB, m machine) bool {
	t.Helper()
	declared, observed, err := m.observe(ctx, t)
	if err != nil {
		t.Fatalf("observe: %v", err)
	}
	if len(declared) == 0 {
		t.Error("nothing is declared")
	}
	return !slices.ContainsFunc(drift.Compare(declared, observed), func(f drift.Finding) bool {
		return f.Verdict != drift.Same && f.Verdict != drift.NotCompared
	})
}

func (s *handlers) claims(t *testing.T, g Good) {
	m := s.prepare(t, g)
	claims := m.handler.Claims(m.params)
	if len(claims) == 0 {
		t.Error("it claims nothing")
	}
	if again := m.handler.Claims(m.params); !slices.Equal(again, claims) {
		t.Errorf("the claims are %q and then %q", claims, again)
	}
	owned := slices.Clone(s.May)
	for _, c := range claims {
		if !claim.MatchString(c) {
			t.Errorf("the claim %q has not the form kind:name", c)
		}
		if path, ok := strings.CutPrefix(c, "path:"); ok {
			owned = append(owned, path, follow(t, m.root, path))
		}
	}
	before := Snapshot(t, m.outer)
	if _, err := m.ensure(t.Context(), t); err != nil {
		t.Fatal(err)
	}
	for _, path := range before.Changed(Snapshot(t, m.outer)) {
		path, inside := strings.CutPrefix(path, "/machine")
		if !inside {
			t.Errorf("outside of root: %s changed", path)
		} else if !slices.ContainsFunc(owned, func(o string) bool { return covers(o, path) }) {
			t.Errorf("%s changed and is claimed by none of %q", path, claims)
		}
	}
}

// covers reports whether path may change for the owner of claimed: the claimed
// path, what lies below it, and the folders that lead to it.
func covers(claimed, path string) bool {
	return path == "" || path == claimed ||
		strings.HasPrefix(path, claimed+"/") || strings.HasPrefix(claimed, path+"/")
}

// follow resolves a path inside root; what is not there resolves to itself.
func follow(t testing.TB, root, path string) string {
	t.Helper()
	if resolved, err := View(t, root).Resolve(path); err == nil {
		return resolved
	}
	return path
}

func (s *handlers) target(t *testing.T, g Good, ensured bool) {
	m := s.prepare(t, g)
	if ensured {
		if _, err := m.ensure(t.Context(), t); err != nil {
			t.Fatal(err)
		}
	}
	Target(t, Targets{
		Root: m.root,
		Run:  m.run.next,
		New: func(t testing.TB, run command.Runner) []drift.Target {
			return []drift.Target{Machine(t, m.root, run).Target(handler.Spec{ID: "sample", Handler: s.make(t), Params: m.params})}
		},
	})
}

func (s *handlers) cancelled(t *testing.T, g Good) {
	m := s.prepare(t, g)
	before := Snapshot(t, m.outer)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	within(t, "Ensure", func() {
		changed, err := m.ensure(ctx, t)
		if changed || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, %v, want false and the context's error", changed, err)
		}
	})
	before.Unchanged(t, m.outer, "a cancelled Ensure")
	for n := 1; ; n++ {
		m := s.prepare(t, g)
		ctx, cancel := context.WithCancel(t.Context())
		m.run.at, m.run.fail = n, func(c command.Cmd) error { cancel(); return ctx.Err() }
		within(t, fmt.Sprintf("Ensure cancelled in command %d", n), func() {
			if _, err := m.ensure(ctx, t); m.run.hit() && err == nil {
				t.Errorf("cancelled in command %d: no error", n)
			}
		})
		cancel()
		if !m.run.hit() {
			return
		}
	}
}

var errInjected = errors.New("the command did not run")

// failing lets each command of an Ensure fail in turn.
func (s *handlers) failing(t *testing.T, g Good) {
	for n := 1; ; n++ {
		m := s.prepare(t, g)
		ctx := t.Context()
		_, was, _ := m.observe(ctx, t)
		before := Snapshot(t, m.root)
		m.run.at, m.run.fail = m.run.asked()+n, func(command.Cmd) error { return errInjected }
		changed, err := m.ensure(ctx, t)
		if !m.run.hit() {
			return
		}
		if err == nil {
			t.Errorf("command %d failed and Ensure did not", n)
		}
		_, is, _ := m.observe(ctx, t)
		truth := len(before.Changed(Snapshot(t, m.root))) > 0 || fmt.Sprint(was) != fmt.Sprint(is)
		if changed != truth {
			t.Errorf("command %d failed: changed is %v, want %v", n, changed, truth)
		}
		if _, err := m.ensure(ctx, t); err != nil || !allSame(ctx, t, m) {
			t.Errorf("after command %d failed once, Ensure does not mend: %v", n, err)
		}
	}
}

// unasked lets each query of an Observe fail in turn: a verdict may become
// unknown by that, never another one.
func (s *handlers) unasked(t *testing.T, g Good) {
	for n := 1; ; n++ {
		m := s.prepare(t, g)
		ctx := t.Context()
		declared, observed, err := m.observe(ctx, t)
		if err != nil {
			t.Fatal(err)
		}
		want := drift.Compare(declared, observed)
		m.run.at, m.run.fail = m.run.asked()+n, func(command.Cmd) error { return errInjected }
		declared, observed, err = m.observe(ctx, t)
		if !m.run.hit() {
			return
		}
		if err != nil {
			continue
		}
		for i, f := range drift.Compare(declared, observed) {
			if f.Verdict != drift.NotRead && (i >= len(want) || f.Verdict != want[i].Verdict) {
				t.Errorf("query %d failed and %v is %q", n, f.Path, f.Verdict)
			}
		}
	}
}

func (s *handlers) secret(t *testing.T, g Good) {
	m := s.prepare(t, g)
	m.sensitive = true
	ctx := t.Context()
	var said []string
	for range 2 {
		declared, observed, err := m.observe(ctx, t)
		said = append(said, fmt.Sprintf("%v %+v %#v %v", declared, observed, observed, err))
		target := Machine(t, m.root, m.run).Target(handler.Spec{ID: "sample", Handler: m.handler, Params: m.params, Sensitive: true})
		said = append(said, fmt.Sprintf("%+v", drift.Ensure(ctx, target, drift.Options{DryRun: true})))
		_, err = m.ensure(ctx, t)
		said = append(said, fmt.Sprint(err))
	}
	for _, p := range m.handler.Params() {
		text := strings.TrimSpace(m.params[p.Name])
		if p.Kind != "text" || len(text) < 4 {
			continue
		}
		for _, s := range said {
			if strings.Contains(s, text) {
				t.Errorf("the value of %s shows in: %s", p.Name, s)
			}
		}
	}
}
