package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	fileCount = 500
	fileSize  = 4 << 10
)

// benchFiles compares a keel apply that changes nothing with a plain reading and
// hashing of the same files, and with other programs where they are installed.
func benchFiles(ctx context.Context, keel, dir string, runs int) error {
	if err := writeConfigs(dir, fileCount, fileSize); err != nil {
		return err
	}
	root := filepath.Join(dir, "root")
	apply := []string{keel, "apply", "-f", filepath.Join(dir, "nodeconfigs"), "--root", root}
	if out, err := exec.CommandContext(ctx, apply[0], apply[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("keel apply: %w: %.500s", err, out)
	}
	paths, err := filepath.Glob(filepath.Join(root, "etc/bench/*"))
	if err != nil {
		return err
	}
	if len(paths) != fileCount {
		return fmt.Errorf("keel apply wrote %d files, want %d", len(paths), fileCount)
	}
	pass, err := newPass(ctx, dir)
	if err != nil {
		return err
	}
	sum := program(fmt.Sprintf("`sha256sum` of the %d files", fileCount), "", append([]string{"sha256sum"}, paths...)...)
	contenders := []*contender{
		program(fmt.Sprintf("no-op `keel apply`, %d files of %d KiB, the whole process", fileCount, fileSize>>10), "≤ 100 ms", apply...),
		pass,
		sum,
	}
	others, err := peers(dir, root)
	if err != nil {
		return err
	}
	if err := race(ctx, runs, append(contenders, others...)...); err != nil {
		return err
	}
	fmt.Printf("| the pass against `sha256sum` | %.2f× | | ≤ 2× |\n", float64(pass.median())/float64(sum.median()))
	return nil
}

// writeConfigs writes n NodeConfigs for files of size bytes to dir/nodeconfigs,
// and an empty dir/root.
func writeConfigs(dir string, n, size int) error {
	if err := os.MkdirAll(filepath.Join(dir, "root"), 0o755); err != nil {
		return err
	}
	configs := filepath.Join(dir, "nodeconfigs")
	if err := os.MkdirAll(configs, 0o755); err != nil {
		return err
	}
	for i := range n {
		doc := fmt.Sprintf("apiVersion: keel.tlspu.io/v1alpha1\nkind: NodeConfig\nmetadata:\n  name: bench-%05d\nspec:\n"+
			"  type: file\n  params:\n    path: %s\n    content: |\n%s", i, benchPath(i), indent(content(i, size)))
		if err := os.WriteFile(filepath.Join(configs, fmt.Sprintf("%05d.yaml", i)), []byte(doc), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func benchPath(i int) string { return fmt.Sprintf("/etc/bench/%05d.conf", i) }

// content is size bytes of lines of a made-up configuration, the same for the
// same i.
func content(i, size int) string {
	r := rand.New(rand.NewPCG(uint64(i), 1))
	var b strings.Builder
	for b.Len() < size {
		fmt.Fprintf(&b, "setting_%06d = %016x%016x\n", r.IntN(1e6), r.Uint64(), r.Uint64())
	}
	return b.String()[:size-1] + "\n"
}

func indent(text string) string {
	return "      " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n      ") + "\n"
}
