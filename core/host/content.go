package host

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"

	"golang.org/x/sys/unix"
)

// seekable returns a reader that can be read again, and where it stands.
func seekable(r io.Reader) (s io.ReadSeeker, start int64, ok bool) {
	s, ok = r.(io.ReadSeeker)
	if !ok {
		return nil, 0, false
	}
	start, err := s.Seek(0, io.SeekCurrent)
	return s, start, err == nil // a pipe is a file that cannot seek
}

// sameAs compares the old content with what r gives from start, and leaves r
// there.
func (w *write) sameAs(r io.ReadSeeker, start int64) (bool, error) {
	end, err := r.Seek(0, io.SeekEnd)
	if err != nil {
		return false, err
	}
	if _, err := r.Seek(start, io.SeekStart); err != nil {
		return false, err
	}
	if end-start != w.old.info.size {
		return false, nil
	}
	same, err := equal(w.old, r)
	if err != nil {
		return false, err
	}
	_, err = r.Seek(start, io.SeekStart)
	return same, err
}

// equal reports whether a file holds exactly what r gives.
func equal(f *file, r io.Reader) (bool, error) {
	size := min(f.info.size+1, 64<<10)
	want, have := make([]byte, size), make([]byte, size)
	content := all(f.fd)
	for {
		n, err := io.ReadFull(r, want)
		if err != nil && !atEnd(err) {
			return false, err
		}
		m, err := io.ReadFull(content, have)
		if err != nil && !atEnd(err) {
			return false, err
		}
		if !bytes.Equal(want[:n], have[:m]) {
			return false, nil
		}
		if n < len(want) {
			return true, nil
		}
	}
}

func atEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// all reads an open file from its start.
func all(fd int) io.Reader { return io.NewSectionReader(readerAt(fd), 0, math.MaxInt64) }

// readerAt reads a file by its descriptor.
type readerAt int

func (fd readerAt) ReadAt(b []byte, off int64) (n int, err error) {
	for n < len(b) {
		k := 0
		err := again(func() (err error) {
			k, err = unix.Pread(int(fd), b[n:], off+int64(n))
			return err
		})
		if err != nil {
			return n, err
		}
		if k == 0 {
			return n, io.EOF
		}
		n += k
	}
	return n, nil
}

// copyAll writes what r gives to an open file, until ctx ends.
func copyAll(ctx context.Context, fd int, r io.Reader) error {
	_, err := io.Copy(&writer{fd: fd, ended: ctx.Err}, r)
	return err
}

// A writer writes to an open file in pieces, so that it can be stopped.
type writer struct {
	fd    int
	ended func() error
}

const piece = 1 << 20

func (w *writer) Write(b []byte) (n int, err error) {
	for n < len(b) {
		next := b[n:min(n+piece, len(b))]
		if err := w.ended(); err != nil {
			return n, err
		}
		if err := writeFD(w.fd, next); err != nil {
			return n, err
		}
		n += len(next)
	}
	return n, nil
}
