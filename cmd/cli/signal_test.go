package cli

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary be the program itself: with KEEL_TEST_MACHINE it
// is Main with a machine whose steps, or whose reading, take their time.
func TestMain(m *testing.M) {
	if kind := os.Getenv("KEEL_TEST_MACHINE"); kind != "" {
		os.Exit(Main(context.Background(), slowBench(kind).set())) //nolint:forbidigo // here it is the main of a program
	}
	os.Exit(m.Run())
}

// slowBench is a machine on which a step, or a look, says on standard output
// that it has begun. A "slow step" then ends after the first signal, the others
// never.
func slowBench(kind string) *bench {
	b := &bench{have: map[string]string{}}
	never := make(chan os.Signal)
	begun := func(until <-chan os.Signal) {
		_, _ = os.Stdout.WriteString("begun\n")
		<-until
	}
	switch kind {
	case "slow step":
		arrived := make(chan os.Signal, 1)
		signal.Notify(arrived, ending()...)
		b.during = func() {
			begun(arrived)
			<-time.After(300 * time.Millisecond) // Main is told beside this step, not before it
			_, _ = os.Stdout.WriteString("finished\n")
		}
	case "stuck step":
		b.during = func() { begun(never) }
	case "stuck reading":
		b.judging = func() { begun(never) }
	case "stuck look":
		b.looking = func() { begun(never) }
	}
	return b
}

// process is the program under test, started with two notes to keep.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	out *bufio.Reader
	err strings.Builder
}

func start(t *testing.T, machine string, args ...string) *process {
	t.Helper()
	dir := t.TempDir()
	if args[0] != "validate" {
		args = append(args, "--root", dir)
	}
	c := &process{t: t, cmd: exec.CommandContext(t.Context(), os.Args[0], args...)}
	c.cmd.Env = append(os.Environ(), "KEEL_TEST_MACHINE="+machine, "KEEL_CONFIG=/dev/null")
	c.cmd.Stdin = strings.NewReader("kind: Note\nname: a\nwant: one\n---\nkind: Note\nname: b\nwant: two\n")
	c.cmd.Stderr = &c.err
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := c.out.ReadString('\n'); err != nil || line != "begun\n" {
		t.Fatalf("it began with %q, %v; %s", line, err, c.err.String())
	}
	return c
}

func (c *process) signal(s os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// end waits for the end and returns what was still printed.
func (c *process) end() (out string, state *os.ProcessState) {
	c.t.Helper()
	rest, err := io.ReadAll(c.out)
	if err != nil {
		c.t.Fatal(err)
	}
	_ = c.cmd.Wait() // its error is in the state
	return string(rest), c.cmd.ProcessState
}

func TestMain_signalLetsTheStepFinish(t *testing.T) {
	for _, s := range ending() {
		t.Run(s.String(), func(t *testing.T) {
			c := start(t, "slow step", "apply", "-f", "-")
			c.signal(s)
			out, state := c.end()
			if state.ExitCode() != 130 {
				t.Errorf("%s; %s", state, c.err.String())
			}
			if out != "finished\nchanged   a\nnot begun b\n" {
				t.Errorf("standard output %q", out)
			}
			if got := c.err.String(); got != "Interrupted\n" {
				t.Errorf("standard error %q", got)
			}
		})
	}
}

func TestMain_signalEndsReading(t *testing.T) {
	for _, s := range ending() {
		t.Run(s.String(), func(t *testing.T) {
			c := start(t, "stuck look", "diff", "-f", "-")
			c.signal(s)
			out, state := c.end()
			out = strings.ReplaceAll(out, "begun\n", "") // both are looked at side by side
			if state.ExitCode() != 130 || out != "" || c.err.String() != "Interrupted\n" {
				t.Errorf("%s; out %q, err %q", state, out, c.err.String())
			}
		})
	}
}

// Documents that take long to judge keep no command from ending: nothing was done
// yet, not by apply either.
func TestMain_signalEndsJudging(t *testing.T) {
	for command, want := range map[string]string{
		"apply":    "not begun stdin document 1\nnot begun stdin document 2\n",
		"diff":     "",
		"validate": "",
	} {
		t.Run(command, func(t *testing.T) {
			c := start(t, "stuck reading", command, "-f", "-")
			c.signal(syscall.SIGTERM)
			out, state := c.end()
			if state.ExitCode() != 130 || out != want || c.err.String() != "Interrupted\n" {
				t.Errorf("%s; out %q, want %q, err %q", state, out, want, c.err.String())
			}
		})
	}
}

// Go opens /dev/null where there is no standard output: what is written there is
// lost all the same.
func TestMain_standardOutputIsClosed(t *testing.T) {
	for _, tt := range []struct {
		name, shell string
		want        int
	}{
		{"closed", `exec "$0" handlers >&-`, 16},
		{"closed, and nothing to print", `exec "$0" help none >&-`, 1},
		{"thrown away", `exec "$0" handlers >/dev/null`, 0},
		{"a daemon's", `exec "$0" handlers <>/dev/null 1<>/dev/null`, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "sh", "-c", tt.shell, os.Args[0])
			cmd.Env = append(os.Environ(), "KEEL_TEST_MACHINE=plain", "KEEL_CONFIG=/dev/null")
			cmd.Stdin = strings.NewReader("")
			var errs strings.Builder
			cmd.Stderr = &errs
			_ = cmd.Run() // its error is in the state
			if cmd.ProcessState.ExitCode() != tt.want || tt.want == 16 && !strings.HasPrefix(errs.String(), "Error: write standard output: it is closed") {
				t.Errorf("%s; err %q", cmd.ProcessState, errs.String())
			}
		})
	}
}

func TestMain_signalsThatAreIgnoredStayIgnored(t *testing.T) {
	if slices.Contains(ending(), os.Signal(syscall.SIGHUP)) { // else nohup ignored it for us
		signal.Ignore(syscall.SIGHUP)
		defer signal.Reset(syscall.SIGHUP)
	}
	if got := ending(); slices.Contains(got, os.Signal(syscall.SIGHUP)) || len(got) == 0 {
		t.Errorf("signals that end a command: %v", got)
	}
}

func TestMain_secondSignalEndsTheProcess(t *testing.T) {
	c := start(t, "stuck step", "apply", "-f", "-")
	done := make(chan *os.ProcessState, 1)
	go func() {
		_, state := c.end()
		done <- state
	}()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case state := <-done:
			if status := state.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGINT {
				t.Errorf("it ended with %s", state)
			}
			return
		case <-again.C:
			_ = c.cmd.Process.Signal(os.Interrupt) // it may have just ended
		}
	}
}

func TestMain_readerOfStandardOutputGoesAway(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "handlers")
	cmd.Env = append(os.Environ(), "KEEL_TEST_MACHINE=plain")
	var errs strings.Builder
	cmd.Stdout, cmd.Stderr = w, &errs
	_ = cmd.Run() // its error is in the state
	if cmd.ProcessState.ExitCode() != 141 || errs.Len() > 0 {
		t.Errorf("%s; err %q", cmd.ProcessState, errs.String())
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}
