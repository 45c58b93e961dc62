package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"
	"github.com/tlspu/keel/core/plugin"
	"github.com/tlspu/keel/core/restart"
	"github.com/tlspu/keel/test/contract"
	"github.com/tlspu/keel/test/nodetest"
)

func TestAgent_dryRunWritesNothing(t *testing.T) {
	w := newAgentWorld(t)
	w.settings.DryRun, w.settings.Once = true, true
	w.write(t, "a.yaml", strings.Replace(nodetest.Doc("a", "one"), "spec: {", "spec: {services: [a.service], ", 1))
	orphan := filepath.Join(w.Env.Root, nodeconfig.JournalDir, "gone.json")
	if err := os.MkdirAll(filepath.Dir(orphan), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(orphan, []byte(`{"phase":"ensuring","units":{"b.service":""}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	root, state := contract.Snapshot(t, w.Env.Root), contract.Snapshot(t, filepath.Dir(w.settings.ConfigDir))
	if err := w.run(t); err != nil {
		t.Error(err)
	}
	root.Unchanged(t, w.Env.Root, "a dry run")
	state.Unchanged(t, filepath.Dir(w.settings.ConfigDir), "a dry run")
	w.Restarts(t)
	want := "would change restart/gone\n  would restart b.service\n" +
		"would change a\n  would note that a.service may need a restart\n  would ensure path:/etc/a (value)\n" +
		"  would note what must be restarted\n  would restart a.service\n"
	if diff := cmp.Diff(want, w.out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestRole_once(t *testing.T) {
	for _, tt := range []struct {
		name    string
		arrange func(w *agentWorld)
		out     string
		code    int
	}{
		{"in order", func(w *agentWorld) {
			w.write(t, "b.yaml", nodetest.Doc("b", "one"))
			w.write(t, "a.yaml", nodetest.Doc("a", "one"))
		},
			"changed   a\nchanged   b\n", 0},
		{"nothing to do", func(w *agentWorld) { w.write(t, "a.yaml", nodetest.Doc("a", "one")); w.keep("a", "one") },
			"unchanged a\n", 0},
		{"suspended", func(w *agentWorld) {
			w.write(t, "a.yaml", strings.Replace(nodetest.Doc("a", "one"), "spec: {", "spec: {suspend: true, ", 1))
		}, "unchanged a: suspended\n", 0},
		{"invalid", func(w *agentWorld) {
			w.write(t, "a.yaml", nodetest.Doc("a", "one"))
			w.write(t, "b.yaml", strings.Replace(nodetest.Doc("b", "one"), "path: /", "path: ", 1))
		}, "changed   a\nerror     b: DIR/b.yaml: params.path: must be absolute\n", 3},
		{"invalid and without a name", func(w *agentWorld) { w.write(t, "b.yaml", "kind: Pod\n") },
			"error     DIR/b.yaml: line 1: kind: must be NodeConfig, ConfigMap or Secret, not \"Pod\"\n", 3},
		{"a name twice", func(w *agentWorld) {
			w.write(t, "a.yaml", nodetest.Doc("a", "one"))
			w.write(t, "b.yaml", nodetest.Doc("a", "two"))
		},
			"error     a: DIR/a.yaml: metadata.name: a is the name in DIR/b.yaml too, so none of them is kept: rename or remove one\n", 3},
		{"unreadable", func(w *agentWorld) { w.write(t, "a.yaml", nodetest.Doc("a", "one")); w.write(t, "b.yaml", "a: [") },
			"changed   a\nerror     DIR/b.yaml: not valid YAML: line 1: did not find expected node content\n", 2},
		{"failed", func(w *agentWorld) {
			w.write(t, "a.yaml", nodetest.Doc("a", "one"))
			*w.Handler.Fail = errors.New("disk\non fire")
		},
			"error     a: ensure path:/etc/a (value): disk; on fire\n", 16},
		{"all of it", func(w *agentWorld) {
			w.write(t, "a.yaml", nodetest.Doc("a", "one"))
			w.write(t, "b.yaml", "a: [")
			w.write(t, "c.yaml", strings.Replace(nodetest.Doc("c", "one"), "path: /", "path: ", 1))
			*w.Handler.Fail = errors.New("disk on fire")
		}, "error     a: ensure path:/etc/a (value): disk on fire\nerror     c: DIR/c.yaml: params.path: must be absolute\n" +
			"error     DIR/b.yaml: not valid YAML: line 1: did not find expected node content\n", 2},
		{"no directory", func(w *agentWorld) { w.settings.ConfigDir = "/nowhere" }, "", 2},
		{"no machine", func(w *agentWorld) { w.Env.Root = "/nowhere" }, "", 2},
		{"a short interval", func(w *agentWorld) { w.settings.DefaultInterval = time.Second }, "", 3},
		{"one directory for both", func(w *agentWorld) { w.settings.StateDir = w.settings.ConfigDir }, "", 3},
		{"this machine, and not root", func(w *agentWorld) { w.Env.Root, w.Env.UID = "/", 1000 }, "", 15},
		{"this machine through a link, and not root", func(w *agentWorld) {
			link := filepath.Join(t.TempDir(), "link")
			if err := os.Symlink("/", link); err != nil {
				t.Fatal(err)
			}
			w.Env.Root, w.Env.UID = link, 1000
		}, "", 15},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newAgentWorld(t)
			w.settings.Once = true
			dir := w.settings.ConfigDir
			tt.arrange(w)
			err := w.run(t)
			code := 0
			if exit := (*plugin.Exit)(nil); errors.As(err, &exit) {
				code = exit.Code
			} else if err != nil {
				t.Error(err)
			}
			if code != tt.code {
				t.Errorf("exit %d (%v), want %d", code, err, tt.code)
			}
			if diff := cmp.Diff(tt.out, strings.ReplaceAll(w.out.String(), dir, "DIR")); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// Output that is lost keeps nothing from its run; the program says so at its end.
func TestRole_onceWithoutOutput(t *testing.T) {
	w := newAgentWorld(t)
	w.settings.Once, w.Env.Out = true, full{}
	w.write(t, "a.yaml", nodetest.Doc("a", "one"))
	w.write(t, "b.yaml", nodetest.Doc("b", "one"))
	if err := w.run(t); err != nil {
		t.Error(err)
	}
	if w.content(t, "a") != "one" || w.content(t, "b") != "one" {
		t.Error("not everything was visited")
	}
}

// keep puts a value where the NodeConfig of a name wants it.
func (w *agentWorld) keep(name, value string) {
	_ = os.MkdirAll(filepath.Join(w.Env.Root, "etc"), 0o755)
	_ = os.WriteFile(filepath.Join(w.Env.Root, "etc", name), []byte(value), 0o644)
}

// A signal lets the step that runs come to its end; the next agent does the rest.
func TestAgent_signalLetsAStepFinish(t *testing.T) {
	w := newAgentWorld(t)
	w.Env.Now = time.Now
	w.write(t, "a.yaml", strings.Replace(nodetest.Doc("a", "one"), "spec: {", "spec: {services: [a.service], ", 1))
	ctx, cancel := context.WithCancel(t.Context())
	*w.Handler.Hold = cancel
	if err := Role().Run(ctx, w.Env, &w.settings); err != nil {
		t.Fatal(err)
	}
	if got := w.content(t, "a"); got != "one" {
		t.Errorf("content %q", got)
	}
	w.Restarts(t)
	if got := w.states(t); len(got) != 0 {
		t.Errorf("a visit that was called off wrote %v", got)
	}
	if log := w.log.String(); strings.Contains(log, "failed") || !strings.Contains(log, "agent ended") {
		t.Errorf("log:\n%s", log)
	}
	m, err := nodeconfig.OpenMachine(w.Env)
	if err != nil {
		t.Fatal(err)
	}
	rec, open, err := restart.NewFile(m.Tree, nodeconfig.JournalDir+"/a.json").Load(t.Context())
	if err != nil || !open || rec.Phase != restart.Ensuring {
		t.Errorf("journal %+v, open %v, %v", rec, open, err)
	}
	*w.Handler.Hold = nil
	w.settings.Once = true
	if err := w.run(t); err != nil {
		t.Fatal(err)
	}
	w.Restarts(t, "daemon-reload", "restart a.service")
}

func TestAgent_dryRunLogsTheSteps(t *testing.T) {
	w := newAgentWorld(t)
	w.settings.DryRun = true
	w.write(t, "a.yaml", nodetest.Doc("a", "one"))
	w.pass(t)
	for _, want := range []string{`msg="run would change the machine" target=a `, `msg="run would take a step" target=a `, `step="ensure path:/etc/a (value)"`} {
		if !strings.Contains(w.log.String(), want) {
			t.Errorf("the log does not hold %s:\n%s", want, w.log.String())
		}
	}
}

// A single pass that is interrupted says what became of every NodeConfig.
func TestRole_onceInterrupted(t *testing.T) {
	for _, tt := range []struct{ name, services, want string }{
		{"in its only step", "", "changed   a\nnot begun b\nnot begun c\n"},
		{"between its steps", "services: [a.service], ",
			"error     a: note what must be restarted: not begun: context canceled\nnot begun b\nnot begun c\n"},
	} {
		w := newAgentWorld(t)
		w.settings.Once = true
		for _, name := range []string{"a", "b", "c"} {
			w.write(t, name+".yaml", strings.Replace(nodetest.Doc(name, "one"), "spec: {", "spec: {"+tt.services, 1))
		}
		ctx, cancel := context.WithCancel(t.Context())
		*w.Handler.Hold = cancel
		if err := Role().Run(ctx, w.Env, &w.settings); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v", tt.name, err)
		}
		if diff := cmp.Diff(tt.want, w.out.String()); diff != "" {
			t.Errorf("%s: output (-want +got):\n%s", tt.name, diff)
		}
		if w.content(t, "a") != "one" || w.content(t, "b") != "" {
			t.Errorf("%s: a holds %q, b %q", tt.name, w.content(t, "a"), w.content(t, "b"))
		}
	}
}

// A sign for all namespaces would be looked up as a name, and nothing be found.
func TestSettings_sourceNamespaces(t *testing.T) {
	for _, tt := range []struct {
		name  string
		space string
		want  string
	}{
		{"a name", "keel-system", ""},
		{"a sign for all", "*", `source-namespaces: "*" is not a valid namespace: name each namespace, there is no wildcard`},
		{"nothing", "", `source-namespaces: "" is not a valid namespace: name each namespace, there is no wildcard`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := Role().Settings().(*settings)
			s.NodeName, s.SourceNamespaces = "n", []string{"default", tt.space}
			if got := nodeconfig.Text(s.complete()); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
