package kube

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/tlspu/keel/test/kubetest"
)

const (
	deployed    = "../../../deploy/kubernetes"
	nodeConfigs = "/apis/keel.tlspu.io/v1alpha1/nodeconfigs"
	// interval is the least that a NodeConfig may have.
	interval = 10 * time.Second
	soon     = 100 * time.Millisecond
)

// rows is the table, printed when all is measured: what benchmarks print of their
// own does not come between.
var rows strings.Builder

func TestMain(m *testing.M) {
	flag.Parse()
	klog.SetLogger(logr.Discard()) // client-go's words about a server that is overwhelmed
	m.Run()
	if rows.Len() > 0 {
		fmt.Printf("\n%d cores, %s, %s/%s\n\n| what | measured | aim |\n|---|---|---|\n%s",
			runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH, &rows)
	}
}

// row adds a row to the table, and shows it at once on standard error.
func row(what, measured, aim string) {
	line := fmt.Sprintf("| %s | %s | %s |\n", what, measured, aim)
	rows.WriteString(line)
	progress("%s", strings.TrimSpace(line))
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format(time.TimeOnly)+" bench: "+format+"\n", args...)
}

type object = map[string]any

// serve starts an API server that has all of deploy/kubernetes: the agents'
// rights and the policies, too.
func serve(b *testing.B, o kubetest.Options) *kubetest.Server {
	b.Helper()
	s := kubetest.Start(b, o)
	s.InstallCRDs(b, filepath.Join(deployed, "crd"))
	s.Kubectl(b, "", "apply", "-f", filepath.Join(deployed, "namespace.yaml"))
	s.Kubectl(b, "", "apply", "-k", deployed)
	return s
}

// node makes a Node of the size that a kubelet gives it.
func node(b *testing.B, s *kubetest.Server, name string) {
	b.Helper()
	var images []corev1.ContainerImage
	for i := range 50 {
		images = append(images, corev1.ContainerImage{
			Names:     []string{fmt.Sprintf("registry.example.com/team/image-%02d@sha256:%064x", i, i), fmt.Sprintf("registry.example.com/team/image-%02d:v1.%d", i, i)},
			SizeBytes: int64(i) << 20,
		})
	}
	s.Node(b, corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"role": "web", "zone": "a"}},
		Status: corev1.NodeStatus{
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.37.2", OperatingSystem: "linux", Architecture: runtime.GOARCH},
			Images:   images,
		},
	})
}

// nodeConfig is for a file of n bytes; ten seconds are its interval.
func nodeConfig(name string, content string) object {
	return object{
		"apiVersion": "keel.tlspu.io/v1alpha1", "kind": "NodeConfig", "metadata": object{"name": name},
		"spec": object{
			"type": "file", "interval": interval.String(),
			"params": object{"path": "/etc/bench/" + name + ".conf", "content": content},
		},
	}
}

// kubeconfig writes one for the agent of a node. It has the agent's rights, and is
// bound to the node, as a pod's token; but by impersonation, since a token of
// kubetest's is good for an hour only.
func kubeconfig(b *testing.B, s *kubetest.Server, dir, node string) string {
	b.Helper()
	admin := s.Admin()
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "bench",
"clusters": [{"name": "bench", "cluster": {"server": %q, "certificate-authority-data": %q}}],
"contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench", "namespace": "keel-system"}}],
"users": [{"name": "bench", "user": {"client-certificate-data": %q, "client-key-data": %q,
  "as": "system:serviceaccount:keel-system:keel-node-agent", "as-user-extra": {"authentication.kubernetes.io/node-name": [%q]}}}]}`,
		s.URL, base64of(admin.CAData), base64of(admin.CertData), base64of(admin.KeyData), node)
	name := filepath.Join(dir, node+".kubeconfig")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	return name
}

// until asks again and again whether something is so.
func until(b *testing.B, what string, every, within time.Duration, ok func() bool) {
	b.Helper()
	end := time.NewTimer(within)
	defer end.Stop()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for !ok() {
		select {
		case <-end.C:
			b.Fatalf("%s: not within %s", what, within)
		case <-tick.C:
		}
	}
}
