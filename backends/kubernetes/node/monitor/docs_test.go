package monitor

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
)

const (
	specs      = "../../../../docs/spec/"
	alertsFile = "../../../../deploy/kubernetes/monitoring/alerts.yaml"
)

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(specs + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// table gives the cells of the rows below a heading that begins with head.
func table(t *testing.T, head string) (rows [][]string) {
	t.Helper()
	_, text, ok := strings.Cut(page(t, "monitoring.md"), "\n| "+head+" |")
	if !ok {
		t.Fatalf("monitoring.md has no table that begins with %q", head)
	}
	for _, line := range strings.Split(text, "\n")[2:] {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

// quoted lists what stands in quotes in a cell.
func quoted(cell string) (names []string) {
	for _, q := range regexp.MustCompile("`[^`]+`").FindAllString(cell, -1) {
		names = append(names, strings.Trim(q, "`"))
	}
	return names
}

// shape is what a metric is.
type shape struct{ Type, Labels string }

// shapes lists the metrics of an agent that has done everything once.
func shapes(t *testing.T) (own, process map[string]shape) {
	t.Helper()
	families, err := populated().registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	own, process = map[string]shape{}, map[string]shape{}
	for _, f := range families {
		kind := strings.ToLower(f.GetType().String())
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		into := process
		if strings.HasPrefix(f.GetName(), "keel_") {
			into = own
		}
		into[f.GetName()] = shape{kind, strings.Join(labels, " ")}
	}
	return own, process
}

func TestDocs_metrics(t *testing.T) {
	own, process := shapes(t)
	listed := map[string]shape{}
	for _, row := range table(t, "metric") {
		for _, name := range quoted(row[0]) {
			listed[name] = shape{row[1], strings.Join(quoted(row[2]), " ")}
		}
	}
	if diff := cmp.Diff(own, listed); diff != "" {
		t.Errorf("metrics (-code +page):\n%s", diff)
	}
	listed = map[string]shape{}
	for _, row := range table(t, "process metric") {
		for _, name := range quoted(row[0]) {
			listed[name] = shape{Type: row[1]}
		}
	}
	// Not every system tells all of them.
	for name, s := range process {
		if listed[name] != s {
			t.Errorf("%s: is %v, and on the page %v", name, s, listed[name])
		}
	}
}

// An alert as the file of rules has it.
type alert struct {
	Alert, Expr, For string
	Labels           map[string]string
	Annotations      map[string]string
}

func alerts(t *testing.T) (all []alert) {
	t.Helper()
	data, err := os.Open(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = data.Close() }()
	var file struct {
		Groups []struct {
			Name  string
			Rules []alert
		}
	}
	dec := yaml.NewDecoder(data)
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// anchors lists what links into troubleshooting.md may lead to, as GitHub makes them.
func anchors(t *testing.T) (list []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^## (.+)$`).FindAllStringSubmatch(page(t, "troubleshooting.md"), -1) {
		slug := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		list = append(list, strings.ReplaceAll(slug, " ", "-"))
	}
	return list
}

// The page lists the alerts of the file, with the severity they have there, and
// both link to the same place, which exists.
func TestDocs_alerts(t *testing.T) {
	const runbooks = "https://github.com/tlspu/keel/blob/main/docs/spec/troubleshooting.md#"
	type entry struct{ Severity, Link string }
	listed, inFile := map[string]entry{}, map[string]entry{}
	link := regexp.MustCompile(`\(troubleshooting\.md#([^)]+)\)`)
	for _, row := range table(t, "alert") {
		m := link.FindStringSubmatch(row[3])
		if m == nil {
			t.Fatalf("%s: the page links to nothing", row[0])
		}
		listed[strings.Trim(row[0], "`")] = entry{row[1], m[1]}
	}
	known := anchors(t)
	for _, a := range alerts(t) {
		anchor, ok := strings.CutPrefix(a.Annotations["runbook_url"], runbooks)
		if !ok || !slices.Contains(known, anchor) {
			t.Errorf("%s: runbook_url %q leads nowhere", a.Alert, a.Annotations["runbook_url"])
		}
		if a.Annotations["summary"] == "" {
			t.Errorf("%s has no summary", a.Alert)
		}
		inFile[a.Alert] = entry{a.Labels["severity"], anchor}
	}
	if diff := cmp.Diff(inFile, listed); diff != "" {
		t.Errorf("alerts (-file +page):\n%s", diff)
	}
	for _, m := range link.FindAllStringSubmatch(page(t, "monitoring.md"), -1) {
		if !slices.Contains(known, m[1]) {
			t.Errorf("monitoring.md links to troubleshooting.md#%s, which is not there", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`\]\(#([^)]+)\)`).FindAllStringSubmatch(page(t, "troubleshooting.md"), -1) {
		if !slices.Contains(known, m[1]) {
			t.Errorf("troubleshooting.md links to #%s, which is not there", m[1])
		}
	}
}

// Every metric of Keel has an alert, those that the page names use it, and no
// alert is on a metric or a label that is not there.
func TestDocs_alertsUseTheMetrics(t *testing.T) {
	own, process := shapes(t)
	all := map[string]alert{}
	word := regexp.MustCompile(`\b(keel|process|go)_[a-z_]+`)
	for _, a := range alerts(t) {
		all[a.Alert] = a
		for _, name := range word.FindAllString(a.Expr, -1) {
			name = strings.TrimSuffix(name, "_bucket")
			if own[name].Type == "" && process[name].Type == "" && !strings.HasPrefix(name, "process_") {
				t.Errorf("%s is on %s, which is no metric", a.Alert, name)
			}
		}
	}
	for _, rows := range [][][]string{table(t, "metric"), table(t, "process metric")} {
		for _, row := range rows {
			names, says := quoted(row[0]), quoted(row[len(row)-1])
			if strings.HasPrefix(names[0], "keel_") && len(says) == 0 {
				t.Errorf("%s has no alert", names[0])
			}
			for _, a := range says {
				if !strings.Contains(all[a].Expr, names[0]) {
					t.Errorf("%s: the page says that alert %s uses it", names[0], a)
				}
			}
		}
	}
}
