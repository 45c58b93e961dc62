package repo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const (
	top    = "../.."
	module = "github.com/tlspu/keel"
)

var systems = []string{"linux", "freebsd"}

// pkg is what go list tells of a package, of this repository or linked into it.
type pkg struct {
	ImportPath string
	Name       string
	Dir        string
	Standard   bool
	GoFiles    []string
	CgoFiles   []string
	Imports    []string
	Deps       []string
	Incomplete bool
}

// path is the package's folder in the repository, or "" for somebody else's.
func (p pkg) path() string {
	path, _ := strings.CutPrefix(p.ImportPath, module+"/")
	if path == p.ImportPath {
		return ""
	}
	return path
}

type listing struct {
	own []pkg          // of this repository, in go list's order
	all map[string]pkg // these and all that is linked into them
}

var lists = map[string]func() (listing, error){
	"linux":   sync.OnceValues(func() (listing, error) { return list("linux") }),
	"freebsd": sync.OnceValues(func() (listing, error) { return list("freebsd") }),
}

// onEach runs f for every system with the packages as they are built there.
func onEach(t *testing.T, f func(t *testing.T, l listing)) {
	t.Helper()
	for _, goos := range systems {
		t.Run(goos, func(t *testing.T) {
			l, err := lists[goos]()
			if err != nil {
				t.Fatal(err)
			}
			f(t, l)
		})
	}
}

func list(goos string) (listing, error) {
	cmd := exec.Command("go", "list", "-deps",
		"-json=ImportPath,Name,Dir,Standard,GoFiles,CgoFiles,Imports,Deps,Incomplete", "./...", "./api/...")
	cmd.Dir = top
	// With cgo on, files that import "C" are listed as such instead of ignored.
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return listing{}, fmt.Errorf("go list: %w: %s", err, stderr.Bytes())
	}
	l := listing{all: map[string]pkg{}}
	for in := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := in.Decode(&p)
		if errors.Is(err, io.EOF) {
			return l, nil
		}
		if err != nil {
			return listing{}, err
		}
		if p.Incomplete {
			return listing{}, fmt.Errorf("go list: %s is incomplete on %s", p.ImportPath, goos)
		}
		l.all[p.ImportPath] = p
		if p.path() != "" {
			l.own = append(l.own, p)
		}
	}
}

// files calls f for every file of the repository, with its slash-separated
// path. What is built, cached or belongs to git is left out.
func files(t *testing.T, f func(path string)) {
	t.Helper()
	err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, err := filepath.Rel(top, name)
		if err != nil {
			return err
		}
		switch path {
		case ".git", ".cache", "bin", "dist":
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() {
			f(filepath.ToSlash(path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// read returns a file of the repository as text.
func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(top, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// copyTree copies the repository to a new folder, for what would write to it.
func copyTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	files(t, func(path string) {
		from, to := filepath.Join(top, path), filepath.Join(dir, path)
		info, err := os.Stat(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, []byte(read(t, path)), info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	})
	return dir
}

// under reports whether path is one of the folders or below it.
func under(path string, folders ...string) bool {
	for _, f := range folders {
		if path == f || strings.HasPrefix(path, f+"/") {
			return true
		}
	}
	return false
}
