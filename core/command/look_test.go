package command

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A root's symlinks are those of the root, as for a command that runs in it.
func TestLookPath_inARoot(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	for _, dir := range []string{"usr/bin", "opt/real", "usr/sbin"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]fs.FileMode{"root/usr/bin/tool": 0o755, "root/opt/real/tool2": 0o755, "root/usr/bin/text": 0o644, "outside": 0o755} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(root), name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{
		"bin":              "usr/bin",
		"sbin":             "/usr/bin", // absolute: not this machine's
		"usr/sbin/far":     "/opt/real/tool2",
		"usr/sbin/up":      "../../../../usr/bin/tool",
		"usr/sbin/outside": "../../../outside",
		"usr/sbin/gone":    "/nowhere",
		"loop":             "/loop",
	} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name, command, path string
		want                string
		absent              bool // fs.ErrNotExist
	}{
		{"in a directory", "tool", "/nowhere:/usr/bin", "/usr/bin/tool", false},
		{"through a symlink", "tool", "/bin", "/bin/tool", false},
		{"through an absolute symlink", "tool", "/sbin", "/sbin/tool", false},
		{"a symlink itself", "far", "/usr/sbin", "/usr/sbin/far", false},
		{"no further up than the root", "up", "/usr/sbin", "/usr/sbin/up", false},
		{"a symlink out of the root", "outside", "/usr/sbin", "", true},
		{"a symlink to nothing", "gone", "/usr/sbin", "", true},
		{"not executable", "text", "/usr/bin", "", true},
		{"a directory", "bin", "/usr", "", true},
		{"below a file", "x", "/usr/bin/tool", "", true},
		{"a loop", "tool", "/loop", "", false},
		{"a loop before it", "tool", "/loop:/usr/bin", "/usr/bin/tool", false},
		{"a relative directory", "tool", "usr/bin", "", true},
		{"a path", "/sbin/tool", "", "/sbin/tool", false},
		{"a path to nothing", "/sbin/none", "", "", true},
		{"the root", "/", "", "/", false},
	}
	link := filepath.Join(t.TempDir(), "link") // as /proc/PID/root is one
	if err := os.Symlink(root, link); err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, root := range []string{root, link} {
				got, err := lookPath(root, tt.command, tt.path)
				if err == nil && got != tt.want || (err == nil) != (tt.want != "") || errors.Is(err, fs.ErrNotExist) != tt.absent {
					t.Errorf("%s: got %q, %v; want %q, absent %t", root, got, err, tt.want, tt.absent)
				}
			}
		})
	}
}
