package node

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/plugin"
	"github.com/tlspu/keel/test/nodetest"
	"github.com/tlspu/keel/test/recorded"
)

// manyFiles is how many files of a NodeConfig the benchmarks have.
const manyFiles = 10_000

// many makes a folder of NodeConfigs of some 500 bytes, and a machine that is as
// they say.
func many(b *testing.B) (plugin.Env, settings) {
	dir := b.TempDir()
	s := *Role().Settings().(*settings)
	s.Source = fromFolder
	s.ConfigDir, s.StateDir = filepath.Join(dir, "configs"), filepath.Join(dir, "state")
	root := filepath.Join(dir, "root")
	for _, dir := range []string{s.ConfigDir, filepath.Join(root, "etc")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
	}
	value := strings.Repeat("0123456789", 35)
	old := time.Now().Add(-time.Hour)
	for i := range manyFiles {
		name := fmt.Sprintf("n%05d", i)
		path := filepath.Join(s.ConfigDir, name+".yaml")
		for _, f := range []struct{ path, content string }{
			{path, nodetest.Doc(name, "x"+value)}, {filepath.Join(root, "etc", name), "x" + value},
		} {
			if err := os.WriteFile(f.path, []byte(f.content), 0o644); err != nil {
				b.Fatal(err)
			}
		}
		if err := os.Chtimes(path, old, old); err != nil {
			b.Fatal(err)
		}
	}
	return plugin.Env{
		Root: root, Run: func(string) command.Runner { return &recorded.Runner{} }, Handlers: nodetest.Handlers(nodetest.NewSetting()),
		Now: time.Now, Out: io.Discard, Log: slog.New(slog.DiscardHandler),
	}, s
}

// BenchmarkAgent_firstPass reads 10,000 files and looks at as many settings that
// are in order. The memory is what stays.
func BenchmarkAgent_firstPass(b *testing.B) {
	env, s := many(b)
	s.DryRun = true // without the statuses, whose sync is the disk's time
	before := heap()
	for b.Loop() {
		a, err := newAgent(b.Context(), env, s)
		if err != nil {
			b.Fatal(err)
		}
		a.prepare(b.Context()).Pass(b.Context())
		b.ReportMetric(float64(heap()-before)/manyFiles, "B/NodeConfig")
		_ = a.close(b.Context())
	}
}

// BenchmarkAgent_idlePass is a pass over 10,000 files with nothing due.
func BenchmarkAgent_idlePass(b *testing.B) {
	env, s := many(b)
	s.DryRun = true
	a, err := newAgent(b.Context(), env, s)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = a.close(b.Context()) }()
	loop := a.prepare(b.Context())
	loop.Pass(b.Context())
	for b.Loop() {
		loop.Pass(b.Context())
	}
}

// heap is what is in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}
