package nodeconfig

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// MaxFile is the size of the largest file that is read.
const MaxFile = 16 << 20

// ReadFile reads a regular file. What has no size is empty.
func ReadFile(path string) ([]byte, error) {
	// Opening a pipe would wait for somebody at its other end.
	if info, err := os.Stat(path); err != nil {
		return nil, Cause(err)
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	} else if info.Size() == 0 {
		return nil, nil // as files of the kernel, of which some make who reads them wait
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, Cause(err)
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, Cause(err)
	}
	if len(data) > MaxFile {
		return nil, fmt.Errorf("larger than %d MiB", MaxFile>>20)
	}
	return data, nil
}

// Text is the text of an error, "" of none.
func Text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Cause is an error without the path, which the message names already.
func Cause(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}
