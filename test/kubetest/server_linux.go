package kubetest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tlspu/keel/test/machine"
	"github.com/tlspu/keel/test/parts"
)

// startTimeout is long: a busy machine with two cores needs 30 s, an idle one 5.
const startTimeout = 2 * time.Minute

//go:embed audit.yaml
var auditPolicy []byte

// Options of a Server; the zero value is what most tests want.
type Options struct {
	EtcdArgs []string // more arguments, after the usual ones
	APIArgs  []string
}

// Server is an etcd and a kube-apiserver that listen on loopback. RBAC decides
// who may do what, as in a cluster. There are no controllers and no kubelet:
// nothing makes a default ServiceAccount, collects garbage, or runs a pod.
type Server struct {
	URL  string
	Etcd *Daemon
	API  *Daemon

	dir  string
	etcd string // URL
	ca   authority
}

// Start starts a server that ends with t. It is up in 5 s.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	parts.Need(t, "etcd", "kube-apiserver", "kubectl")
	s, err := start(t.Context(), t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

// shared is the server of all tests of a package.
var shared struct {
	sync.Mutex
	allowed bool // by Main
	tried   bool
	dir     string
	server  *Server
	err     error
}

// Main runs a package's tests, from its TestMain, and ends the server that
// Shared started.
func Main(m *testing.M) {
	shared.allowed = true
	m.Run()
	if shared.server != nil {
		shared.server.stop()
	}
	if shared.dir != "" {
		_ = os.RemoveAll(shared.dir)
	}
}

// Shared is a server for all tests of a package, whose TestMain calls Main. The
// first call starts it.
func Shared(t testing.TB) *Server {
	t.Helper()
	parts.Need(t, "etcd", "kube-apiserver", "kubectl")
	shared.Lock()
	defer shared.Unlock()
	if !shared.allowed {
		t.Fatal("kubetest.Shared: call kubetest.Main from TestMain, so that the server ends with the tests")
	}
	if !shared.tried {
		shared.tried = true
		shared.dir, shared.err = os.MkdirTemp("", "kubetest-")
		if shared.err == nil {
			shared.server, shared.err = start(t.Context(), shared.dir, Options{})
		}
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

func start(ctx context.Context, dir string, o Options) (*Server, error) {
	s := &Server{dir: dir}
	var err error
	if s.ca, err = newAuthority(dir); err != nil {
		return nil, fmt.Errorf("make certificates: %w", err)
	}
	if err := os.WriteFile(s.path("audit.yaml"), auditPolicy, 0o600); err != nil {
		return nil, err
	}
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	s.etcd = fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	peer := fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	s.URL = fmt.Sprintf("https://127.0.0.1:%d", ports[2])
	s.Etcd = &Daemon{
		argv: append([]string{parts.Path("etcd"),
			"--data-dir=" + s.path("etcd"),
			"--listen-client-urls=" + s.etcd, "--advertise-client-urls=" + s.etcd,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
		}, o.EtcdArgs...),
		log:   s.path("etcd.log"),
		ready: func(ctx context.Context) error { return get(ctx, http.DefaultClient, s.etcd+"/health") },
	}
	s.API = &Daemon{
		argv: append([]string{parts.Path("kube-apiserver"),
			"--etcd-servers=" + s.etcd,
			"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[2]),
			"--tls-cert-file=" + s.path("server.crt"), "--tls-private-key-file=" + s.path("server.key"),
			"--client-ca-file=" + s.path("ca.crt"),
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file=" + s.path("ca.key"), "--service-account-signing-key-file=" + s.path("ca.key"),
			"--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none",
			"--authorization-mode=RBAC",
			"--allow-privileged", // a DaemonSet with hostPID is
			"--audit-policy-file=" + s.path("audit.yaml"), "--audit-log-path=" + s.AuditLog(), "--audit-log-maxsize=100000",
		}, o.APIArgs...),
		log: s.path("kube-apiserver.log"),
		ready: func(ctx context.Context) error {
			client, err := rest.HTTPClientFor(s.Admin())
			if err != nil {
				return err
			}
			defer client.CloseIdleConnections()
			return get(ctx, client, s.URL+"/readyz")
		},
	}
	for _, d := range []*Daemon{s.Etcd, s.API} {
		if err := d.Start(ctx); err != nil {
			s.stop()
			return nil, err
		}
	}
	return s, nil
}

func (s *Server) stop() {
	s.API.Stop()
	s.Etcd.Stop()
}

func (s *Server) path(name string) string { return filepath.Join(s.dir, name) }

// Daemon is one of a server's two processes.
type Daemon struct {
	argv  []string
	log   string
	ready func(ctx context.Context) error

	process *machine.Process // nil when it does not run
}

// Stop kills the process, as a machine that loses power would; what it has told
// its clients to be stored is. A second call does nothing.
func (d *Daemon) Stop() {
	if d.process != nil {
		d.process.Kill()
		d.process = nil
	}
}

// Start starts the process at the address it had before and waits until it is
// ready. The error ends with the last words of its log.
func (d *Daemon) Start(ctx context.Context) error {
	if d.process != nil {
		return nil
	}
	log, err := os.OpenFile(d.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(d.argv[0], d.argv[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, filepath.Dir(d.log)
	p, err := machine.Start(cmd)
	if err != nil {
		return fmt.Errorf("start %s: %w", filepath.Base(d.argv[0]), err)
	}
	d.process = p
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := d.await(ctx); err != nil {
		d.Stop()
		return fmt.Errorf("start %s: %w\n%s", filepath.Base(d.argv[0]), err, tail(d.log))
	}
	return nil
}

func (d *Daemon) await(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := d.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-d.process.Ended():
			return fmt.Errorf("it ended: %w", d.process.Wait())
		case <-ctx.Done():
			return fmt.Errorf("it does not get ready: %w", err)
		case <-tick.C:
		}
	}
}

// get succeeds when the answer is 200.
func get(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return nil
}

// tail is the end of a log.
func tail(name string) []byte {
	text, _ := os.ReadFile(name)
	return text[max(0, len(text)-4000):]
}

// freePorts finds ports below those that a kernel gives to clients: nobody takes
// them while a daemon is stopped.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range 1000 {
		port := 12000 + rand.IntN(16000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		defer func() { _ = l.Close() }() // together, so that they differ
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, errors.New("no port of 127.0.0.1 is free")
}
