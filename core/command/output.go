package command

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// head keeps the first max bytes written to it; over says that there were more,
// and full, when set, is called then.
type head struct {
	max  int
	full func()
	over bool
	kept bytes.Buffer
}

func (h *head) Write(p []byte) (int, error) {
	room := h.max - h.kept.Len()
	if len(p) <= room {
		return h.kept.Write(p)
	}
	h.kept.Write(p[:room])
	h.over = true
	if h.full != nil {
		h.full()
	}
	return len(p), nil
}

// tail keeps the last max bytes written to it; cut says that there were more.
type tail struct {
	max  int
	cut  bool
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - t.max; over > 0 {
		t.cut = true
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

// searchPath is the PATH a command gets: the last one in its environment.
func searchPath(env []string) string {
	path := ""
	for _, e := range env {
		if value, ok := strings.CutPrefix(e, "PATH="); ok {
			path = value
		}
	}
	return path
}

// lookPath finds name in the folders of path; a name with a slash is taken as
// it is. Relative folders are not looked into.
func lookPath(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("there is no command %s in %s: %w", name, path, fs.ErrNotExist)
}
