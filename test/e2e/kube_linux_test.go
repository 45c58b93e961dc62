package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/test/kubetest"
	"github.com/tlspu/keel/test/machine"
	"github.com/tlspu/keel/test/parts"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

const (
	system      = "keel-system"
	account     = "keel-node-agent"
	nodeConfigs = "/apis/keel.tlspu.io/v1alpha1/nodeconfigs/"
	// endTime is how long an agent may take to end that has nothing to finish: it
	// gives statuses that cannot be sent 10 s, and the machine may be busy.
	endTime = 40 * time.Second
)

type object = map[string]any

// A cluster is a real API server with everything that deploy/kubernetes installs:
// kinds, rights and policies. There is no kubelet: the test starts the agents.
type cluster struct {
	*testing.T
	*kubetest.Server
	image string         // root of the agents' pods, as make image makes it
	pod   corev1.PodSpec // of the DaemonSet
	began time.Time
}

// deployed is done once: all tests share the server.
var deployed sync.Once

func newCluster(t *testing.T) *cluster {
	t.Helper()
	parts.Need(t, "root", "debian-root", "mounted root", "nsenter")
	dependOnKeel(t)
	c := &cluster{T: t, Server: kubetest.Shared(t), image: machine.KeelImage(t)}
	deployed.Do(c.deploy)
	var set appsv1.DaemonSet
	if err := json.Unmarshal([]byte(c.kubectl("", "get", "daemonset", "-n", system, account, "-o", "json")), &set); err != nil {
		t.Fatal(err)
	}
	c.pod, c.began = set.Spec.Template.Spec, time.Now()
	return c
}

// deploy installs as an administrator would, and waits until the policies work.
func (c *cluster) deploy() {
	c.Helper()
	c.kubectl("", "apply", "-f", "../../deploy/kubernetes/namespace.yaml")
	c.kubectl("", "apply", "-k", "../../deploy/kubernetes")
	c.kubectl("", "wait", "--for=condition=Established", "--timeout=60s", "crd/nodeconfigs.keel.tlspu.io", "crd/nodestates.keel.tlspu.io")
	c.apply("policy-works", "  type: file\n")
	mine := c.WithToken(c.NodeToken(c, system, account, "policy-works-1"))
	theirs := object{"status": object{"nodes": object{"policy-works-2": object{"lastRunTime": "2026-10-15T12:00:00Z", "lastResult": "error"}}}}
	kubetest.Await(c.T, "the policies work", func() bool {
		err := c.Do(c.Context(), mine, http.MethodPatch, nodeConfigs+"policy-works/status?dryRun=All", theirs, nil)
		return err != nil && strings.Contains(err.Error(), "of no other node")
	})
	c.kubectl("", "delete", "nodeconfig", "policy-works")
}

// tell writes a line of the test's story.
func (c *cluster) tell(format string, args ...any) {
	c.Helper()
	c.Logf("%6.2fs  %s", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}

func (c *cluster) kubectl(input string, args ...string) string {
	c.Helper()
	return strings.TrimSuffix(c.Kubectl(c, input, args...), "\n")
}

// apply applies a NodeConfig, which goes with the test.
func (c *cluster) apply(name, spec string) {
	c.Helper()
	c.kubectl("apiVersion: keel.tlspu.io/v1alpha1\nkind: NodeConfig\nmetadata: {name: "+name+"}\nspec:\n"+spec, "apply", "-f", "-")
	c.Cleanup(func() {
		// It may be gone already.
		_ = c.Do(context.WithoutCancel(c.Context()), c.Admin(), http.MethodDelete, nodeConfigs+name, nil, nil)
	})
}

// edit merges a specification into that of a NodeConfig and gives the generation
// that it has then.
func (c *cluster) edit(name string, spec object) int64 {
	c.Helper()
	var nc v1alpha1.NodeConfig
	if err := c.Do(c.Context(), c.Admin(), http.MethodPatch, nodeConfigs+name, object{"spec": spec}, &nc); err != nil {
		c.Fatal(err)
	}
	return nc.Generation
}

func (c *cluster) nodeConfig(name string) (nc v1alpha1.NodeConfig) {
	c.Helper()
	if err := c.Do(c.Context(), c.Admin(), http.MethodGet, nodeConfigs+name, nil, &nc); err != nil {
		c.Fatal(err)
	}
	return nc
}

// succeeded reports whether a node's status says so of the NodeConfig as it is now.
func (c *cluster) succeeded(name, node string) bool {
	c.Helper()
	nc := c.nodeConfig(name)
	s, ok := nc.Status.Nodes[node]
	return ok && s.LastResult == v1alpha1.Success && s.ObservedGeneration == nc.Generation && !s.RestartPending
}

// node makes a Node as a kubelet would.
func (c *cluster) node(name string, labels map[string]string) {
	c.Helper()
	c.Node(c, corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Status: corev1.NodeStatus{
			NodeInfo:  corev1.NodeSystemInfo{KubeletVersion: "v1.37.2", OSImage: "Debian GNU/Linux 12 (bookworm)"},
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeHostName, Address: name}},
		},
	})
}

