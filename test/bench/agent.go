package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// benchAgent lets an agent keep n NodeConfigs, and tells how long its first pass
// takes and how much memory is its own afterwards.
func benchAgent(ctx context.Context, keel, dir string, n int) error {
	if err := writeConfigs(dir, n, 64); err != nil {
		return err
	}
	state := filepath.Join(dir, "state")
	args := []string{"node-agent", "--source=dir", "--config-dir", filepath.Join(dir, "nodeconfigs"),
		"--state-dir", state, "--host-root", filepath.Join(dir, "root")}
	for _, what := range []string{"writes them", "finds nothing to do"} {
		progress("%d NodeConfigs, a pass that %s", n, what)
		start := time.Now()
		cmd := exec.CommandContext(ctx, keel, append(args[:len(args):len(args)], "--once")...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("node-agent: %w: %.500s", err, out)
		}
		fmt.Printf("| %d NodeConfig files, a pass that %s | %.2f s | %.2f s | |\n", n, what, time.Since(start).Seconds(),
			(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
	}

	progress("%d NodeConfigs, an agent that stays", n)
	// The agent that stays: its memory once it has visited all of them.
	if err := os.RemoveAll(state); err != nil {
		return err
	}
	agent := exec.CommandContext(ctx, keel, args...)
	if err := agent.Start(); err != nil {
		return err
	}
	defer func() {
		_ = agent.Process.Signal(os.Interrupt)
		_ = agent.Wait()
	}()
	deadline := time.Now().Add(5 * time.Minute)
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		visited, err := filepath.Glob(filepath.Join(state, "*.json"))
		if err != nil {
			return err
		}
		if len(visited) >= n {
			tick.Stop()
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("node-agent visited %d of %d NodeConfigs in 5 minutes", len(visited), n)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	private, err := privateMemory(agent.Process.Pid)
	if err != nil {
		return err
	}
	fmt.Printf("| %d NodeConfig files, the agent's private memory | %.1f MB | | |\n", n, float64(private)/1e6)
	return nil
}

// privateMemory is what a process shares with nobody, in bytes.
func privateMemory(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	var sum int64
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && strings.HasPrefix(fields[0], "Private_") {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return 0, err
			}
			sum += kib << 10
		}
	}
	return sum, nil
}
