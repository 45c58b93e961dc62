package kube

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tlspu/keel/test/kubetest"
	"github.com/tlspu/keel/test/machine"
)

func base64of(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

// An agent is the built binary, which keeps a folder as the root of a machine.
type agent struct {
	process *machine.Process
	root    string
	metrics string // URL
}

// startAgent starts an agent for a Node, which is made, and waits until it is
// ready. It ends with b.
func startAgent(b *testing.B, s *kubetest.Server, name string, args ...string) *agent {
	b.Helper()
	keel, err := filepath.Abs("../../../bin/keel")
	if err != nil {
		b.Fatal(err)
	}
	if _, err := os.Stat(keel); err != nil {
		b.Fatalf("%v: make build first", err)
	}
	node(b, s, name)
	dir := b.TempDir()
	a := &agent{root: filepath.Join(dir, "root")}
	if err := os.MkdirAll(filepath.Join(a.root, "etc"), 0o755); err != nil {
		b.Fatal(err)
	}
	logName := filepath.Join(dir, "log")
	log, err := os.Create(logName)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(keel, append([]string{"node-agent", "--source=kubernetes", "--node-name", name, "--host-root", a.root,
		"--kubeconfig", kubeconfig(b, s, dir, name), "--metrics-addr", "127.0.0.1:0", "--health-addr", "0"}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	if a.process, err = machine.Start(cmd); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = a.process.Signal(syscall.SIGTERM)
		err := a.process.Wait()
		if err != nil {
			b.Errorf("the agent: %v", err)
		}
		if b.Failed() {
			text, _ := os.ReadFile(logName)
			b.Logf("%.5000s", text)
		}
	})
	until(b, "the agent serves its metrics", soon, time.Minute, func() bool {
		text, err := os.ReadFile(logName)
		if err != nil {
			b.Fatal(err)
		}
		_, rest, ok := strings.Cut(string(text), "addr=127.0.0.1:")
		port, _, whole := strings.Cut(rest, "\n")
		a.metrics = "http://127.0.0.1:" + strings.TrimSpace(port) + "/metrics"
		return ok && whole
	})
	until(b, "the agent is ready", soon, time.Minute, func() bool { return a.metric(b, "keel_facts_collected_timestamp_seconds") > 0 })
	return a
}

// metric is the sum of the series of a name.
func (a *agent) metric(b *testing.B, name string) float64 {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, a.metrics, nil)
	if err != nil {
		b.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	sum, err := sumOf(resp.Body, name)
	if err != nil {
		b.Fatal(err)
	}
	return sum
}

// sumOf adds up the series of a name in a text of metrics.
func sumOf(text io.Reader, name string) (sum float64, err error) {
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), name)
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		v, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", name, err)
		}
		sum += v
	}
	return sum, lines.Err()
}

// private is the memory that the agent shares with nobody, in bytes. Of all of it,
// clean is pages of the binary's file, which the kernel can drop at any time.
func (a *agent) private(b *testing.B) (all, clean int64) {
	b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", a.process.PID))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) != 3 || !strings.HasPrefix(fields[0], "Private_") {
			continue
		}
		kib, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		all += kib << 10
		if fields[0] == "Private_Clean:" {
			clean += kib << 10
		}
	}
	return all, clean
}
