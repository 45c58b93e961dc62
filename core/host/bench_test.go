package host

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// The work of a pass in which nothing is to be done, beside the least that any
// program needs to know what a file holds.
func BenchmarkPut_equal(b *testing.B) {
	const files = 500
	root := scratch(b)
	content := bytes.Repeat([]byte("0123456789abcdef"), 256) // 4 KiB
	for i := range files {
		create(b, filepath.Join(root, "etc/app/conf.d", fmt.Sprint(i)), string(content), 0o644)
	}
	b.Run("sha256", func(b *testing.B) {
		for b.Loop() {
			for i := range files {
				data, err := os.ReadFile(filepath.Join(root, "etc/app/conf.d", fmt.Sprint(i)))
				must(b, err)
				_ = sha256.Sum256(data)
			}
		}
	})
	b.Run("put", func(b *testing.B) {
		for b.Loop() {
			for i := range files {
				tree, err := OpenTree(root)
				must(b, err)
				changed, err := tree.Put(b.Context(), "/etc/app/conf.d/"+fmt.Sprint(i), bytes.NewReader(content), Attr{Mode: mode(0o644)})
				if err != nil || changed {
					b.Fatal(changed, err)
				}
				must(b, tree.Close())
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		view, err := OpenView(root)
		must(b, err)
		for b.Loop() {
			for i := range files {
				data, err := view.Read("/etc/app/conf.d/"+fmt.Sprint(i), 1<<20)
				must(b, err)
				_ = sha256.Sum256(data)
			}
		}
		must(b, view.Close())
	})
}
