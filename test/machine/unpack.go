package machine

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// Unpack lays the image for an architecture out below dir, as what runs containers
// does, and returns its config. The archive is an OCI image layout with one image
// in it. Every blob is held to its digest and size, every layer to its diff ID,
// and everything in a layer has to be root's.
func Unpack(archive io.Reader, arch, dir string) (v1.Image, error) {
	var config v1.Image
	l, err := readLayout(archive)
	if err != nil {
		return config, err
	}
	var index v1.Index
	if err := json.Unmarshal(l[v1.ImageIndexFile], &index); err != nil {
		return config, fmt.Errorf("%s: %w", v1.ImageIndexFile, err)
	}
	if len(index.Manifests) != 1 {
		return config, fmt.Errorf("%s names %d images, want one", v1.ImageIndexFile, len(index.Manifests))
	}
	var platforms v1.Index
	if err := l.decode(index.Manifests[0], v1.MediaTypeImageIndex, &platforms); err != nil {
		return config, err
	}
	at := slices.IndexFunc(platforms.Manifests, func(d v1.Descriptor) bool {
		return d.Platform != nil && d.Platform.OS == "linux" && d.Platform.Architecture == arch
	})
	if at < 0 {
		return config, fmt.Errorf("there is no image for linux/%s", arch)
	}
	var manifest v1.Manifest
	if err := l.decode(platforms.Manifests[at], v1.MediaTypeImageManifest, &manifest); err != nil {
		return config, err
	}
	if err := l.decode(manifest.Config, v1.MediaTypeImageConfig, &config); err != nil {
		return config, err
	}
	if len(manifest.Layers) != len(config.RootFS.DiffIDs) {
		return config, fmt.Errorf("%d layers, and %d diff IDs", len(manifest.Layers), len(config.RootFS.DiffIDs))
	}
	for i, d := range manifest.Layers {
		if err := l.extract(d, string(config.RootFS.DiffIDs[i]), dir); err != nil {
			return config, fmt.Errorf("layer %d: %w", i, err)
		}
	}
	return config, nil
}

// layout is the files of an archive, by name.
type layout map[string][]byte

func readLayout(archive io.Reader) (layout, error) {
	l := layout{}
	for in := tar.NewReader(archive); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg {
			return nil, fmt.Errorf("%s is no file", h.Name)
		}
		if l[h.Name], err = io.ReadAll(in); err != nil {
			return nil, err
		}
	}
	for name, data := range l {
		if sum, ok := strings.CutPrefix(name, "blobs/sha256/"); ok && sum != fmt.Sprintf("%x", sha256.Sum256(data)) {
			return nil, fmt.Errorf("%s: its content is another", name)
		}
	}
	var version v1.ImageLayout
	if err := json.Unmarshal(l[v1.ImageLayoutFile], &version); err != nil {
		return nil, fmt.Errorf("%s: %w", v1.ImageLayoutFile, err)
	}
	if version.Version != v1.ImageLayoutVersion {
		return nil, fmt.Errorf("%s is of version %q, want %s", v1.ImageLayoutFile, version.Version, v1.ImageLayoutVersion)
	}
	return l, nil
}

// blob is what a descriptor names. That its content is its name is known.
func (l layout) blob(d v1.Descriptor, mediaType string) ([]byte, error) {
	data, ok := l["blobs/"+strings.Replace(string(d.Digest), ":", "/", 1)]
	switch {
	case !ok:
		return nil, fmt.Errorf("%s is not there", d.Digest)
	case int64(len(data)) != d.Size:
		return nil, fmt.Errorf("%s has %d bytes, want %d", d.Digest, len(data), d.Size)
	case d.MediaType != mediaType:
		return nil, fmt.Errorf("%s is %q, want %q", d.Digest, d.MediaType, mediaType)
	}
	return data, nil
}

func (l layout) decode(d v1.Descriptor, mediaType string, into any) error {
	data, err := l.blob(d, mediaType)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", d.Digest, err)
	}
	return nil
}

// extract lays a layer over dir.
func (l layout) extract(d v1.Descriptor, diffID, dir string) error {
	packed, err := l.blob(d, v1.MediaTypeImageLayerGzip)
	if err != nil {
		return err
	}
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	content, err := io.ReadAll(zip)
	if err != nil {
		return err
	}
	if sum := fmt.Sprintf("sha256:%x", sha256.Sum256(content)); sum != diffID {
		return fmt.Errorf("its content is %s, want %s", sum, diffID)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for in := tar.NewReader(bytes.NewReader(content)); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = put(root, h, in)
		}
		if err != nil {
			return err
		}
	}
}

// put makes one entry of a layer.
func put(root *os.Root, h *tar.Header, content io.Reader) error {
	name, mode := path.Clean(h.Name), h.FileInfo().Mode()
	if h.Uid != 0 || h.Gid != 0 {
		return fmt.Errorf("%s belongs to %d:%d, want root", name, h.Uid, h.Gid)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := root.Mkdir(name, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	case tar.TypeReg:
		data, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		if err := root.WriteFile(name, data, 0o600); err != nil {
			return err
		}
		if err := root.Chtimes(name, h.ModTime, h.ModTime); err != nil {
			return err
		}
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	default:
		return fmt.Errorf("%s: no image of ours has an entry of kind %c", name, h.Typeflag)
	}
	return root.Chmod(name, mode&^os.ModeType)
}