// An agent is the built binary as the container of a pod of the DaemonSet.
type agent struct {
	*cluster
	node    string
	host    *machine.Host // it runs on; nil: on this machine, with a folder as its root
	root    string
	account string   // folder in which the pod finds its ServiceAccount
	env     []string // where the API server is

	process *machine.Process
	said    *buffer
}

// agent makes an agent of a node, with a token that is bound to it. It is started
// by start.
func (c *cluster) agent(node string, host *machine.Host, root string) *agent {
	c.Helper()
	a := &agent{cluster: c, node: node, host: host, root: root, said: new(buffer)}
	a.account, a.env = c.InCluster(c, system, c.NodeToken(c, system, account, node))
	c.Cleanup(func() {
		if c.Failed() {
			c.Logf("the last agent of %s said\n%s", node, a.said.tail())
		}
	})
	return a
}

// start starts it with more arguments than the DaemonSet gives.
func (a *agent) start(args ...string) {
	a.Helper()
	container := a.pod.Containers[0]
	args = append(append([]string{}, container.Args...), args...)
	// The ports of the DaemonSet may be taken here, where the pod has no network of its
	// own. Those that were free are in the log.
	cmd := exec.Command("/usr/bin/keel", append(args, "--metrics-addr=127.0.0.1:0", "--health-addr=127.0.0.2:0")...)
	cmd.Env = append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, a.env...)
	for _, e := range container.Env {
		fields := map[string]string{"spec.nodeName": a.node, "metadata.namespace": system}
		if e.ValueFrom != nil {
			e.Value = fields[e.ValueFrom.FieldRef.FieldPath]
		}
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	a.said = new(buffer)
	cmd.Stdout, cmd.Stderr = a.said, a.said
	pod := machine.Pod{
		Image: a.image, Root: a.root, ReadOnly: *container.SecurityContext.ReadOnlyRootFilesystem,
		Mounts: map[string]string{"/var/run/secrets/kubernetes.io/serviceaccount": a.account},
	}
	if a.host != nil {
		a.process = a.host.Start(a, pod, cmd)
	} else {
		a.process = pod.Start(a, cmd)
	}
}

// get asks the agent; code is 0 when it does not answer.
func (a *agent) get(settings, path string) (code int, text string) {
	a.Helper()
	addr := regexp.MustCompile(`settings=` + settings + ` addr=(\S+)`).FindStringSubmatch(a.said.String())
	if addr == nil {
		return 0, ""
	}
	ctx, cancel := context.WithTimeout(a.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr[1]+path, nil)
	if err != nil {
		a.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, ""
	}
	return resp.StatusCode, strings.TrimSpace(string(body))
}

// ready is what the kubelet's probe gets.
func (a *agent) ready() (code int, text string) { return a.get("health-addr", "/readyz") }

// awaitReady waits until the agent is ready.
func (a *agent) awaitReady() {
	a.Helper()
	kubetest.Await(a.T, "the agent of "+a.node+" is ready", func() bool {
		code, _ := a.ready()
		return code == http.StatusOK || a.ended()
	})
	if a.ended() {
		a.Fatalf("the agent of %s ended: %v", a.node, a.process.Wait())
	}
}

// metric is the value of a series; -1: there is none.
func (a *agent) metric(series string) float64 {
	a.Helper()
	_, text := a.get("metrics-addr", "/metrics")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				a.Fatal(err)
			}
			return n
		}
	}
	return -1
}

func (a *agent) ended() bool {
	select {
	case <-a.process.Ended():
		return true
	default:
		return false
	}
}

// end ends it as the kubelet does; the error is that of its exit code.
func (a *agent) end() error {
	a.Helper()
	if err := a.process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return a.wait()
}

// wait waits for its end.
func (a *agent) wait() error {
	a.Helper()
	select {
	case <-a.process.Ended():
		return a.process.Wait()
	case <-time.After(endTime):
	}
	err := a.process.Signal(syscall.SIGQUIT) // it says what it waits for
	<-a.process.Ended()
	return errors.Join(fmt.Errorf("it did not end within %s", endTime), err)
}

// buffer is written to by a process while a test reads it.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// lines are those that hold all the words.
func (b *buffer) lines(words ...string) (list []string) {
	for line := range strings.Lines(b.String()) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			list = append(list, strings.TrimSuffix(line, "\n"))
		}
	}
	return list
}

// tail is the end of what was said.
func (b *buffer) tail() string {
	text := b.String()
	return text[max(0, len(text)-20000):]
}
