package nodeconfig

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/core/plugin"
	"github.com/tlspu/keel/test/nodetest"
)

// printed runs the subcommand facts on a machine with an os-release.
func printed(t *testing.T, form, file string) (out string, err error) {
	t.Helper()
	w := nodetest.NewWorld(t)
	if err := os.MkdirAll(filepath.Join(w.Env.Root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.Env.Root, "etc/os-release"), []byte("ID=debian\nNAME='Debian\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	w.Env.Out = &buf
	s := FactsRole().Settings().(*factSettings)
	s.Root, s.Facts, s.Output = w.Env.Root, file, form
	err = FactsRole().Run(t.Context(), w.Env, s)
	return buf.String(), err
}

func TestFacts_text(t *testing.T) {
	file := filepath.Join(t.TempDir(), "facts.yaml")
	given := "node: {name: \"web-\\e1\", externalIP: null, labels: {b: '', a: x}, conditions: {}, addresses: [{type: InternalIP, address: 10.0.0.1}]}\n"
	if err := os.WriteFile(file, []byte(given), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := printed(t, "text", file)
	if err != nil {
		t.Fatal(err)
	}
	const nobody = "unknown: nobody gave it: write it into the file of --facts\n"
	want := ".Node.Name              web-\\x1b1\n" +
		".Node.InternalIP        " + nobody +
		".Node.ExternalIP        (none)\n" +
		".Node.Hostname          " + nobody +
		".Node.Addresses         InternalIP=10.0.0.1\n" +
		".Node.Labels            a=x, b=\n" +
		".Node.Conditions        (empty)\n" +
		".Node.Capacity          " + nobody +
		".Node.Allocatable       " + nobody +
		".Node.KubeletVersion    " + nobody +
		".Node.ContainerRuntime  " + nobody +
		".Node.MachineID         " + nobody +
		".Node.BootID            " + nobody +
		".Node.SystemUUID        " + nobody +
		".Node.ProviderID        " + nobody +
		".Node.Architecture      " + nobody +
		".OS.ID                  debian\n" +
		".OS.IDLike              (empty)\n" +
		".OS.VersionID           (none)\n" +
		".OS.VersionCodename     (none)\n" +
		".OS.Name                unknown: line 2 of /etc/os-release: the closing quote is missing\n" +
		".OS.PrettyName          (none)\n" +
		".Kernel.Release         unknown: /proc/sys/kernel/osrelease is not there: is /proc mounted below the root?\n" +
		".Cluster.ID             " + nobody +
		".Cluster.Name           " + nobody +
		".Cluster.Platform       " + nobody +
		".Cluster.Version        " + nobody +
		".Cluster.Server         " + nobody
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}

func TestFacts_json(t *testing.T) {
	out, err := printed(t, "json", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"name": ".OS.ID",` + "\n" + `      "state": "known",` + "\n" + `      "value": "debian",` + "\n" + `      "reason": ""`,
		`"name": ".OS.VersionID",` + "\n" + `      "state": "none",` + "\n" + `      "value": null,`,
		`"name": ".Node.Name",` + "\n" + `      "state": "unknown",` + "\n" + `      "value": null,` + "\n" + `      "reason": "nobody gave it`,
	} {
		if !bytes.Contains([]byte(out), []byte(want)) {
			t.Errorf("printed lacks %s:\n%s", want, out)
		}
	}
}

func TestFacts_fileOfNoUse(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("os: {id: 1}\nnodes: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		file string
		code int
		want string
	}{
		{filepath.Join(dir, "none"), plugin.ExitUnreadable, "facts " + filepath.Join(dir, "none") + ": no such file or directory"},
		{bad, plugin.ExitInvalid, "facts " + bad + ": line 1: os.id: must be a string; put it in quotes\n" +
			"facts " + bad + ": line 2: nodes: unknown key; known are node, os, kernel, cluster"},
	} {
		_, err := printed(t, "text", tt.file)
		exit := (*plugin.Exit)(nil)
		if !errors.As(err, &exit) || exit.Code != tt.code || err.Error() != tt.want {
			t.Errorf("%s: error %v, want exit %d: %s", tt.file, err, tt.code, tt.want)
		}
	}
}
