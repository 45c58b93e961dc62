package node

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/node/facts"
	"github.com/tlspu/keel/backends/kubernetes/node/monitor"
	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/test/nodetest"
)

// Steps of the loop, as docs/develop/architecture.md lists them. Rendering has its
// tests in package render, Ensure and the restarts in target_test.go.

func TestEntry_interval(t *testing.T) {
	for _, tt := range []struct {
		name  string
		entry entry
		want  time.Duration
	}{
		{"none is named", entry{config: &nodeconfig.Config{}}, 10 * time.Minute},
		{"its own", entry{config: &nodeconfig.Config{Interval: 10 * time.Second}}, 10 * time.Second},
		{"nothing but a journal", entry{}, 10 * time.Minute},
	} {
		a := &agent{settings: settings{DefaultInterval: 10 * time.Minute}}
		if got := a.interval(&tt.entry); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	for given, want := range map[time.Duration]time.Duration{0: 0, time.Nanosecond: 0, -time.Hour: 0, 10 * time.Second: 10 * time.Second, time.Hour: time.Hour} {
		doc := v1alpha1.Document{NodeConfig: &v1alpha1.NodeConfig{}}
		doc.NodeConfig.Spec.Interval = &metav1.Duration{Duration: given}
		if got := nodeconfig.New("", doc, nodetest.Handlers(nodetest.NewSetting())).Interval; got != want {
			t.Errorf("an interval of %s becomes %s, want %s", given, got, want)
		}
	}
}

func TestAgent_waitsForFactsAndNodeConfigs(t *testing.T) {
	away := errors.New("read nodeconfigs: connection refused")
	for _, tt := range []struct {
		name           string
		looked, known  bool
		blind, unknown error
		wantReady      bool
		wantWhy        string
	}{
		{name: "the start", wantWhy: "the NodeConfigs were not read yet"},
		{name: "the server is away", blind: away, wantWhy: away.Error()},
		{name: "facts come first", known: true, wantWhy: "the NodeConfigs were not read yet"},
		{name: "NodeConfigs come first", looked: true, wantWhy: "the facts were not collected yet"},
		{name: "no Node of that name", looked: true, unknown: errors.New("no Node n"), wantWhy: "no Node n"},
		{name: "both are there", looked: true, known: true, wantReady: true},
		{name: "the server is away later", looked: true, known: true, blind: away, wantReady: true, wantWhy: away.Error()},
		{name: "facts cannot be collected later", looked: true, known: true, unknown: errors.New("no Node n"), wantReady: true},
	} {
		a := &agent{looked: tt.looked, blind: tt.blind, unknown: tt.unknown, source: new(folder), metrics: monitor.New("v", nil)}
		if tt.known {
			a.facts.Set(facts.Facts{})
		}
		if got := a.ready(); got != tt.wantReady {
			t.Errorf("%s: ready %v", tt.name, got)
		}
		if got := nodeconfig.Text(a.health.Ready()); got != tt.wantWhy {
			t.Errorf("%s: the probe says %q, want %q", tt.name, got, tt.wantWhy)
		}
	}
}

func TestExcludes(t *testing.T) {
	labels := map[string]string{"role": "web", "zone": "a"}
	expression := func(key string, op metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: op, Values: values}}}
	}
	for _, tt := range []struct {
		name     string
		selector *metav1.LabelSelector
		want     bool
		wantErr  string
	}{
		{name: "none", selector: nil},
		{name: "an empty one", selector: &metav1.LabelSelector{}},
		{name: "a label", selector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": "web"}}},
		{name: "another value", selector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": "db"}}, want: true},
		{name: "one of two", selector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": "web", "zone": "b"}}, want: true},
		{name: "in", selector: expression("role", "In", "db", "web")},
		{name: "not in", selector: expression("role", "NotIn", "db", "web"), want: true},
		{name: "not in, without the label", selector: expression("rack", "NotIn", "1")},
		{name: "exists", selector: expression("rack", "Exists"), want: true},
		{name: "does not exist", selector: expression("rack", "DoesNotExist")},
		{name: "an unknown operator", selector: expression("role", "Near", "web"), wantErr: `spec.nodeSelector: "Near" is not a valid label selector operator`},
	} {
		var f facts.Facts
		f.Node.Labels = labels
		got, err := nodeconfig.Excludes(tt.selector, f)
		if got != tt.want || nodeconfig.Text(err) != tt.wantErr {
			t.Errorf("%s: %v, %v; want %v, %s", tt.name, got, err, tt.want, tt.wantErr)
		}
	}
}

// Looking a handler up, and validation.
func TestNewConfig_judges(t *testing.T) {
	for name, tt := range map[string]struct{ spec, want string }{
		"sound":               {"type: setting, params: {path: /etc/a}", ""},
		"a template":          {"type: setting, params: {path: '/etc/{{ .Node.Name }}'}", ""},
		"no type":             {"params: {path: /etc/a}", "spec.type: is missing"},
		"an unknown type":     {"type: settin", `spec.type: unknown handler "settin": use blind or setting`},
		"no parameter":        {"type: setting", "params.path: must be absolute"},
		"a bad parameter":     {"type: setting, params: {path: etc}", "params.path: must be absolute"},
		"no template":         {"type: setting, params: {path: /etc/a, value: '{{ .Node'}", "spec.params.value: line 1: unclosed action"},
		"an unknown function": {"type: setting, params: {path: /etc/a, value: '{{ uper }}'}", `spec.params.value: line 1: function "uper" not defined`},
		"a bad unit":          {"type: setting, params: {path: /etc/a}, services: [a b]", `spec.services[0]: "a b" is not a valid systemd unit name`},
		"two mistakes":        {"type: setting, services: ['{{ uper }}']", "params.path: must be absolute\nspec.services[0]: "},
	} {
		doc := v1alpha1.ParseOne([]byte("apiVersion: keel.tlspu.io/v1alpha1\nkind: NodeConfig\nmetadata: {name: a}\nspec: {" + tt.spec + "}\n"))
		got := nodeconfig.Text(nodeconfig.New("a", doc, nodetest.Handlers(nodetest.NewSetting())).Err)
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestEntry_status(t *testing.T) {
	at := time.Date(2026, 10, 15, 12, 0, 0, 999, time.UTC)
	ensured := drift.Outcome{Step: drift.Step{Text: "ensure", Writes: []drift.Path{{"value"}}}, Changed: true}
	restarted := drift.Outcome{Step: drift.Step{Text: "restart", Writes: []drift.Path{{nodeconfig.RestartLeaf}}}, Changed: true}
	base := v1alpha1.NodeStatus{
		LastRunTime: metav1.Time{Time: at.Truncate(time.Second)}, LastResult: v1alpha1.Success, ObservedGeneration: 1, TriggerDigest: "d1",
	}
	for _, tt := range []struct {
		name   string
		change func(e *entry)
		res    drift.Result
		want   func(s *v1alpha1.NodeStatus)
	}{
		{name: "nothing to do", want: func(s *v1alpha1.NodeStatus) { s.Message = "configuration in place" }},
		{name: "applied", res: drift.Result{Changed: true, Steps: []drift.Outcome{ensured}}, want: func(s *v1alpha1.NodeStatus) {
			s.Changed, s.Message = true, "configuration applied"
		}},
		{name: "applied and restarted", res: drift.Result{Changed: true, Steps: []drift.Outcome{ensured, restarted}}, want: func(s *v1alpha1.NodeStatus) {
			s.Changed, s.Message = true, "configuration applied, services restarted"
		}},
		{name: "a restart that was pending", res: drift.Result{Changed: true, Steps: []drift.Outcome{restarted}}, want: func(s *v1alpha1.NodeStatus) {
			s.Changed, s.Message = true, "services restarted"
		}},
		{
			name: "a restart is pending", change: func(e *entry) { e.pending = true },
			res: drift.Result{Changed: true, Err: errors.New("restart a.service: job failed")}, want: func(s *v1alpha1.NodeStatus) {
				s.LastResult, s.Changed, s.RestartPending, s.Message = v1alpha1.Error, true, true, "restart a.service: job failed"
			},
		},
		{name: "an error of lines", res: drift.Result{Err: errors.Join(errors.New("one"), errors.New("two"))}, want: func(s *v1alpha1.NodeStatus) {
			s.LastResult, s.Message = v1alpha1.Error, "one; two"
		}},
		{name: "a long error", res: drift.Result{Err: errors.New(strings.Repeat("x", 1<<20))}, want: func(s *v1alpha1.NodeStatus) {
			s.LastResult, s.Message = v1alpha1.Error, strings.Repeat("x", v1alpha1.MaxMessage-3)+"…"
		}},
		{name: "suspended", change: func(e *entry) { says(e, func(c *nodeconfig.Config) { c.Suspend = true }) }, want: func(s *v1alpha1.NodeStatus) { s.Message = nodeconfig.Suspended }},
		{name: "excluded", change: func(e *entry) { says(e, func(c *nodeconfig.Config) { c.Excluded = true }) }, want: func(s *v1alpha1.NodeStatus) { s.Message = nodeconfig.Excluded }},
		{name: "fields of a newer version", change: func(e *entry) { says(e, func(c *nodeconfig.Config) { c.Ignored = []string{"spec.a", "spec.b"} }) }, want: func(s *v1alpha1.NodeStatus) {
			s.Message = "configuration in place; unknown and without effect: spec.a, spec.b"
		}},
		{name: "many of them", change: func(e *entry) {
			says(e, func(c *nodeconfig.Config) { c.Ignored = strings.Split(strings.Repeat("spec.a ", 100), " ") })
		}, want: func(s *v1alpha1.NodeStatus) {
			s.Message = cut("configuration in place; unknown and without effect: "+strings.Repeat("spec.a, ", 100), v1alpha1.MaxMessage)
		}},
	} {
		_, e := scheduled(t)
		if tt.change != nil {
			tt.change(e)
		}
		want := base
		tt.want(&want)
		if diff := cmp.Diff(want, e.status(tt.res, at)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
