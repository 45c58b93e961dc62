package kubetest

import (
	"bytes"
	"os/exec"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tlspu/keel/test/machine"
	"github.com/tlspu/keel/test/parts"
)

// A pod on a booted host finds the server as it would in a cluster, by its
// ServiceAccount and environment.
func TestInCluster_isFoundByAPod(t *testing.T) {
	parts.Need(t, "root", "debian-root")
	s := Shared(t)
	ns := s.Namespace(t, "pod")
	s.ServiceAccount(t, ns, "agent")
	s.Node(t, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-of-pod"}})
	token := s.NodeToken(t, ns, "agent", "node-of-pod")
	account, env := s.InCluster(t, ns, token)

	h := machine.Boot(t, machine.Options{Name: "node-of-pod"})
	var out, stderr bytes.Buffer
	cmd := exec.Command("/bin/kubectl", "auth", "whoami", "-o", "jsonpath={.status.userInfo.extra['authentication\\.kubernetes\\.io/node-name'][0]}")
	cmd.Env = append(env, "HOME=/tmp")
	cmd.Stdout, cmd.Stderr = &out, &stderr
	p := h.Start(t, machine.Pod{
		Image:  machine.Image(t, parts.Path("kubectl")),
		Mounts: map[string]string{"/var/run/secrets/kubernetes.io/serviceaccount": account},
	}, cmd)
	if err := p.Wait(); err != nil || out.String() != "node-of-pod" {
		t.Errorf("kubectl auth whoami: %v, %q\n%s", err, &out, &stderr)
	}
}
