package jail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"gopkg.in/yaml.v3"

	apijail "github.com/tlspu/keel/api/jail"
	"github.com/tlspu/keel/core/host"
)

// A Record is what is kept of one jail beside what its host shows. Fields with
// omitempty may be missing in a file.
type Record struct {
	Spec *apijail.Jail `yaml:"spec"`
	// EpairOrdinal numbers the jail's link. It is never changed, nor given to
	// another jail while there is a record.
	EpairOrdinal int `yaml:"epair_ordinal"`
	// Provisioning: the jail is being made and was not started yet, as far as is
	// known, so that restartPolicy Never does not leave it half made.
	Provisioning bool `yaml:"provisioning,omitempty"`
	// Deleting is true from before the first thing is taken away.
	Deleting bool `yaml:"deleting,omitempty"`
}

// A Store keeps records as files <name>.yaml, private and synced, in the top
// folder of a tree. One agent at a time may use it.
type Store struct{ files *host.Tree }

// NewStore keeps records in files.
func NewStore(files *host.Tree) *Store { return &Store{files} }

const suffix = ".yaml"

// most is far more than a record needs.
const most = 1 << 20

// Load returns all records by name. A record authorises that its jail is
// deleted, so one that cannot be read for certain is an error that names its
// file, and so are all others with it. Files that are no records are left alone.
func (s *Store) Load(ctx context.Context) (map[string]Record, error) {
	names, err := s.files.List("/")
	if err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	records := map[string]Record{}
	links := map[int]string{}
	var errs []error
	for _, file := range names {
		name, ok := strings.CutSuffix(file, suffix)
		if !ok || strings.HasPrefix(file, ".") {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r, err := s.read(file, name)
		if err == nil && links[r.EpairOrdinal] != "" {
			err = fmt.Errorf("epair_ordinal %d is that of %s already", r.EpairOrdinal, links[r.EpairOrdinal])
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("record %s: %w: fix it, or move it away and Keel no longer manages the jail", file, err))
			continue
		}
		records[name], links[r.EpairOrdinal] = r, file
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return records, nil
}

func (s *Store) read(file, name string) (r Record, err error) {
	data, err := s.files.Read("/"+file, most)
	if err != nil {
		return r, err
	}
	return parseRecord(data, name)
}

// parseRecord reads the record of the jail of that name.
func parseRecord(data []byte, name string) (r Record, err error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&r); err != nil {
		if errors.Is(err, io.EOF) {
			return r, errors.New("is empty")
		}
		return r, fmt.Errorf("read: %w", err)
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return r, errors.New("holds more than one document")
	}
	switch {
	case r.Spec == nil:
		return r, errors.New("has no spec")
	case r.EpairOrdinal < 1:
		return r, fmt.Errorf("epair_ordinal must be 1 or more, is %d", r.EpairOrdinal)
	case r.Spec.Metadata.Name != name:
		return r, fmt.Errorf("holds the jail %q, which belongs into another file", r.Spec.Metadata.Name)
	}
	return r, r.Spec.Validate()
}

// Save writes a record. When it returns nil the record has reached the disk.
func (s *Store) Save(ctx context.Context, r *Record) error {
	name := r.Spec.Metadata.Name
	data, err := yaml.Marshal(r)
	if err != nil {
		return fmt.Errorf("write record of %s: %w", name, err)
	}
	mode := fs.FileMode(0o600)
	_, err = s.files.Put(ctx, "/"+name+suffix, bytes.NewReader(data), host.Attr{Mode: &mode, Private: true})
	if err != nil {
		return fmt.Errorf("write record of %s: %w", name, err)
	}
	return nil
}

// Remove deletes the record of a jail; no record is no error.
func (s *Store) Remove(name string) error {
	if _, err := s.files.Remove("/" + name + suffix); err != nil {
		return fmt.Errorf("remove record of %s: %w", name, err)
	}
	return nil
}
