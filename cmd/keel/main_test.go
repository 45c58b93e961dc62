package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// build compiles the main package in dir and returns the program's path.
func build(t *testing.T, dir string, args ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "keel")
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"build", "-buildvcs=false", "-o", program}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOPROXY=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build in %s: %v\n%s", dir, err, out)
	}
	return program
}

// run runs a program to its end.
func run(t *testing.T, program string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "KEEL_CONFIG=/dev/null")
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // its error is in the state
	if cmd.ProcessState == nil {
		t.Fatalf("%s did not start", program)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func TestKeel_isBuiltStaticAndStamped(t *testing.T) {
	keel := build(t, ".", "-ldflags", "-X github.com/tlspu/keel/cmd/cli.version=v1.2.3 -X github.com/tlspu/keel/cmd/cli.commit=abc")
	if code, out, errs := run(t, keel, "version"); code != 0 || !strings.HasPrefix(out, "keel v1.2.3\ncommit abc\ngo1.") || errs != "" {
		t.Errorf("exit %d, out %q, err %q", code, out, errs)
	}
	if code, _, errs := run(t, keel, "diff", "--nonsense"); code != 1 || !strings.HasPrefix(errs, "Usage: keel diff ") {
		t.Errorf("exit %d, err %q", code, errs)
	}
	spec := filepath.Join(t.TempDir(), "none.yaml")
	if code, out, errs := run(t, keel, "diff", "--spec", spec); code != 0 || out != "" || errs != spec+": not found, nothing to do\n" {
		t.Errorf("exit %d, out %q, err %q", code, out, errs)
	}
}

// motd is the handler of a private build.
const motd = `package motd

import (
	"context"
	"errors"
	"strings"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/host"
)

type Handler struct{}

func New(func(root string) command.Runner) Handler { return Handler{} }

func (Handler) Name() string { return "motd" }

func (Handler) Validate(params map[string]string) error {
	if params["text"] == "" {
		return errors.New("text: missing")
	}
	return nil
}

func (Handler) Ensure(ctx context.Context, root string, params map[string]string) (bool, error) {
	tree, err := host.OpenTree(root)
	if err != nil {
		return false, err
	}
	defer tree.Close()
	return tree.Put(ctx, "/etc/motd", strings.NewReader(params["text"]), host.Attr{Fresh: 0o644, Parents: 0o755})
}
`

// TestKeel_privateBuild builds what the package comment tells, in a module of
// its own, and runs it.
func TestKeel_privateBuild(t *testing.T) {
	dir := t.TempDir()
	private := filepath.Join(dir, "private")
	write := func(name, content string) {
		t.Helper()
		path := filepath.Join(private, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("main.go", recipe(t))
	write("motd/motd.go", motd)
	top, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(top, filepath.Join(dir, "keel")); err != nil {
		t.Fatal(err)
	}
	write("go.sum", read(t, filepath.Join(top, "go.sum"))) // nothing has to be asked of a network
	keel := filepath.Join(private, "keel")
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", commands(t))
	cmd.Dir = private
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false", "GOPROXY=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", commands(t), err, out)
	}
	if code, out, errs := run(t, keel, "handlers"); code != 0 || !strings.Contains(out, "\nmotd ") {
		t.Errorf("exit %d, out %q, err %q", code, out, errs)
	}
	write("motd.yaml", "apiVersion: keel.tlspu.io/v1alpha1\nkind: NodeConfig\nmetadata: {name: welcome}\nspec: {type: motd, params: {text: hello}}\n")
	document, root := filepath.Join(private, "motd.yaml"), t.TempDir()
	for _, want := range []string{"changed   welcome\n", "unchanged welcome\n"} {
		if code, out, errs := run(t, keel, "apply", "-f", document, "--root", root); code != 0 || out != want {
			t.Errorf("exit %d, out %q, want %q, err %q", code, out, want, errs)
		}
	}
	if got := read(t, filepath.Join(root, "etc", "motd")); got != "hello" {
		t.Errorf("etc/motd holds %q", got)
	}
	if code, out, errs := run(t, keel, "explain", "motd"); code != 0 || out != "motd does not describe its parameters\n" {
		t.Errorf("exit %d, out %q, err %q", code, out, errs)
	}
}

// recipe is the program in the package comment of main.go.
func recipe(t *testing.T) string {
	t.Helper()
	source := read(t, "main.go")
	code := regexp.MustCompile(`(?m)^//\t([^$].*)$|^(//)(?:\t)?$`).FindAllStringSubmatch(source, -1)
	var b strings.Builder
	for _, line := range code {
		b.WriteString(line[1] + "\n")
	}
	return b.String()
}

// commands are those in the package comment of main.go, which the page about
// handlers repeats.
func commands(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, line := range regexp.MustCompile(`(?m)^//\t\$ (.*)$`).FindAllStringSubmatch(read(t, "main.go"), -1) {
		b.WriteString(line[1] + "\n")
	}
	page := read(t, filepath.Join("..", "..", "docs", "develop", "adding-a-type.md"))
	if b.Len() == 0 || !strings.Contains(page, "\n```sh\n"+b.String()+"```\n") {
		t.Fatalf("docs/develop/adding-a-type.md does not hold the commands of the package comment:\n%s", b.String())
	}
	return b.String()
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
