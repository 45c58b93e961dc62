package kubetest

import (
	"crypto/tls"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tlspu/keel/test/parts"
)

func TestMain(m *testing.M) { Main(m) }

var insecure = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

func TestShared_isARealServer(t *testing.T) {
	began := time.Now()
	s := Shared(t)
	t.Logf("up after %v", time.Since(began))
	if Shared(t) != s {
		t.Error("the second call starts another server")
	}
	var version struct{ GitVersion, Major, Minor string }
	if err := s.Do(t.Context(), s.Admin(), http.MethodGet, "/version", nil, &version); err != nil {
		t.Fatal(err)
	}
	if want := pinned(t); version.GitVersion != want {
		t.Errorf("the server is %+v, want %s", version, want)
	}
	if got := s.Kubectl(t, "", "version"); strings.Count(got, pinned(t)) != 2 {
		t.Errorf("kubectl and the server are not %s:\n%s", pinned(t), got)
	}
}

// pinned is the version of Kubernetes in test/kube/go.mod.
func pinned(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../kube/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if _, rest, ok := strings.Cut(line, "k8s.io/kubernetes v"); ok {
			return "v" + strings.Fields(rest)[0]
		}
	}
	t.Fatal("test/kube/go.mod does not require k8s.io/kubernetes")
	return ""
}

// code is the HTTP code of an error of Do.
func code(err error) int {
	if status := (*StatusError)(nil); errors.As(err, &status) {
		return status.Code
	}
	return 0
}

func TestNodeToken_isBoundToItsNode(t *testing.T) {
	s := Shared(t)
	ns := s.Namespace(t, "token")
	s.ServiceAccount(t, ns, "agent")
	s.Node(t, corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-of-token"},
		Status:     corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KernelVersion: "6.1"}},
	})
	var node corev1.Node
	if err := s.Do(t.Context(), s.Admin(), http.MethodGet, "/api/v1/nodes/node-of-token", nil, &node); err != nil || node.Status.NodeInfo.KernelVersion != "6.1" {
		t.Errorf("the node: %v, %+v", err, node.Status)
	}
	c := s.WithToken(s.NodeToken(t, ns, "agent", "node-of-token"))
	c.UserAgent = "keel-test"
	var review struct {
		Status struct {
			UserInfo struct {
				Username string
				Extra    map[string][]string
			}
		}
	}
	body := map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
	if err := s.Do(t.Context(), c, http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", body, &review); err != nil {
		t.Fatal(err)
	}
	who := review.Status.UserInfo
	if want := "system:serviceaccount:" + ns + ":agent"; who.Username != want {
		t.Errorf("the token is of %s, want %s", who.Username, want)
	}
	for key, want := range map[string]string{"node-name": "node-of-token", "node-uid": string(node.UID)} {
		if got := who.Extra["authentication.kubernetes.io/"+key]; len(got) != 1 || got[0] != want {
			t.Errorf("%s of the token: %q, want %q", key, got, want)
		}
	}

	// RBAC is on: it may nothing that nobody allowed.
	from := time.Now()
	if err := s.Do(t.Context(), c, http.MethodGet, "/api/v1/nodes", nil, nil); code(err) != http.StatusForbidden {
		t.Errorf("it lists nodes: %v", err)
	}
	if err := s.Do(t.Context(), s.WithToken("forged"), http.MethodGet, "/api/v1/nodes", nil, nil); code(err) != http.StatusUnauthorized {
		t.Errorf("a forged token: %v", err)
	}
	var mine []Request
	Await(t, "the audit log has the answer", func() bool {
		mine = nil
		for _, r := range s.Requests(t, from) {
			if r.UserAgent == "keel-test" {
				mine = append(mine, r)
			}
		}
		return len(mine) > 0
	})
	if len(mine) != 1 || mine[0].Verb != "list" || mine[0].Resource != "nodes" || mine[0].Code != 403 || mine[0].Writes() || mine[0].User != who.Username || mine[0].Took <= 0 {
		t.Errorf("the audit log has %+v, want one list of nodes that is forbidden", mine)
	}
}

