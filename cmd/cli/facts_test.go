package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/plugins/all"
)

// real runs a command line of the real binary.
func (b *bench) real(args ...string) (code int, stdout, stderr string) {
	b.t.Helper()
	var out, errs safeBuffer
	a := &app{
		set: all.Set(), args: args, in: b.in, out: &output{w: &out}, err: &errs,
		now: func() time.Time { return time.Unix(1, 0) }, uid: b.uid,
	}
	code = a.run(b.ctx)
	strip := func(s string) string { return strings.ReplaceAll(s, b.dir, "DIR") }
	return code, strip(out.String()), strip(errs.String())
}

const templated = `apiVersion: keel.tlspu.io/v1alpha1
kind: NodeConfig
metadata: {name: motd}
spec:
  type: file
  params:
    path: /etc/motd
    content: "{{ .Node.Name }} {{ .ConfigMaps.site.contact }} {{ .Secrets.key.key }}\n"
  nodeSelector: {matchLabels: {role: web}}
  configMaps: [{namespace: default, name: site, as: site}]
  secrets: [{namespace: default, name: key, as: key}]
`

const siteData = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: site}\ndata: {contact: root@site}\n"
const keyData = "apiVersion: v1\nkind: Secret\nmetadata: {name: key}\nstringData: {key: hunter2}\n"

// Data is handed over with the documents that refer to it, and so is --facts.
func TestFacts_andDataReachEveryCommand(t *testing.T) {
	b := newBench(t)
	root := b.dir + "/root"
	b.write("root/etc/hosts", "")
	b.write("docs/a.yaml", siteData)
	b.write("docs/b.yaml", templated)
	b.write("docs/c.yaml", keyData)
	facts := b.write("facts.yaml", "node: {name: n1, labels: {role: web}}\n")
	const withheld = "(withheld)"
	for _, tt := range []struct {
		args string
		code int
		out  string
	}{
		{"validate -f docs", 0, "DIR/docs/a.yaml: ok\nDIR/docs/b.yaml: ok\nDIR/docs/c.yaml: ok\n"},
		{"validate -f docs --facts", 0, "DIR/docs/a.yaml: ok\nDIR/docs/b.yaml: ok\nDIR/docs/c.yaml: ok\n"},
		{"apply -f docs --root", 3, "error     motd: DIR/docs/b.yaml: spec.nodeSelector: .Node.Labels is not known: nobody gave it: write it into the file of --facts\n"},
		{"diff -f docs --facts --root", 14, "motd.content: drift (declared " + withheld + ", observed nothing)\n"},
		{"apply -f docs --facts --root --dry-run", 0, "would change motd\n  would ensure path:/etc/motd (content, mode, owner, group)\n"},
		{"apply -f docs --facts --root", 0, "changed   motd\n"},
		{"apply -f docs --facts --root", 0, "unchanged motd\n"},
		{"apply -f docs/b.yaml --facts --root", 3, "error     motd: DIR/docs/b.yaml: spec.configMaps[0]: ConfigMap default/site is not there; spec.secrets[0]: Secret default/key is not there\n"},
		{"apply -f docs/a.yaml --root", 0, ""},
	} {
		var args []string
		for _, arg := range strings.Fields(tt.args) {
			switch {
			case strings.HasPrefix(arg, "docs"):
				arg = b.dir + "/" + arg
			case arg == "--facts":
				arg += "=" + facts
			case arg == "--root":
				arg += "=" + root
			}
			args = append(args, arg)
		}
		code, out, stderr := b.real(args...)
		if code != tt.code || !strings.HasPrefix(out, tt.out) || strings.Contains(out+stderr, "hunter2") {
			t.Errorf("%s: exit %d, want %d; output:\n%s\nwant:\n%s\nstderr:\n%s", tt.args, code, tt.code, out, tt.out, stderr)
		}
	}
	if code, out, stderr := b.real("facts", "--root="+root, "--facts="+facts, ".Node.Name", "Cluster.Name"); code != 0 ||
		out != ".Node.Name     n1\n.Cluster.Name  unknown: nobody gave it: write it into the file of --facts\n" {
		t.Errorf("exit %d, %q, %s", code, out, stderr)
	}
	if code, out, stderr := b.real("facts", "--root="+root, ".Node.Nam"); code != 1 || out != "" || stderr != "Error: there is no fact .Node.Nam (did you mean .Node.Name?)\n" {
		t.Errorf("exit %d, %q, %s", code, out, stderr)
	}
	if code, out, stderr := b.real("facts", "--root="+root, "--facts="+facts); code != 0 || !strings.Contains(out, ".Node.Name              n1\n") {
		t.Errorf("facts: exit %d:\n%s%s", code, out, stderr)
	}
}

func TestFacts_whatIsNotForThisNode(t *testing.T) {
	b := newBench(t)
	root := b.dir + "/root"
	b.write("root/etc/hosts", "")
	file := b.write("b.yaml", templated)
	facts := b.write("facts.yaml", "node: {labels: {role: db}}\n")
	code, out, stderr := b.real("apply", "-f", file, "--root="+root, "--facts="+facts)
	if diff := cmp.Diff("unchanged motd: nodeSelector does not match this node\n", out+stderr); code != 0 || diff != "" {
		t.Errorf("exit %d, output (-want +got):\n%s", code, diff)
	}
	code, out, _ = b.real("diff", "-f", file, "--root="+root, "--facts="+facts)
	if want := "motd.spec: not compared (nodeSelector does not match this node)\n"; code != 0 || !strings.HasPrefix(out, want) {
		t.Errorf("exit %d, output %q, want %q", code, out, want)
	}
}

// What no machine can have is an error without facts, too.
func TestValidate_whatNoMachineCanHave(t *testing.T) {
	b := newBench(t)
	doc := func(content string) string { return strings.Replace(templated, "{{ .Node.Name }}", content, 1) }
	for content, want := range map[string]string{
		"{{ .ImageName }}":          "there is no .ImageName",
		"{{ .Node.Nam }}":           "there is no fact .Node.Nam (did you mean .Node.Name?)",
		"{{ .ConfigMaps.other.x }}": `spec.configMaps lists nothing as "other"`,
		"{{ .Node.ProviderID }}":    "",
	} {
		file := b.write("doc.yaml", doc(content))
		code, _, stderr := b.real("validate", "-f", file)
		if wrong := want != ""; wrong != (code == 3) || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %s; want %s", content, code, stderr, want)
		}
	}
}
