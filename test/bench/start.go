package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// benchStart compares a start of keel with that of a program that does nothing.
func benchStart(ctx context.Context, keel, dir string, runs int) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	src := filepath.Join(dir, "empty.go")
	if err := os.WriteFile(src, []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		return err
	}
	empty := filepath.Join(dir, "empty")
	build := exec.CommandContext(ctx, "go", "build", "-o", empty, src)
	build.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build an empty program: %w: %s", err, out)
	}
	return race(ctx, 3*runs,
		program("`keel version`", "", keel, "version"),
		program("an empty Go program", "", empty))
}

// benchInit adds up what package initialisation costs, and names the dearest.
func benchInit(ctx context.Context, keel string) error {
	cmd := exec.CommandContext(ctx, keel, "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return err
	}
	type cost struct {
		pkg string
		ms  float64
	}
	var costs []cost
	var sum float64
	line := regexp.MustCompile(`(?m)^init (\S+) @\S+ ms, ([\d.]+) ms clock`)
	for _, m := range line.FindAllStringSubmatch(string(out), -1) {
		ms, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return err
		}
		sum += ms
		costs = append(costs, cost{m[1], ms})
	}
	if len(costs) == 0 {
		return fmt.Errorf("GODEBUG=inittrace=1 printed nothing: %.200s", out)
	}
	slices.SortFunc(costs, func(a, b cost) int { return int((b.ms - a.ms) * 1e6) })
	var top []string
	for _, c := range costs[:min(3, len(costs))] {
		top = append(top, fmt.Sprintf("%s %.2f", c.pkg, c.ms))
	}
	fmt.Printf("| initialisation of %d packages, dearest %s | %.1f ms | | ≤ 25 ms |\n", len(costs), strings.Join(top, ", "), sum)
	return nil
}
