package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tlspu/keel/core/plugin"
)

// maxFile is the size of the largest file that is read, 16 MiB.
const maxFile = 16 << 20

// stdin is how standard input is called in messages.
const stdin = "stdin"

// readFile reads a regular file, or a pipe such as a shell's <(command), and waits
// for it until ctx ends. It refuses devices, folders and what is larger than
// maxFile. What has no size is not read: files of the kernel have none, and some,
// such as /proc/kmsg, make who reads them wait.
func readFile(ctx context.Context, path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, pathError(path, err)
	}
	switch mode := info.Mode(); {
	case mode.IsRegular(), mode&fs.ModeNamedPipe != 0:
	case mode.IsDir():
		return nil, fmt.Errorf("%s: is a directory, not a file", plugin.Printable(path))
	default:
		return nil, fmt.Errorf("%s: is neither a regular file nor a pipe", plugin.Printable(path))
	}
	switch {
	case info.Size() > maxFile:
		return nil, tooLarge(path)
	case info.Size() == 0 && info.Mode().IsRegular():
		return nil, nil
	}
	return await(ctx, func() ([]byte, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, pathError(path, err)
		}
		defer f.Close() //nolint:errcheck // nothing was written
		return readAll(f, path, info.Size())
	})
}

// readStdin reads standard input to its end, or until ctx ends.
func (a *app) readStdin(ctx context.Context) ([]byte, error) {
	return await(ctx, func() ([]byte, error) { return readAll(a.in, stdin, 0) })
}

// readAll reads r to its end. size is how much there seems to be.
func readAll(r io.Reader, name string, size int64) ([]byte, error) {
	var buf bytes.Buffer
	buf.Grow(int(min(max(size, 0), maxFile)) + bytes.MinRead)
	if _, err := buf.ReadFrom(io.LimitReader(r, maxFile+1)); err != nil {
		return nil, pathError(name, err)
	}
	if buf.Len() > maxFile {
		return nil, tooLarge(name)
	}
	return buf.Bytes(), nil
}

// await runs f, which only looks and may take for ever, and leaves it behind when
// ctx ends.
func await[T any](ctx context.Context, f func() (T, error)) (found T, err error) {
	type answer struct {
		found T
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		found, err := f()
		done <- answer{found, err}
	}()
	select {
	case got := <-done:
		return got.found, got.err
	case <-ctx.Done():
		return found, ctx.Err()
	}
}

// listFolder gives the documents' files of a folder in name order: *.yaml,
// *.yml and *.json. Folders below it are not entered; hidden files and what
// editors leave behind have other names.
func listFolder(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, pathError(path, err)
	}
	var files []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		switch filepath.Ext(e.Name()) {
		case ".yaml", ".yml", ".json":
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	return files, nil
}

// readEntry reads a file of a folder. Unlike a file that was named it may not be
// a pipe: nobody may be at its other end.
func readEntry(ctx context.Context, path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		return nil, fmt.Errorf("%s: is a pipe, not a regular file", plugin.Printable(path))
	}
	return readFile(ctx, path)
}

// isLink reports whether path itself is a symbolic link.
func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// pathError says "PATH: what is wrong", without the name of a system call. Who
// names files may not write the lines of messages: PATH is printable.
func pathError(path string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("%s: %w", plugin.Printable(path), err)
}

func tooLarge(path string) error {
	return fmt.Errorf("%s: larger than %d MiB", plugin.Printable(path), maxFile>>20)
}
