package kubernetes

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/api/v1alpha1"
)

func TestCRD_isServed(t *testing.T) {
	s := server(t)
	nodeConfig(t, s, "served")
	if got := s.Kubectl(t, "", "get", "nc", "served", "-o", "wide"); !strings.HasPrefix(strings.Join(strings.Fields(got), " "), "NAME TYPE INTERVAL SUSPEND AGE served file ") {
		t.Errorf("kubectl get nc:\n%s", got)
	}
	if got := s.Kubectl(t, "", "get", "keel", "-o", "name"); !strings.Contains(got, "nodeconfig.keel.tlspu.io/served\n") {
		t.Errorf("kubectl get keel:\n%s", got)
	}
	if got := s.Kubectl(t, "", "explain", "nodeconfig.spec.interval"); !strings.Contains(got, "10s to 8760h") {
		t.Errorf("kubectl explain:\n%s", got)
	}
}

func TestCRD_takesGoodNodeConfigs(t *testing.T) {
	s := server(t)
	for name, spec := range map[string]string{
		"type alone": `{"type": "file"}`,
		"everything": `{"type": "file", "params": {"path": "/etc/motd", "content": ""}, "services": ["ssh.service", "a@b\\x2d.timer"], "interval": "1h30m", "suspend": true,
			"nodeSelector": {"matchLabels": {"role": "web"}, "matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]},
			"configMaps": [{"namespace": "default", "name": "app.conf", "as": "app"}], "secrets": [{"namespace": "default", "name": "db", "as": "db", "optional": true}]}`,
		"least":         `{"type": "file", "interval": "10s"}`,
		"longest":       `{"type": "file", "interval": "8760h"}`,
		"of parts":      `{"type": "file", "interval": "9s1000ms"}`,
		"large content": `{"type": "file", "params": {"content": "` + strings.Repeat("x", 1<<20) + `"}}`,
		"templates":     `{"type": "file", "params": {"path": "/etc/{{ .Node.Name }}"}, "services": ["{{ .OS.ID }}\n.service", "{{` + strings.Repeat("x", 1022) + `"]}`,
		"every node":    `{"type": "file", "nodeSelector": {}}`,
		"longest unit":  `{"type": "file", "services": ["` + strings.Repeat("u", 255) + `"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			doc := document("good", parse(t, spec))
			if err := s.Do(t.Context(), s.Admin(), http.MethodPost, nodeConfigs+"?dryRun=All&fieldValidation=Strict", doc, nil); err != nil {
				t.Error(err)
			}
			if err := parseFile(t, doc); err != nil {
				t.Errorf("as a file: %v", err)
			}
		})
	}
}

// parseFile reads a document as one reads a file.
func parseFile(t *testing.T, doc any) error {
	t.Helper()
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return v1alpha1.ParseOne(data).Err
}

// What a file may not hold the server does not take, as far as it can tell; of
// what only the server refuses, the handler, or the size of an object, is why.
func TestCRD_refusesBadNodeConfigs(t *testing.T) {
	many := func(n int, item string) string {
		var b strings.Builder
		for i := range n {
			_, _ = fmt.Fprintf(&b, ", "+item, i)
		}
		return b.String()[2:]
	}
	tests := []struct {
		name, spec string
		want       string
		file       bool // the parser of files takes it
	}{
		{name: "no spec", spec: `null`, want: "spec"},
		{name: "no type", spec: `{}`, want: "spec.type: Required"},
		{name: "empty type", spec: `{"type": ""}`, want: "spec.type"},
		{name: "type in upper case", spec: `{"type": "File"}`, want: "spec.type", file: true},
		{name: "type with a template", spec: `{"type": "{{ .Node.Name }}"}`, want: "spec.type", file: true},
		{name: "type too long", spec: `{"type": "` + strings.Repeat("x", 64) + `"}`, want: "spec.type", file: true},
		{name: "type no string", spec: `{"type": 1}`, want: "spec.type"},
		{name: "params a list", spec: `{"type": "file", "params": ["path"]}`, want: "spec.params"},
		{name: "param a number", spec: `{"type": "file", "params": {"mode": 420}}`, want: "spec.params.mode"},
		{name: "param a map", spec: `{"type": "file", "params": {"content": {}}}`, want: "spec.params.content"},
		{name: "too many params", spec: `{"type": "file", "params": {` + many(257, `"k%d": ""`) + `}}`, want: "spec.params"},
		{name: "services a string", spec: `{"type": "file", "services": "ssh"}`, want: "spec.services"},
		{name: "service empty", spec: `{"type": "file", "services": [""]}`, want: "spec.services[0]"},
		{name: "service a number", spec: `{"type": "file", "services": ["ssh", 1]}`, want: "spec.services[1]"},
		{name: "service an option", spec: `{"type": "file", "services": ["--now"]}`, want: "spec.services[0]"},
		{name: "service a path", spec: `{"type": "file", "services": ["ssh", "../ssh"]}`, want: "spec.services[1]"},
		{name: "service with a line break", spec: `{"type": "file", "services": ["ssh\n"]}`, want: "spec.services[0]"},
		{name: "service a glob", spec: `{"type": "file", "services": ["*"]}`, want: "spec.services[0]"},
		{name: "service in other letters", spec: `{"type": "file", "services": ["sшh"]}`, want: "spec.services[0]"},
		{name: "service too long", spec: `{"type": "file", "services": ["` + strings.Repeat("u", 1025) + `"]}`, want: "spec.services[0]"},
		{name: "service a bit too long", spec: `{"type": "file", "services": ["` + strings.Repeat("u", 256) + `"]}`, want: "spec.services[0]"},
		{name: "template of a service too long", spec: `{"type": "file", "services": ["{{` + strings.Repeat("u", 1023) + `"]}`, want: "spec.services[0]"},
		{name: "service twice", spec: `{"type": "file", "services": ["ssh", "ssh"]}`, want: "spec.services[1]: Duplicate"},
		{name: "too many services", spec: `{"type": "file", "services": [` + many(65, `"u%d"`) + `]}`, want: "spec.services"},
		{name: "interval too short", spec: `{"type": "file", "interval": "9999ms"}`, want: "spec.interval"},
		{name: "interval zero", spec: `{"type": "file", "interval": "0s"}`, want: "spec.interval"},
		{name: "interval below zero", spec: `{"type": "file", "interval": "-10m"}`, want: "spec.interval"},
		{name: "interval without a unit", spec: `{"type": "file", "interval": "600"}`, want: "spec.interval"},
		{name: "interval a number", spec: `{"type": "file", "interval": 600}`, want: "spec.interval"},
		{name: "interval in words", spec: `{"type": "file", "interval": "1 day"}`, want: "spec.interval"},
		{name: "interval a bit too long", spec: `{"type": "file", "interval": "8760h1s"}`, want: "spec.interval"},
		{name: "interval beyond all", spec: `{"type": "file", "interval": "99999999999h"}`, want: "10s to 8760h"},
		{name: "selector of text", spec: `{"type": "file", "nodeSelector": "role=web"}`, want: "spec.nodeSelector"},
		{name: "selector with an unknown key", spec: `{"type": "file", "nodeSelector": {"labels": {}}}`, want: `unknown field "spec.nodeSelector.labels"`},
		{name: "selector with an unknown operator", spec: `{"type": "file", "nodeSelector": {"matchExpressions": [{"key": "a", "operator": "in", "values": ["b"]}]}}`, want: "spec.nodeSelector"},
		{name: "selector without values", spec: `{"type": "file", "nodeSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}`, want: "spec.nodeSelector"},
		{name: "selector with values", spec: `{"type": "file", "nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}}`, want: "spec.nodeSelector"},
		{name: "configMap without a name for templates", spec: `{"type": "file", "configMaps": [{"namespace": "a", "name": "b"}]}`, want: "spec.configMaps[0].as: Required"},
		{name: "configMap without a namespace", spec: `{"type": "file", "configMaps": [{"name": "b", "as": "c"}]}`, want: "spec.configMaps[0].namespace: Required"},
		{name: "secret under a name of no use", spec: `{"type": "file", "secrets": [{"namespace": "a", "name": "b", "as": "c-d"}]}`, want: "spec.secrets[0].as"},
		{name: "secret in no namespace", spec: `{"type": "file", "secrets": [{"namespace": "a.b", "name": "b", "as": "c"}]}`, want: "spec.secrets[0].namespace"},
		{name: "secret with a bad name", spec: `{"type": "file", "secrets": [{"namespace": "a", "name": "B", "as": "c"}]}`, want: "spec.secrets[0].name"},
		{name: "two secrets under one name", spec: `{"type": "file", "secrets": [{"namespace": "a", "name": "b", "as": "c"}, {"namespace": "a", "name": "d", "as": "c"}]}`, want: "spec.secrets[1]: Duplicate"},
		{name: "too many secrets", spec: `{"type": "file", "secrets": [` + many(65, `{"namespace": "a", "name": "b", "as": "c%d"}`) + `]}`, want: "spec.secrets"},
		{name: "suspend a string", spec: `{"type": "file", "suspend": "yes"}`, want: "spec.suspend"},
		{name: "unknown field", spec: `{"type": "file", "param": {}}`, want: `unknown field "spec.param"`},
	}
	s := server(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			doc := document("bad", parse(t, tt.spec))
			err := s.Do(t.Context(), s.Admin(), http.MethodPost, nodeConfigs+"?dryRun=All&fieldValidation=Strict", doc, nil)
			code := http.StatusUnprocessableEntity
			if strings.HasPrefix(tt.want, "unknown") {
				code = http.StatusBadRequest
			}
			refused(t, err, code, tt.want)
			if err := parseFile(t, doc); (err == nil) != tt.file {
				t.Errorf("as a file: %v", err)
			}
		})
	}
	for _, name := range []string{"", "Upper", "under_score", "-x", strings.Repeat("x", 254)} {
		err := s.Do(t.Context(), s.Admin(), http.MethodPost, nodeConfigs+"?dryRun=All", document(name, object{"type": "file"}), nil)
		refused(t, err, http.StatusUnprocessableEntity, "name")
	}
}

