package file

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"testing"
)

// BenchmarkObserve looks at 500 files of 4 KiB that are right, and sums them as
// sha256sum would, for comparison.
func BenchmarkObserve(b *testing.B) {
	root := b.TempDir()
	content := string(bytes.Repeat([]byte("0123456789abcde\n"), 256))
	var all []map[string]string
	for i := range 500 {
		path := fmt.Sprintf("/etc/app/conf.d/%03d.conf", i)
		build(b, root, entry{path: path, content: content})
		all = append(all, map[string]string{"path": path, "content": content, "mode": "0644"})
	}
	b.Run("observe", func(b *testing.B) {
		look := call(b, root, nil).Look
		for b.Loop() {
			look.Files.Forget() // a run begins
			for _, params := range all {
				look.Params = params
				_, _, err := New().Observe(b.Context(), look)
				check(b, err)
			}
		}
	})
	b.Run("sha256", func(b *testing.B) {
		for b.Loop() {
			for _, params := range all {
				data, err := os.ReadFile(root + params["path"])
				check(b, err)
				_ = sha256.Sum256(data)
			}
		}
	})
}
