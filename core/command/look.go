package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is how many symlinks a path may lead through, as for the kernel.
const maxLinks = 40

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

// lookPath finds name in the directories of path, in a root; an empty one is
// this thread's. A name with a slash is a path already, and this thread's root
// answers itself whether it is there. Relative directories are skipped. Only a
// command that is certainly not there is fs.ErrNotExist.
func lookPath(root, name, path string) (string, error) {
	if strings.Contains(name, "/") {
		if root == "" {
			return name, nil
		}
		_, err := statIn(root, name)
		return name, err
	}
	var unknown error
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		file := filepath.Join(dir, name)
		info, err := statIn(root, file)
		switch {
		case err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0:
			return file, nil
		case err != nil && unknown == nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
			unknown = err
		}
	}
	if unknown != nil {
		return "", fmt.Errorf("find command %s: %w", name, unknown)
	}
	return "", fmt.Errorf("there is no command %s in %s: %w", name, path, fs.ErrNotExist)
}

// statIn describes what an absolute path leads to in a root, whose symlinks do
// not lead out of it.
func statIn(root, name string) (fs.FileInfo, error) {
	if root == "" {
		return os.Stat(name)
	}
	at, links := "/", 0
	for todo := strings.Split(name, "/"); len(todo) > 0; {
		next := filepath.Join(at, todo[0])
		todo = todo[1:]
		if next == "/" {
			at = next // the root itself may be named by a symlink, such as /proc/PID/root
			continue
		}
		info, err := os.Lstat(filepath.Join(root, next))
		if err != nil {
			return nil, err
		}
		if info.Mode().Type() != fs.ModeSymlink {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return nil, &fs.PathError{Op: "stat", Path: name, Err: syscall.ELOOP}
		}
		to, err := os.Readlink(filepath.Join(root, next))
		if err != nil {
			return nil, err
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		todo = append(strings.Split(to, "/"), todo...)
	}
	return os.Stat(filepath.Join(root, at))
}