// To the server null is "not given"; in a file it is a mistake.
func TestCRD_dropsNull(t *testing.T) {
	s := server(t)
	doc := document("null", parse(t, `{"type": "file", "params": {"path": "/etc/motd", "mode": null}, "interval": null}`))
	var got struct{ Spec object }
	if err := s.Do(t.Context(), s.Admin(), http.MethodPost, nodeConfigs+"?dryRun=All&fieldValidation=Strict", doc, &got); err != nil {
		t.Fatal(err)
	}
	want := object{"type": "file", "params": object{"path": "/etc/motd"}}
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if err := parseFile(t, doc); err == nil {
		t.Error("a file may hold null")
	}
}

func TestCRD_refusesBadStatus(t *testing.T) {
	with := func(key string, value any) object {
		e := node("")
		e[key] = value
		return entries(object{"n1": e})
	}
	tests := []struct {
		name  string
		patch object
		want  string // none: it is taken
	}{
		{"an entry", with("message", "configuration applied"), ""},
		{"256 bytes", with("message", strings.Repeat("é", 128)), ""},
		{"257 bytes", with("message", strings.Repeat("é", 128)+"!"), "status.nodes[n1].message"},
		{"256 characters of two bytes", with("message", strings.Repeat("é", 256)), "status.nodes[n1].message"},
		{"257 characters", with("message", strings.Repeat("x", 257)), "status.nodes.n1.message"},
		{"another result", with("lastResult", "maybe"), "status.nodes.n1.lastResult"},
		{"no result", with("lastResult", nil), "status.nodes.n1.lastResult"},
		{"no time", with("lastRunTime", nil), "status.nodes.n1.lastRunTime"},
		{"a time in words", with("lastRunTime", "yesterday"), "status.nodes.n1.lastRunTime"},
		{"generation below 0", with("observedGeneration", -1), "status.nodes.n1.observedGeneration"},
		{"long digest", with("triggerDigest", strings.Repeat("0", 129)), "status.nodes.n1.triggerDigest"},
		{"observedGeneration below 0", object{"status": object{"observedGeneration": -1}}, "status.observedGeneration"},
		{"an entry that is none", entries(object{"n1": "success"}), "status.nodes.n1"},
	}
	s := server(t)
	nodeConfig(t, s, "bad-status")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := s.Do(t.Context(), s.Admin(), http.MethodPatch, nodeConfigs+"/bad-status/status?dryRun=All", tt.patch, nil)
			if tt.want != "" {
				refused(t, err, http.StatusUnprocessableEntity, tt.want)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// A patch of one's own key needs no version of the object and loses nothing.
func TestStatus_writersDoNotLoseEachOthersKeys(t *testing.T) {
	const writers, rounds = 8, 10
	s := server(t)
	nodeConfig(t, s, "many-writers")
	var wg sync.WaitGroup
	for i := range writers {
		name := fmt.Sprintf("n%d", i)
		wg.Go(func() {
			for r := range rounds {
				patch := entries(object{name: node(fmt.Sprint("round ", r))})
				if err := s.Do(t.Context(), s.Admin(), http.MethodPatch, nodeConfigs+"/many-writers/status", patch, nil); err != nil {
					t.Errorf("%s, round %d: %v", name, r, err)
				}
			}
		})
	}
	wg.Wait()
	got := statusOf(t, s, "many-writers").Nodes
	for i := range writers {
		if m := got[fmt.Sprintf("n%d", i)].Message; m != fmt.Sprint("round ", rounds-1) {
			t.Errorf("n%d says %q", i, m)
		}
	}
}

func TestStatus_emptyValuesClear(t *testing.T) {
	s := server(t)
	nodeConfig(t, s, "cleared")
	patch := func(e any) {
		t.Helper()
		if err := s.Do(t.Context(), s.Admin(), http.MethodPatch, nodeConfigs+"/cleared/status", entries(object{"n1": e}), nil); err != nil {
			t.Fatal(err)
		}
	}
	patch(node("no space left on device"))
	patch(object{"lastResult": "success"})
	if n := statusOf(t, s, "cleared").Nodes["n1"]; n.Message != "no space left on device" || n.TriggerDigest == "" || !*n.Changed {
		t.Errorf("what a patch leaves out is not kept: %+v", n)
	}
	patch(object{"changed": false, "message": "", "triggerDigest": "", "observedGeneration": 0})
	n := statusOf(t, s, "cleared").Nodes["n1"]
	if n.Message != "" || n.TriggerDigest != "" || n.Changed == nil || *n.Changed || n.ObservedGeneration == nil || *n.ObservedGeneration != 0 {
		t.Errorf("empty values do not clear: %+v", n)
	}
	patch(nil)
	if got := statusOf(t, s, "cleared").Nodes; len(got) != 0 {
		t.Errorf("null does not remove the entry: %+v", got)
	}
}

func TestStatus_observedGenerationNeverGoesBack(t *testing.T) {
	s := server(t)
	nodeConfig(t, s, "generations")
	patch := func(body object) error {
		return s.Do(t.Context(), s.Admin(), http.MethodPatch, nodeConfigs+"/generations/status", body, nil)
	}
	for _, good := range []object{
		entries(object{"n1": node("")}),
		{"status": object{"observedGeneration": 3}},
		{"status": object{"observedGeneration": 3}},
		entries(object{"n1": node("without one")}),
	} {
		if err := patch(good); err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
	for _, bad := range []object{
		{"status": object{"observedGeneration": 2, "nodes": object{"n1": node("lost")}}},
		{"status": object{"observedGeneration": nil}},
		{"status": nil},
	} {
		refused(t, patch(bad), http.StatusUnprocessableEntity, "status.observedGeneration", "never goes back; leave it out")
	}
	if got := statusOf(t, s, "generations"); *got.ObservedGeneration != 3 || got.Nodes["n1"].Message != "without one" {
		t.Errorf("a refused patch left %+v", got)
	}
	spec := object{"spec": object{"suspend": true}}
	if err := s.Do(t.Context(), s.Admin(), http.MethodPatch, nodeConfigs+"/generations", spec, nil); err != nil {
		t.Errorf("the rule stands in the way of an edit: %v", err)
	}
}

// What docs/spec says of a status that is too large.
func TestStatus_tooLargeIsRefused(t *testing.T) {
	s := server(t)
	nodeConfig(t, s, "too-large")
	patch := func(n int) error {
		all := object{}
		for i := range n {
			all[fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", i/256, i%256)] = node(strings.Repeat("x", 256))
		}
		return s.Do(t.Context(), s.Admin(), http.MethodPatch, nodeConfigs+"/too-large/status", entries(all), nil)
	}
	refused(t, patch(3500), http.StatusInternalServerError, "etcdserver: request is too large")
	refused(t, patch(7500), http.StatusRequestEntityTooLarge, "limit is 3145728")
	if got := statusOf(t, s, "too-large").Nodes; len(got) != 0 {
		t.Errorf("%d entries were kept", len(got))
	}
}
