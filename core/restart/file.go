package restart

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/tlspu/keel/core/host"
)

// maxRecord is more than any record needs.
const maxRecord = 1 << 20

// A File is a Journal in a file of a machine. Save is synced before it returns.
type File struct {
	tree *host.Tree
	path string
}

// NewFile returns the journal at path, a path of the machine. The first Save
// makes the file, and its folder where that is missing, for their owner alone.
func NewFile(tree *host.Tree, path string) *File { return &File{tree: tree.Own(), path: path} }

// Load reads the record. A file that cannot be read, or holds no record, is an
// error that says what to do: a restart may be due, and nobody knows which.
func (f *File) Load(context.Context) (rec Record, ok bool, err error) {
	text, err := f.tree.Read(f.path, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, false, nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return Record{}, false, fmt.Errorf("restart journal: %w: run keel as root to see whether a restart is due", err)
	}
	if err == nil {
		rec, err = parse(text)
	}
	if err != nil {
		return Record{}, false, fmt.Errorf("restart journal %s: %w: restart what it may stand for, then remove it", f.path, err)
	}
	return rec, true, nil
}

// parse is strict: what is not understood may be a restart that is due.
func parse(text []byte) (rec Record, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&rec); err != nil {
		return Record{}, fmt.Errorf("holds no record: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Record{}, errors.New("holds more than a record")
	}
	return rec, rec.readable()
}

// Save writes the record.
func (f *File) Save(ctx context.Context, r Record) error {
	if err := r.valid(); err != nil {
		return fmt.Errorf("restart journal %s: %w", f.path, err)
	}
	if r.Units == nil {
		r.Units = map[string]string{} // null would be refused by Load
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("restart journal %s: %w", f.path, err)
	}
	// What is above the folder, such as /var/lib, is everybody's.
	if _, err := f.tree.Mkdir(path.Dir(path.Dir(f.path)), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o600)
	_, err = f.tree.Put(ctx, f.path, bytes.NewReader(append(text, '\n')), host.Attr{
		Mode: &mode, Parents: 0o700, Last: host.Refuse, Private: true,
	})
	return err
}

// Clear removes the file; it is no error when there is none.
func (f *File) Clear(context.Context) error {
	_, err := f.tree.Remove(f.path)
	return err
}
