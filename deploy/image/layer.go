package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	_ "crypto/sha256" // go-digest knows only algorithms that are linked
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
)

// file is a file or directory in a layer. It belongs to root.
type file struct {
	name string // without a leading slash
	mode fs.FileMode
	data []byte
	time time.Time // zero: 1970
}

// layer is a layer as it is stored, and the digest of what is in it.
type layer struct {
	blob   []byte
	diffID digest.Digest
}

// newLayer packs files, sorted, with the directories they lie in.
func newLayer(files []file) (layer, error) {
	all := map[string]file{}
	for _, f := range files {
		all[f.name] = f
	}
	for _, f := range files {
		for dir := path.Dir(f.name); dir != "."; dir = path.Dir(dir) {
			if _, ok := all[dir]; !ok {
				all[dir] = file{name: dir, mode: fs.ModeDir | 0o755}
			}
		}
	}
	var blob bytes.Buffer
	sum := digest.SHA256.Digester()
	zip := gzip.NewWriter(&blob)
	if err := writeTar(tar.NewWriter(io.MultiWriter(zip, sum.Hash())), all); err != nil {
		return layer{}, err
	}
	if err := zip.Close(); err != nil {
		return layer{}, err
	}
	return layer{blob: blob.Bytes(), diffID: sum.Digest()}, nil
}

// writeTar writes files by name and closes the tar.
func writeTar(out *tar.Writer, files map[string]file) error {
	sorted := make([]file, 0, len(files))
	for _, f := range files {
		sorted = append(sorted, f)
	}
	slices.SortFunc(sorted, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	for _, f := range sorted {
		h := &tar.Header{
			Format:   tar.FormatUSTAR,
			Typeflag: tar.TypeReg,
			Name:     f.name,
			Mode:     int64(f.mode.Perm()),
			Size:     int64(len(f.data)),
			ModTime:  time.Unix(0, 0),
		}
		if !f.time.IsZero() {
			h.ModTime = f.time
		}
		if f.mode&fs.ModeSticky != 0 {
			h.Mode |= 0o1000
		}
		if f.mode.IsDir() {
			h.Typeflag, h.Name = tar.TypeDir, f.name+"/"
		}
		if err := out.WriteHeader(h); err != nil {
			return fmt.Errorf("pack %s: %w", f.name, err)
		}
		if _, err := out.Write(f.data); err != nil {
			return fmt.Errorf("pack %s: %w", f.name, err)
		}
	}
	return out.Close()
}
