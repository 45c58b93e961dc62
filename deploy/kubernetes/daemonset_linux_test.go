package kubernetes

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/tlspu/keel/test/kubetest"
)

func TestApply_twiceChangesNothing(t *testing.T) {
	s := deploy(t)
	out := s.Kubectl(t, "", "apply", "-k", ".")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) < 10 || slices.ContainsFunc(lines, func(l string) bool { return !strings.HasSuffix(l, " unchanged") }) {
		t.Errorf("the second apply changed something:\n%s", out)
	}
}

// The overlay of README.md sets the image and the form of the status.
func TestOverlay_isThatOfThePage(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, overlay, _ := strings.Cut(string(page), "```yaml\n")
	overlay, _, _ = strings.Cut(overlay, "```\n")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	base, err := filepath.Rel(dir, here)
	if err != nil {
		t.Fatal(err)
	}
	overlay = strings.Replace(overlay, "../keel/deploy/kubernetes", base, 1)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(overlay), 0o600); err != nil {
		t.Fatal(err)
	}
	out := deploy(t).Kubectl(t, "", "apply", "--dry-run=server", "-k", dir, "-o", "yaml")
	for _, want := range []string{"image: registry.example.com/keel:v1.2.3\n", "- name: KEEL_NODE_AGENT_STATUS\n            value: node\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("the overlay does not give %q:\n%s", want, out)
		}
	}
}

// What the manifest and the page set by environment are settings of the agent.
func TestDaemonSet_setsWhatTheAgentKnows(t *testing.T) {
	reference, err := os.ReadFile("../../docs/cli/node-agent.md")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`\bKEEL_[A-Z_]+`)
	for file, want := range map[string]int{"node-agent.yaml": 2, "README.md": 1} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got := names.FindAllString(string(text), -1)
		if len(got) != want {
			t.Errorf("%s sets %q, want %d", file, got, want)
		}
		for _, name := range got {
			if !strings.Contains(string(reference), "`"+name+"`") {
				t.Errorf("%s sets %s, which is no setting of keel node-agent", file, name)
			}
		}
	}
}

// template is a pod as the DaemonSet's controller would make it on a node.
func template(t *testing.T, s *kubetest.Server, namespace, node string) *corev1.Pod {
	t.Helper()
	var set appsv1.DaemonSet
	if err := s.Do(t.Context(), s.Admin(), http.MethodGet, "/apis/apps/v1/namespaces/keel-system/daemonsets/keel-node-agent", nil, &set); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: set.Spec.Template.ObjectMeta, Spec: set.Spec.Template.Spec}
	pod.Name, pod.Namespace, pod.Spec.NodeName = "keel-node-agent-"+node, namespace, node
	return pod
}

// The server takes a pod of the DaemonSet, gives it its token and its priority.
func TestDaemonSet_makesPods(t *testing.T) {
	s := deploy(t)
	pod := template(t, s, "keel-system", "pods-1")
	const pods = "/api/v1/namespaces/keel-system/pods"
	var got corev1.Pod
	if err := s.Do(t.Context(), s.Admin(), http.MethodPost, pods, pod, &got); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Do(context.WithoutCancel(t.Context()), s.Admin(), http.MethodDelete, pods+"/"+pod.Name+"?gracePeriodSeconds=0", nil, nil)
	})
	// What a kubelet is told to do to the host.
	spec, keel := got.Spec, got.Spec.Containers[0]
	if !spec.HostPID || spec.HostNetwork || spec.HostIPC || !*keel.SecurityContext.Privileged || !*keel.SecurityContext.ReadOnlyRootFilesystem {
		t.Errorf("the pod is not privileged, or more of the host than it needs: %+v, %+v", spec, keel.SecurityContext)
	}
	mounted := func(path string) *corev1.VolumeMount {
		i := slices.IndexFunc(keel.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == path })
		if i < 0 {
			t.Fatalf("nothing is mounted at %s: %+v", path, keel.VolumeMounts)
		}
		return &keel.VolumeMounts[i]
	}
	if m := mounted("/host"); m.ReadOnly || m.MountPropagation == nil || *m.MountPropagation != corev1.MountPropagationHostToContainer {
		t.Errorf("the host's root is mounted as %+v", m)
	}
	mounted("/var/run/secrets/kubernetes.io/serviceaccount")
	if len(keel.Resources.Limits) != 0 || keel.Resources.Requests.Memory().IsZero() {
		t.Errorf("resources: %+v", keel.Resources)
	}
	if spec.Priority == nil || *spec.Priority != 2000001000 {
		t.Errorf("the priority is %v, not that of system-node-critical", spec.Priority)
	}
	if !slices.ContainsFunc(spec.Tolerations, func(t corev1.Toleration) bool {
		return t.Operator == corev1.TolerationOpExists && t.Key == "" && t.Effect == ""
	}) {
		t.Errorf("it does not tolerate everything: %+v", spec.Tolerations)
	}
}

// What keel-system allows, other namespaces need not.
func TestDaemonSet_needsItsNamespace(t *testing.T) {
	s := deploy(t)
	ns := s.Namespace(t, "baseline")
	s.Kubectl(t, "", "label", "namespace", ns, "pod-security.kubernetes.io/enforce=baseline")
	s.ServiceAccount(t, ns, "keel-node-agent")
	err := s.Do(t.Context(), s.Admin(), http.MethodPost, "/api/v1/namespaces/"+ns+"/pods?dryRun=All", template(t, s, ns, "baseline-1"), nil)
	refused(t, err, http.StatusForbidden, `violates PodSecurity "baseline:latest"`, "host namespaces", "privileged", "hostPath")
}

// Another pod of the ServiceAccount has no token unless it asks for it.
func TestServiceAccount_givesNoTokenUnasked(t *testing.T) {
	s := deploy(t)
	other := template(t, s, "keel-system", "other-1")
	other.Spec.AutomountServiceAccountToken = nil
	var got corev1.Pod
	if err := s.Do(t.Context(), s.Admin(), http.MethodPost, "/api/v1/namespaces/keel-system/pods?dryRun=All", other, &got); err != nil {
		t.Fatal(err)
	}
	for _, m := range got.Spec.Containers[0].VolumeMounts {
		if strings.Contains(m.MountPath, "serviceaccount") {
			t.Errorf("it has one: %+v", m)
		}
	}
}