func TestInstallCRDs_checksWhatIsStored(t *testing.T) {
	s := Shared(t)
	s.InstallCRDs(t, "../../deploy/kubernetes/crd")
	good := `{"apiVersion": "keel.tlspu.io/v1alpha1", "kind": "NodeConfig", "metadata": {"name": "good"}, "spec": {"type": "file"}}`
	s.Kubectl(t, good, "create", "-f", "-")
	s.Kubectl(t, good, "delete", "-f", "-")
	bad := map[string]any{"apiVersion": "keel.tlspu.io/v1alpha1", "kind": "NodeConfig", "metadata": map[string]any{"name": "bad"}, "spec": map[string]any{}}
	err := s.Do(t.Context(), s.Admin(), http.MethodPost, "/apis/keel.tlspu.io/v1alpha1/nodeconfigs", bad, nil)
	if code(err) != http.StatusUnprocessableEntity || !strings.Contains(err.Error(), "spec.type") {
		t.Errorf("a NodeConfig without a type: %v", err)
	}
}

func TestKubeconfig_isReadByClients(t *testing.T) {
	s := Shared(t)
	for name, c := range map[string]*rest.Config{"admin": s.Admin(), "token": s.WithToken("forged")} {
		read, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig(t, c))
		if err != nil {
			t.Fatal(err)
		}
		err = s.Do(t.Context(), read, http.MethodGet, "/api/v1/nodes", nil, nil)
		if want := map[string]int{"admin": 0, "token": 401}[name]; code(err) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDaemon_stopsAndStarts(t *testing.T) {
	s := Start(t, Options{})
	ns := s.Namespace(t, "kept")
	find := func() error {
		return s.Do(t.Context(), s.Admin(), http.MethodGet, "/api/v1/namespaces/"+ns, nil, nil)
	}
	s.API.Stop()
	s.API.Stop()
	if err := find(); err == nil || code(err) != 0 {
		t.Errorf("a stopped server answers %v", err)
	}
	began := time.Now()
	if err := s.API.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("up again after %v", time.Since(began))
	if err := find(); err != nil {
		t.Errorf("after the outage: %v", err)
	}
	s.Etcd.Stop()
	if err := s.Etcd.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := find(); err != nil {
		t.Errorf("after the outage of etcd: %v", err)
	}
}

func TestMetrics_areOfBothProcesses(t *testing.T) {
	api, etcd := Shared(t).Metrics(t)
	for name, text := range map[string]string{"apiserver_request_total": api, "etcd_mvcc_db_total_size_in_bytes": etcd} {
		if !strings.Contains(text, "\n"+name) {
			t.Errorf("no %s in\n%.500s", name, text)
		}
	}
}

func TestRefuseWrites(t *testing.T) {
	s := Start(t, Options{})
	ns := s.Namespace(t, "full")
	write := func() error {
		body := map[string]any{"metadata": map[string]any{"annotations": map[string]any{"at": time.Now().String()}}}
		return s.Do(t.Context(), s.Admin(), http.MethodPatch, "/api/v1/namespaces/"+ns, body, nil)
	}
	s.RefuseWrites(t, true)
	if err := write(); code(err) != http.StatusInternalServerError || !strings.Contains(err.Error(), "database space exceeded") {
		t.Errorf("got %v, want it refused", err)
	}
	if err := s.Do(t.Context(), s.Admin(), http.MethodGet, "/api/v1/namespaces/"+ns, nil, nil); err != nil {
		t.Errorf("a read: %v", err)
	}
	s.RefuseWrites(t, false)
	if err := write(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestStart_saysWhyNot(t *testing.T) {
	parts.Need(t, "etcd", "kube-apiserver")
	_, err := start(t.Context(), t.TempDir(), Options{APIArgs: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), "start kube-apiserver: it ended") || !strings.Contains(err.Error(), "no-such-flag") {
		t.Errorf("got %v, want the words of kube-apiserver", err)
	}
}

// A test that is killed leaves no server behind.
func TestStart_endsWithItsProcess(t *testing.T) {
	if os.Getenv("KEEL_TEST_SERVER_CHILD") != "" {
		s := Start(t, Options{})
		if err := os.WriteFile(os.Getenv("KEEL_TEST_SERVER_CHILD"), []byte(s.URL), 0o600); err != nil {
			t.Fatal(err)
		}
		<-t.Context().Done()
	}
	parts.Need(t, "etcd", "kube-apiserver")
	name := filepath.Join(t.TempDir(), "url")
	child := exec.Command(os.Args[0], "-test.run=^TestStart_endsWithItsProcess$")
	child.Env = append(os.Environ(), "KEEL_TEST_SERVER_CHILD="+name, "TMPDIR="+t.TempDir())
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Process.Kill() })
	up := func() bool {
		url, err := os.ReadFile(name)
		return err == nil && get(t.Context(), insecure, string(url)+"/version") == nil
	}
	Await(t, "the child's server is up", up)
	_ = child.Process.Kill()
	_ = child.Wait()
	Await(t, "the server ends", func() bool { return !up() })
}
