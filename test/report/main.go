// Command report runs go test over both modules and reports what a person needs:
// a line for each package, the output of what failed in full, and at the end
// every skip with its reason, the names of what failed, and the line "N passed, N
// failed, N skipped".
// Arguments go to go test as they are; without any, all packages are tested.
//
// It ends with 1 when a test failed, when go test did, when no test ran, and
// with CI=true also when a test was skipped or the race detector is missing.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

func main() {
	ok, err := run(os.Args[1:], os.Getenv("CI") == "true")
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(args []string, ci bool) (ok bool, err error) {
	if len(args) == 0 {
		args = []string{"-timeout=20m", "work"}
	}
	args = append([]string{"test", "-json"}, args...)
	env := os.Environ()
	var missing []skip
	if compiles() {
		args = append(args[:2:2], append([]string{"-race"}, args[2:]...)...)
		env = append(env, "CGO_ENABLED=1")
	} else {
		missing = append(missing, skip{everywhere + " -race", "needs a C compiler: apt-get install gcc libc6-dev"})
	}

	cmd := exec.Command("go", args...)
	cmd.Env = env
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	t := newTally(os.Stdout)
	t.skips = missing
	readErr := t.read(out)
	waitErr := cmd.Wait()
	t.close()
	if readErr != nil {
		return false, fmt.Errorf("read the output of go test: %w", readErr)
	}
	switch {
	case waitErr != nil || t.failed > 0:
		return false, waitErr
	case t.passed == 0:
		return false, fmt.Errorf("no test ran")
	case ci && len(t.skips) > 0:
		return false, fmt.Errorf("with CI=true nothing may be skipped")
	}
	return true, nil
}

// compiles reports whether there is a C compiler with the headers that the race
// detector needs: a compiler alone is not enough.
func compiles() bool {
	cc, err := exec.Command("go", "env", "CC").Output()
	if err != nil {
		return false
	}
	argv := append(strings.Fields(string(cc)), "-x", "c", "-o", os.DevNull, "-")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin = strings.NewReader("#include <stdlib.h>\nint main(void) { return 0; }\n")
	return cmd.Run() == nil
}
