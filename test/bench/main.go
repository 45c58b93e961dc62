// Command bench measures the built bin/keel against other programs, on this
// machine and in one run, so that the ratios mean something: the runs of what is
// compared are interleaved. It prints a table for docs/develop/performance.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"time"
)

func main() {
	runs := flag.Int("n", 11, "runs of each program, interleaved")
	configs := flag.Int("configs", 10_000, "NodeConfig files that the agent keeps; 0: none are kept")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := bench(ctx, *runs, *configs); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context, runs, configs int) error {
	keel, err := filepath.Abs("bin/keel")
	if err != nil {
		return err
	}
	info, err := os.Stat(keel)
	if err != nil {
		return fmt.Errorf("%w: make build first", err)
	}
	dir, err := os.MkdirTemp("", "keel-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()

	fmt.Printf("%d cores, %s, %s/%s, median of %d runs (least, most)\n\n",
		runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH, runs)
	fmt.Printf("| what | time | processor | aim |\n|---|---|---|---|\n")
	progress("%d files, %d runs of each program", fileCount, runs)
	files := benchFiles(ctx, keel, filepath.Join(dir, "files"), runs)
	progress("starts, %d runs of each program", 3*runs)
	if err := errors.Join(files,
		benchStart(ctx, keel, filepath.Join(dir, "start"), runs),
		benchInit(ctx, keel),
	); err != nil {
		return err
	}
	fmt.Printf("| the binary | %.1f MB | | ≤ 60 MB |\n", float64(info.Size())/1e6)
	if configs == 0 {
		return nil
	}
	return benchAgent(ctx, keel, filepath.Join(dir, "agent"), configs)
}

// progress says on standard error, beside the table, what is measured now.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}

// A contender is a program, or a piece of one, that is run again and again.
type contender struct {
	name string
	aim  string
	// run does the work once and returns the processor time it took.
	run        func(ctx context.Context) (time.Duration, error)
	took, busy []time.Duration
}

// program makes a contender of a program that must succeed and print nothing
// that matters.
func program(name, aim string, argv ...string) *contender {
	return &contender{name: name, aim: aim, run: func(ctx context.Context) (time.Duration, error) {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return 0, fmt.Errorf("%s: %w: %.500s", name, err, out)
		}
		return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
	}}
}

// race runs the contenders in turn, once to warm the caches and then n times,
// and prints a row for each.
func race(ctx context.Context, n int, contenders ...*contender) error {
	for i := -1; i < n; i++ {
		for _, c := range contenders {
			start := time.Now()
			busy, err := c.run(ctx)
			if err != nil {
				return err
			}
			if i >= 0 {
				c.took = append(c.took, time.Since(start))
				c.busy = append(c.busy, busy)
			}
		}
	}
	for _, c := range contenders {
		slices.Sort(c.took)
		slices.Sort(c.busy)
		fmt.Printf("| %s | %s (%s, %s) | %s | %s |\n", c.name,
			ms(c.median()), ms(c.took[0]), ms(c.took[n-1]), ms(c.busy[n/2]), c.aim)
	}
	return nil
}

func (c *contender) median() time.Duration { return c.took[len(c.took)/2] }

func ms(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1e3)
}
