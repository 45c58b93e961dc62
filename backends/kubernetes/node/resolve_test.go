package node

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/plugin"
	fileplugin "github.com/tlspu/keel/plugins/file"
	"github.com/tlspu/keel/test/nodetest"
)

// factsFile writes the file of --facts.
func (w *agentWorld) factsFile(t *testing.T, content string) {
	t.Helper()
	if w.settings.Facts == "" {
		w.settings.Facts = filepath.Join(t.TempDir(), "facts.yaml")
	}
	if err := os.WriteFile(w.settings.Facts, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// osRelease writes a file of the machine.
func (w *agentWorld) osRelease(t *testing.T, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(w.Env.Root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.Env.Root, "etc/os-release"), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// with is a NodeConfig of type setting with more of a spec.
func with(name, value, spec string) string {
	return "---\napiVersion: keel.tlspu.io/v1alpha1\nkind: NodeConfig\nmetadata: {name: " + name + "}\nspec:\n  type: setting\n" +
		"  params: {path: /etc/" + name + ", value: '" + value + "'}\n" + spec
}

// fails insists on the error in a NodeConfig's status.
func (w *agentWorld) fails(t *testing.T, name, want string) {
	t.Helper()
	if s := w.status(t, name); s.LastResult != v1alpha1.Error || !strings.Contains(s.Message, want) {
		t.Errorf("status of %s: %+v, want an error with %q", name, s, want)
	}
}

func TestAgent_templates(t *testing.T) {
	w := newAgentWorld(t)
	w.osRelease(t, "ID=debian\n")
	w.factsFile(t, "node: {labels: {role: web, unit: a}}\n")
	w.write(t, "a.yaml", with("a", "{{ .OS.ID }} {{ .Node.Labels.role }}", "  services: ['{{ .Node.Labels.unit }}.service']\n  interval: 1h\n"))
	w.write(t, "b.yaml", with("b", "{{ .Node.Name }}", ""))
	w.write(t, "c.yaml", with("c", "one", ""))
	w.pass(t)
	if got := w.content(t, "a"); got != "debian web" {
		t.Errorf("content %q", got)
	}
	w.Restarts(t, "daemon-reload", "restart a.service")
	w.fails(t, "b", "spec.params.value: line 1, column 4: .Node.Name is not known: nobody gave it")
	if _, err := os.Stat(filepath.Join(w.Env.Root, "etc/b")); err == nil {
		t.Error("a file was written from a template with an error")
	}
	if w.content(t, "c") != "one" {
		t.Error("the others do not go on")
	}

	// Facts are collected anew; what was in order waits for its interval, what
	// failed is tried at once.
	w.factsFile(t, "node: {name: n1, labels: {role: db, unit: b}}\n")
	w.later(t, 5*time.Minute+poll)
	if w.content(t, "a") != "debian web" || w.content(t, "b") != "n1" {
		t.Errorf("after the facts changed: %q, %q", w.content(t, "a"), w.content(t, "b"))
	}
	w.later(t, time.Hour)
	if got := w.content(t, "a"); got != "debian db" {
		t.Errorf("after the interval: %q", got)
	}
	w.Restarts(t, "daemon-reload", "restart b.service")
}

// Without facts what is kept goes on being kept, with those of before.
func TestAgent_factsCannotBeCollected(t *testing.T) {
	w := newAgentWorld(t)
	w.factsFile(t, "node: {name: n1}\n")
	w.write(t, "a.yaml", with("a", "{{ .Node.Name }}", ""))
	w.pass(t)
	w.factsFile(t, "node: {nam: n2}\n")
	w.Edit(t, "x")
	if err := os.Remove(filepath.Join(w.Env.Root, "etc/a")); err != nil {
		t.Fatal(err)
	}
	w.later(t, time.Hour)
	if got := w.content(t, "a"); got != "n1" {
		t.Errorf("content %q", got)
	}
	if n := strings.Count(w.log.String(), "collecting facts failed"); n != 1 {
		t.Errorf("said %d times:\n%s", n, &w.log)
	}
	w.stop(t)
	if _, err := newAgent(t.Context(), w.Env, w.settings); err == nil || !strings.Contains(err.Error(), "line 1: node.nam: unknown key") {
		t.Errorf("a new agent starts with %v", err)
	}
}

func TestAgent_nodeSelector(t *testing.T) {
	w := newAgentWorld(t)
	w.factsFile(t, "node: {labels: {role: web}}\n")
	w.settings.FactsInterval = time.Minute
	w.write(t, "all.yaml", with("all", "one", "  nodeSelector: {}\n"))
	w.write(t, "web.yaml", with("web", "one", "  nodeSelector: {matchLabels: {role: web}}\n"))
	w.write(t, "db.yaml", with("db", "one", "  nodeSelector: {matchExpressions: [{key: role, operator: NotIn, values: [web]}]}\n"))
	w.write(t, "broken.yaml", with("broken", "{{ .Node.Name }}", "  nodeSelector: {matchLabels: {role: db}}\n"))
	w.pass(t)
	if w.content(t, "all") != "one" || w.content(t, "web") != "one" || w.content(t, "db") != "" {
		t.Errorf("kept: %q, %q, %q", w.content(t, "all"), w.content(t, "web"), w.content(t, "db"))
	}
	for _, name := range []string{"db", "broken"} {
		if s := w.status(t, name); s.LastResult != v1alpha1.Success || s.Message != "nodeSelector does not match this node" {
			t.Errorf("status of %s: %+v", name, s)
		}
	}
	w.factsFile(t, "node: {labels: {role: db}}\n")
	w.later(t, time.Minute+poll)
	if w.content(t, "db") != "one" || w.content(t, "web") != "one" {
		t.Error("another label selects nothing at once, or what was done is undone")
	}
	if s := w.status(t, "web"); s.Message != "nodeSelector does not match this node" {
		t.Errorf("status of web: %+v", s)
	}
	w.fails(t, "broken", ".Node.Name is not known")
}

// Who has no labels cannot say that a selector does not match.
func TestAgent_nodeSelectorWithoutLabels(t *testing.T) {
	w := newAgentWorld(t)
	w.write(t, "a.yaml", with("a", "one", "  nodeSelector: {matchLabels: {role: web}}\n"))
	w.pass(t)
	w.fails(t, "a", "spec.nodeSelector: .Node.Labels is not known: nobody gave it: write it into the file of --facts")
	if w.content(t, "a") != "" {
		t.Error("it was kept")
	}
}

// A NodeConfig that is not for this node owns nothing here, and the restarts that
// it owes are finished.
func TestAgent_excludedOwnsNothing(t *testing.T) {
	w := newAgentWorld(t)
	w.factsFile(t, "node: {labels: {role: web}}\n")
	both := func(name, role string) string {
		return strings.Replace(with(name, name, "  nodeSelector: {matchLabels: {role: "+role+"}}\n"), "path: /etc/"+name, "path: /etc/same", 1)
	}
	w.write(t, "a.yaml", both("a", "db"))
	w.write(t, "b.yaml", both("b", "web"))
	journal := filepath.Join(w.Env.Root, nodeconfig.JournalDir, "a.json")
	if err := os.MkdirAll(filepath.Dir(journal), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(journal, []byte(`{"phase":"restarting","units":{"b.service":"`+fmt.Sprintf("%032x", 1)+`"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	w.pass(t)
	if got := w.content(t, "same"); got != "b" {
		t.Errorf("content %q", got)
	}
	w.Restarts(t, "restart b.service")
}

// What a template names is claimed, also while another part of it fails.
func TestAgent_claimsOfTemplates(t *testing.T) {
	w := newAgentWorld(t)
	w.factsFile(t, "node: {name: n1}\n")
	w.write(t, "a.yaml", strings.Replace(with("a", "a", ""), "path: /etc/a", `path: "/etc/{{ .Node.Name }}"`, 1))
	w.write(t, "b.yaml", strings.Replace(with("b", "b", ""), "path: /etc/b", "path: /etc/n1", 1))
	w.write(t, "c.yaml", with("c", "{{ .Node.Hostname }}", ""))
	w.write(t, "d.yaml", strings.Replace(with("d", "d", ""), "path: /etc/d", "path: /etc/c", 1))
	w.pass(t)
	if got := w.content(t, "n1"); got != "a" {
		t.Errorf("content %q", got)
	}
	w.fails(t, "b", "path:/etc/n1 belongs to the older NodeConfig a")
	w.fails(t, "d", "path:/etc/c belongs to the older NodeConfig c")
}

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\ndata: {text: VALUE}\n"

func TestAgent_configMaps(t *testing.T) {
	w := newAgentWorld(t)
	w.settings.DefaultInterval = 24 * time.Hour
	w.write(t, "a.yaml", with("a", "<{{ .ConfigMaps.it.text }}>", "  configMaps: [{namespace: default, name: app, as: it}]\n"))
	w.write(t, "b.yaml", with("b", "{{ with .ConfigMaps.it }}{{ .text }}{{ else }}none{{ end }}", "  configMaps: [{namespace: default, name: app, as: it, optional: true}]\n"))
	w.write(t, "c.yaml", with("c", "one", ""))
	w.pass(t)
	w.fails(t, "a", "spec.configMaps[0]: ConfigMap default/app is not there")
	if w.content(t, "a") != "" || w.content(t, "b") != "none" {
		t.Errorf("before it is there: %q, %q", w.content(t, "a"), w.content(t, "b"))
	}
	w.looks()
	w.write(t, "data.yaml", strings.Replace(configMap, "VALUE", "x", 1))
	w.later(t, poll)
	if w.content(t, "a") != "<x>" || w.content(t, "b") != "x" {
		t.Errorf("it appeared: %q, %q", w.content(t, "a"), w.content(t, "b"))
	}
	if n := w.looks(); n > 6 {
		t.Errorf("%d looks: one that reads nothing was visited too", n)
	}
	digest := w.status(t, "a").TriggerDigest
	w.write(t, "data.yaml", strings.Replace(configMap, "VALUE", "two", 1))
	w.later(t, poll)
	if w.content(t, "a") != "<two>" || w.status(t, "a").TriggerDigest == digest {
		t.Errorf("it changed: %q, digest %s", w.content(t, "a"), digest)
	}

	// A mistake in it is no removal.
	w.write(t, "data.yaml", strings.Replace(configMap, "VALUE", "7", 1))
	w.later(t, poll)
	w.write(t, "data.yaml", "a: [")
	w.later(t, poll)
	w.write(t, "data.yaml", nodetest.Doc("d", "one")+"---\nkind: Pod\n")
	w.later(t, time.Hour)
	if s := w.status(t, "a"); w.content(t, "a") != "<two>" || s.LastResult != v1alpha1.Success {
		t.Errorf("with a mistake: %q, %+v", w.content(t, "a"), s)
	}
	if n := strings.Count(w.log.String(), "data.text: must be a string"); n != 1 {
		t.Errorf("the mistake was said %d times:\n%s", n, &w.log)
	}
	w.write(t, "data.yaml", strings.Replace(configMap, "VALUE", "three", 1))
	w.write(t, "again.yaml", strings.Replace(configMap, "VALUE", "three", 1))
	w.later(t, poll)
	w.fails(t, "a", "spec.configMaps[0]: ConfigMap default/app is in ")
	w.remove(t, "again.yaml")
	w.remove(t, "data.yaml")
	w.later(t, poll)
	w.fails(t, "a", "spec.configMaps[0]: ConfigMap default/app is not there")
	if w.content(t, "a") != "<two>" || w.content(t, "b") != "none" {
		t.Errorf("it is gone: %q, %q", w.content(t, "a"), w.content(t, "b"))
	}
}

func TestAgent_onceSaysWhatIsWrongWithData(t *testing.T) {
	w := newAgentWorld(t)
	w.settings.Once = true
	w.write(t, "a.yaml", nodetest.Doc("a", "one"))
	w.write(t, "b.yaml", strings.Replace(configMap, "VALUE", "8080", 1))
	err := w.run(t)
	want := "changed   a\nerror     " + filepath.Join(w.settings.ConfigDir, "b.yaml") + ": line 4: data.text: must be a string, write text: \"8080\"\n"
	if got := strings.ReplaceAll(w.out.String(), "error      ", "error     "); err == nil || !strings.HasSuffix(got, want[10:]) {
		t.Errorf("error %v, output:\n%s\nwant:\n%s", err, got, want)
	}
}

const pass = "hunter2-correct-horse"

// secretConfig keeps a file that holds a Secret.
const secretConfig = "apiVersion: keel.tlspu.io/v1alpha1\nkind: NodeConfig\nmetadata: {name: a}\nspec:\n  type: file\n" +
	"  params:\n    path: /etc/a\n    content: |\n      password={{ .Secrets.db.password }}\n" +
	"  secrets: [{namespace: default, name: db, as: db}]\n"

func secretDoc(value string) string {
	return "apiVersion: v1\nkind: Secret\nmetadata: {name: db, uid: u1, resourceVersion: '1'}\nstringData: {password: " + value + ", mode: '0600'}\n"
}

func TestAgent_secrets(t *testing.T) {
	w := newAgentWorld(t)
	w.Env.Handlers.Register("file", fileplugin.New())
	w.Env.Log = slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.settings.DefaultInterval = 24 * time.Hour
	w.osRelease(t, "ID=debian\n")
	w.write(t, "a.yaml", secretConfig)
	w.pass(t)
	w.fails(t, "a", "spec.secrets[0]: Secret default/db is not there")
	w.write(t, "db.yaml", secretDoc(pass))
	w.later(t, poll)
	if got := w.content(t, "a"); got != "password="+pass+"\n" {
		t.Errorf("content %q", got)
	}
	if info, err := os.Stat(filepath.Join(w.Env.Root, "etc/a")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}

	// Another value under the same version is seen, and the digest that is stored
	// does not tell.
	digest := w.status(t, "a").TriggerDigest
	w.write(t, "db.yaml", secretDoc(pass+"-2"))
	w.later(t, poll)
	if got := w.content(t, "a"); got != "password="+pass+"-2\n" {
		t.Errorf("content %q", got)
	}
	if got := w.status(t, "a").TriggerDigest; got != digest {
		t.Errorf("digest %s before, %s after: it depends on the value", digest, got)
	}
	w.write(t, "db.yaml", strings.Replace(secretDoc(pass+"-2"), "'1'", "'2'", 1))
	w.later(t, poll)
	if got := w.status(t, "a"); got.TriggerDigest != digest {
		// A digest alone is written with the next news, and the visit found none.
		t.Logf("status %+v", got)
	}

	// Errors of every kind.
	for _, spec := range []string{
		"    mode: '{{ .Secrets.db.password }}'\n", "    owner: '{{ .Secrets.db.password }}'\n", "    group: '{{ .Secrets.db.password }}'\n",
		"    link: '{{ .Secrets.db.password }}'\n", "    contentBase64: '{{ .Secrets.db.password }}'\n", "    x: '{{ b64dec .Secrets.db.password }}'\n",
		"    x: '{{ fail .Secrets.db.password }}'\n",
	} {
		w.write(t, "a.yaml", strings.Replace(secretConfig, "    path:", spec+"    path:", 1))
		w.later(t, poll)
		w.fails(t, "a", ":")
	}
	w.write(t, "a.yaml", strings.Replace(secretConfig, "path: /etc/a", "path: '/etc/{{ .Secrets.db.password }}'", 1))
	w.later(t, poll)
	w.fails(t, "a", "spec.params.path: must not come from a Secret: it is shown in plans and messages")
	w.write(t, "a.yaml", secretConfig+"  services: ['{{ .Secrets.db.password }}.service']\n")
	w.later(t, poll)
	w.fails(t, "a", "spec.services[0]: must not come from a Secret: names of units are shown")
	w.write(t, "db.yaml", strings.Replace(secretDoc(pass), "stringData: {password: ", "data: {password: ", 1))
	w.later(t, poll)
	w.fails(t, "a", "")
	w.grep(t)
}

// grep looks for the password in everything the agent wrote but the one file.
func (w *agentWorld) grep(t *testing.T) {
	t.Helper()
	said := map[string]string{"log": w.log.String(), "output": w.out.String()}
	err := filepath.Walk(filepath.Dir(w.settings.StateDir), func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		said[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for where, text := range said {
		if strings.Contains(text, "hunter2") {
			t.Errorf("%s holds the password:\n%s", where, text)
		}
	}
	if len(said) < 3 {
		t.Error("no status was written")
	}
}

// Nothing that the command line prints holds a Secret.
func TestTargets_secretsAreWithheld(t *testing.T) {
	w := newAgentWorld(t)
	w.Env.Handlers.Register("file", fileplugin.New())
	w.osRelease(t, "ID=debian\n")
	docs := []plugin.Doc{{Source: "a.yaml", Data: []byte(secretConfig)}, {Source: "db.yaml", Data: []byte(secretDoc(pass))}}
	var said []string
	for range 2 {
		list, err := nodeconfig.Kind().Targets(t.Context(), w.Env, docs)
		if err != nil || len(list) != 1 {
			t.Fatalf("%d targets, %v", len(list), err)
		}
		declared, observed, err := list[0].Observe(t.Context())
		said = append(said, fmt.Sprintf("%v %+v %#v %v", declared, observed, declared, err))
		said = append(said, fmt.Sprintf("%+v", drift.Check(t.Context(), list[0])))
		for _, o := range []drift.Options{{DryRun: true}, {}} {
			res := drift.Ensure(t.Context(), list[0].(drift.Planner), o)
			said = append(said, fmt.Sprintf("%+v", res))
			if res.Err != nil {
				t.Error(res.Err)
			}
		}
	}
	for _, err := range nodeconfig.Kind().Validate(t.Context(), w.Env, docs) {
		if err != nil {
			t.Error(err)
		}
	}
	for _, text := range said {
		if strings.Contains(text, pass) {
			t.Errorf("shows the password: %s", text)
		}
	}
	if got := w.content(t, "a"); got != "password="+pass+"\n" {
		t.Errorf("content %q", got)
	}
}

func TestValidate_withFacts(t *testing.T) {
	w := newAgentWorld(t)
	w.factsFile(t, "os: {id: debian}\n")
	docs := []plugin.Doc{
		{Source: "a.yaml", Data: []byte(with("a", "{{ .OS.ID }}", ""))},
		{Source: "b.yaml", Data: []byte(with("b", "{{ .Node.Name }}", ""))},
		{Source: "c.yaml", Data: []byte(with("c", "{{ .ConfigMaps.it.text }}", "  configMaps: [{namespace: default, name: app, as: it}]\n"))},
		{Source: "d.yaml", Data: []byte(configMap)},
		{Source: "e.yaml", Data: []byte(with("e", "{{ uper }}", ""))},
		{Source: "f.yaml", Data: []byte(strings.Replace(with("f", "x", ""), "path: /etc/f", "path: '{{ .OS.ID }}'", 1))},
		{Source: "g.yaml", Data: []byte(with("g", "x", "  services: ['{{ .OS.ID }} ']\n"))},
		{Source: "h.yaml", Data: []byte(strings.Replace(configMap, "VALUE", "7", 1))},
	}
	const uper = `spec.params.value: line 1: function "uper" not defined`
	for _, tt := range []struct {
		facts string
		want  []string
	}{
		{"", []string{"", "", "", "ConfigMap default/app is in d.yaml and in h.yaml: remove one", uper, "", "",
			"line 4: data.text: must be a string, write text: \"7\"\nConfigMap default/app is in d.yaml and in h.yaml: remove one"}},
		{w.settings.Facts, []string{"", "spec.params.value: line 1, column 4: .Node.Name is not known: nobody gave it: write it into the file of --facts",
			"spec.configMaps[0]: ConfigMap default/app is in d.yaml and in h.yaml: remove one", "ConfigMap default/app is in d.yaml and in h.yaml: remove one", uper,
			"params.path: must be absolute",
			`spec.services[0]: "debian " is not a valid systemd unit name: use letters, digits and @ . _ : \ and, but not first, -`,
			"line 4: data.text: must be a string, write text: \"7\"\nConfigMap default/app is in d.yaml and in h.yaml: remove one"}},
	} {
		w.Env.Facts = tt.facts
		for i, err := range nodeconfig.Kind().Validate(t.Context(), w.Env, docs) {
			if got := nodeconfig.Text(err); got != tt.want[i] {
				t.Errorf("facts %q, %s: %q, want %q", tt.facts, docs[i].Source, got, tt.want[i])
			}
		}
	}
	w.Env.Facts = filepath.Join(t.TempDir(), "none")
	if errs := nodeconfig.Kind().Validate(t.Context(), w.Env, docs[:1]); errs[0] == nil || !strings.Contains(errs[0].Error(), "no such file") {
		t.Errorf("without the file: %v", errs)
	}
}

// Bytes stay bytes: what is no text reaches the machine as it is.
func TestResolve_bytes(t *testing.T) {
	w := newAgentWorld(t)
	w.write(t, "a.yaml", with("a", "{{ .ConfigMaps.it.bin }}{{ .Secrets.s.bin }}", "  configMaps: [{namespace: default, name: app, as: it}]\n  secrets: [{namespace: x, name: s, as: s}]\n")+
		"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\nbinaryData: {bin: /wD+}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: x}\ndata: {bin: gP8=}\n")
	w.pass(t)
	if got := w.content(t, "a"); got != "\xff\x00\xfe\x80\xff" {
		t.Errorf("content %q, log:\n%s", got, &w.log)
	}
}

// Facts are those of the machine at the root's path, whichever lies there now.
func TestAgent_factsOfAnotherRoot(t *testing.T) {
	w := newAgentWorld(t)
	w.osRelease(t, "ID=debian\n")
	w.write(t, "a.yaml", with("a", "{{ .OS.ID }}", ""))
	w.pass(t)
	if err := os.Rename(w.Env.Root, w.Env.Root+".old"); err != nil {
		t.Fatal(err)
	}
	w.later(t, time.Hour)
	w.fails(t, "a", "the machine is out of reach")
	w.osRelease(t, "ID=rocky\n")
	w.later(t, poll)
	if got := w.content(t, "a"); got != "rocky" {
		t.Errorf("content %q, log:\n%s", got, &w.log)
	}
}
