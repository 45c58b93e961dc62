package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/core/plugin"
	"github.com/tlspu/keel/test/nodetest"
)

// slow is setting, and says when it begins to change the machine and when it has.
type slow struct {
	nodetest.Setting
	say func(what string)
}

func (s slow) Ensure(ctx context.Context, c handler.Call) (bool, error) {
	s.say("begin")
	defer s.say("end")
	pause := time.NewTimer(20 * time.Millisecond)
	defer pause.Stop()
	<-pause.C
	return s.Setting.Ensure(ctx, c)
}

// twoEnv holds the folder of the test in a child.
const twoEnv = "KEEL_TEST_TWO_AGENTS"

// Two agents on one machine take turns: while one changes it, the other waits for
// the machine's lock.
func TestAgent_twoOnOneMachine(t *testing.T) {
	if dir := os.Getenv(twoEnv); dir != "" {
		oneOfTwo(t, dir)
		return
	}
	dir := t.TempDir()
	for _, name := range []string{"root", "configs"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var docs string
	for i := range 10 {
		docs += nodetest.Doc(fmt.Sprintf("n%d", i), "one")
	}
	if err := os.WriteFile(filepath.Join(dir, "configs/a.yaml"), []byte(docs), 0o600); err != nil {
		t.Fatal(err)
	}
	var agents []*exec.Cmd
	for range 2 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAgent_twoOnOneMachine$", "-test.count=1")
		cmd.Env = append(os.Environ(), twoEnv+"="+dir, "GORACE=atexit_sleep_ms=0")
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		agents = append(agents, cmd)
	}
	for _, cmd := range agents {
		if err := cmd.Wait(); err != nil {
			t.Errorf("agent: %v", err)
		}
	}
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(log))
	if len(lines) != 20 { // what one changed the other found in order
		t.Errorf("%d lines, want 20: begin and end of 10 changes\n%s", len(lines), log)
	}
	for i := 0; i+1 < len(lines); i += 2 {
		begin, end := lines[i], lines[i+1]
		if !strings.HasPrefix(begin, "begin:") || end != "end:"+strings.TrimPrefix(begin, "begin:") {
			t.Fatalf("one changed the machine while the other did:\n%s", log)
		}
	}
}

// oneOfTwo is an agent in a process of its own, whose handler takes its time.
func oneOfTwo(t *testing.T, dir string) {
	w := newAgentWorld(t)
	w.Env.Root, w.Env.Now = filepath.Join(dir, "root"), time.Now
	w.settings.ConfigDir, w.settings.Once = filepath.Join(dir, "configs"), true
	w.Env.Handlers = plugin.NewRegistry[handler.Handler]("handler")
	say := func(what string) {
		f, err := os.OpenFile(filepath.Join(dir, "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err == nil {
			_, err = fmt.Fprintf(f, "%s:%d\n", what, os.Getpid())
		}
		if err != nil {
			t.Error(err)
			return
		}
		_ = f.Close()
	}
	w.Env.Handlers.Register("setting", slow{w.Handler, say})
	if err := w.run(t); err != nil {
		t.Errorf("%v:\n%s", err, w.out.String())
	}
}
