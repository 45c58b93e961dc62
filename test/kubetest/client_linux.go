package kubetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tlspu/keel/test/parts"
)

// Admin is the configuration of an administrator, who may do everything. Each
// call makes one. It has no client side limit of requests.
func (s *Server) Admin() *rest.Config {
	return &rest.Config{
		Host:            s.URL,
		QPS:             -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: s.ca.pem, CertData: s.ca.adminCert, KeyData: s.ca.adminKey},
	}
}

// WithToken is the configuration of who has the token.
func (s *Server) WithToken(token string) *rest.Config {
	return &rest.Config{Host: s.URL, QPS: -1, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: s.ca.pem}}
}

// Kubeconfig writes a configuration to a file, which lasts as long as t.
func (s *Server) Kubeconfig(t testing.TB, c *rest.Config) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: c.Host, CertificateAuthorityData: c.CAData}
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{ClientCertificateData: c.CertData, ClientKeyData: c.KeyData, Token: c.BearerToken}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	name := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, name); err != nil {
		t.Fatal(err)
	}
	return name
}

// InCluster is what a pod of a ServiceAccount finds: a folder, to be mounted at
// /var/run/secrets/kubernetes.io/serviceaccount, and its environment. The folder
// lasts as long as t; the kubelet would write a new token into it from time to
// time.
func (s *Server) InCluster(t testing.TB, namespace, token string) (dir string, env []string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{"token": token, "namespace": namespace, "ca.crt": string(s.ca.pem)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return dir, []string{"KUBERNETES_SERVICE_HOST=" + u.Hostname(), "KUBERNETES_SERVICE_PORT=" + u.Port()}
}

// Kubectl runs kubectl as the administrator and returns its standard output; its
// failure ends the test. Input, if not empty, is its standard input.
func (s *Server) Kubectl(t testing.TB, input string, args ...string) string {
	t.Helper()
	parts.Need(t, "kubectl")
	cmd := exec.CommandContext(t.Context(), parts.Path("kubectl"), append([]string{"--kubeconfig", s.Kubeconfig(t, s.Admin())}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+s.dir) // its cache
	cmd.Stdin = bytes.NewReader([]byte(input))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kubectl %v: %v\n%s", args, err, stderr.Bytes())
	}
	return string(out)
}

// InstallCRDs applies the files of a folder and waits until the server knows
// their kinds.
func (s *Server) InstallCRDs(t testing.TB, dir string) {
	t.Helper()
	s.Kubectl(t, "", "apply", "--server-side", "-f", dir)
	s.Kubectl(t, "", "wait", "--for=condition=Established", "--timeout=60s", "-f", dir)
	// For a moment more, lists are answered with "storage is (re)initializing".
	for _, resource := range []string{"nodeconfigs", "nodestates"} {
		Await(t, resource+" can be listed", func() bool {
			err := s.Do(t.Context(), s.Admin(), http.MethodGet, "/apis/keel.tlspu.io/v1alpha1/"+resource, nil, nil)
			status := (*StatusError)(nil)
			return err == nil || errors.As(err, &status) && status.Code == http.StatusNotFound // dir has not this one
		})
	}
}

// StatusError is an answer that is none of 2xx.
type StatusError struct {
	Code    int
	Message string // of the Status in the answer, or its text
}

func (e *StatusError) Error() string { return fmt.Sprintf("%d: %s", e.Code, e.Message) }

// Do sends one request as who c is: body, if not nil, as JSON, the answer into
// into, if not nil. Of a PATCH the body is a JSON merge patch. An answer that is
// none of 2xx is a *StatusError.
func (s *Server) Do(ctx context.Context, c *rest.Config, method, path string, body, into any) error {
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		return err
	}
	var data bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&data).Encode(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, &data)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode/100 != 2 {
		status := metav1.Status{Message: string(answer)}
		_ = json.Unmarshal(answer, &status)
		return fmt.Errorf("%s %s: %w", method, path, &StatusError{resp.StatusCode, status.Message})
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}

// create sends an object to a path as the administrator.
func (s *Server) create(t testing.TB, path string, object, into any) {
	t.Helper()
	if err := s.Do(t.Context(), s.Admin(), http.MethodPost, path, object, into); err != nil {
		t.Fatal(err)
	}
}

// Namespace makes a namespace of a new name, which starts with prefix.
func (s *Server) Namespace(t testing.TB, prefix string) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + "-"}}
	s.create(t, "/api/v1/namespaces", ns, ns)
	return ns.Name
}

// Node makes a node, with the status that a kubelet would have given it. It is
// removed at the end of t, since its name is the whole cluster's.
func (s *Server) Node(t testing.TB, n corev1.Node) {
	t.Helper()
	s.create(t, "/api/v1/nodes", &n, nil)
	t.Cleanup(func() {
		// It may be gone already, or the server.
		_ = s.Do(context.WithoutCancel(t.Context()), s.Admin(), http.MethodDelete, "/api/v1/nodes/"+n.Name, nil, nil)
	})
	patch := map[string]any{"status": n.Status}
	if err := s.Do(t.Context(), s.Admin(), http.MethodPatch, "/api/v1/nodes/"+n.Name+"/status", patch, nil); err != nil {
		t.Fatal(err)
	}
}

// ServiceAccount makes one.
func (s *Server) ServiceAccount(t testing.TB, namespace, name string) {
	t.Helper()
	s.create(t, "/api/v1/namespaces/"+namespace+"/serviceaccounts", &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil)
}

// NodeToken is what a pod of the ServiceAccount on the node has: a token bound to
// it, and by it to the node. It makes the pod, which lives until it is deleted;
// the node need not be there, but then the token does not name its UID.
func (s *Server) NodeToken(t testing.TB, namespace, account, node string) string {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: account + "-", Namespace: namespace},
		Spec: corev1.PodSpec{
			NodeName:           node,
			ServiceAccountName: account,
			Containers:         []corev1.Container{{Name: "keel", Image: "keel"}},
		},
	}
	s.create(t, "/api/v1/namespaces/"+namespace+"/pods", pod, pod)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
	}}
	s.create(t, "/api/v1/namespaces/"+namespace+"/serviceaccounts/"+account+"/token", request, request)
	return request.Status.Token
}
