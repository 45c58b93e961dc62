package main

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// release is what an archive says of itself.
type release struct {
	name    string // docker.io/library/keel
	version string // also the tag
	commit  string
	created time.Time
}

// check says what would be refused where the archive is loaded.
func (r release) check() error {
	if !regexp.MustCompile(`^[a-z0-9]+([.:-][a-z0-9]+)*(/[a-z0-9]+([._-][a-z0-9]+)*)+$`).MatchString(r.name) {
		return fmt.Errorf("name %q: want a registry and a name in lower case, as in docker.io/library/keel", r.name)
	}
	if !regexp.MustCompile(`^\w[\w.-]{0,127}$`).MatchString(r.version) {
		return fmt.Errorf("version %q: it is the image's tag, which has at most 128 letters, digits, and . _ -", r.version)
	}
	if r.commit == "" {
		return fmt.Errorf("commit: it is empty")
	}
	return nil
}

// about is said in annotations and again in labels, which more programs show.
func (r release) about() map[string]string {
	return map[string]string{
		v1.AnnotationTitle:    "keel",
		v1.AnnotationSource:   "https://github.com/tlspu/keel",
		v1.AnnotationVersion:  r.version,
		v1.AnnotationRevision: r.commit,
		v1.AnnotationCreated:  r.created.Format(time.RFC3339),
	}
}

// image is the image for one architecture: its manifest, and all that belongs to it.
type image struct {
	manifest v1.Descriptor
	config   v1.Descriptor
	layers   []v1.Descriptor
	blobs    map[digest.Digest][]byte
}

// newImage makes an image of one layer: Keel, and where the host and a temporary
// directory are mounted.
func newImage(r release, arch string, keel []byte) (image, error) {
	im := image{blobs: map[digest.Digest][]byte{}}
	made, err := newLayer([]file{
		{name: "host", mode: fs.ModeDir | 0o755, time: r.created},
		{name: "tmp", mode: fs.ModeDir | fs.ModeSticky | 0o777, time: r.created},
		{name: "usr/bin/keel", mode: 0o755, data: keel, time: r.created},
	})
	if err != nil {
		return image{}, err
	}
	im.layers = []v1.Descriptor{im.add(v1.MediaTypeImageLayerGzip, made.blob)}
	config := v1.Image{
		Created:  &r.created,
		Platform: v1.Platform{OS: "linux", Architecture: arch},
		Config: v1.ImageConfig{
			User:       "0:0",
			Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
			Entrypoint: []string{"/usr/bin/keel"},
			WorkingDir: "/",
			Labels:     r.about(),
		},
		RootFS:  v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{made.diffID}},
		History: []v1.History{{Created: &r.created, CreatedBy: "make image: keel " + r.version}},
	}
	if im.config, err = im.addJSON(v1.MediaTypeImageConfig, config); err != nil {
		return image{}, err
	}
	im.manifest, err = im.addJSON(v1.MediaTypeImageManifest, v1.Manifest{
		Versioned:   specs.Versioned{SchemaVersion: 2},
		MediaType:   v1.MediaTypeImageManifest,
		Config:      im.config,
		Layers:      im.layers,
		Annotations: r.about(),
	})
	im.manifest.Platform = &config.Platform
	return im, err
}

// add keeps a blob and describes it.
func (im image) add(mediaType string, blob []byte) v1.Descriptor {
	sum := digest.FromBytes(blob)
	im.blobs[sum] = blob
	return v1.Descriptor{MediaType: mediaType, Digest: sum, Size: int64(len(blob))}
}

func (im image) addJSON(mediaType string, v any) (v1.Descriptor, error) {
	blob, err := json.Marshal(v)
	return im.add(mediaType, blob), err
}

// loadable is an entry of manifest.json, the one file that docker load reads
// where Docker keeps images itself and not in containerd. It knows nothing of
// architectures, so each has a tag of its own there.
type loadable struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// archive writes an OCI image layout with one image for several architectures.
func archive(out io.Writer, r release, images []image) error {
	whole := image{blobs: map[digest.Digest][]byte{}}
	index := v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex, Annotations: r.about()}
	var docker []loadable
	for _, im := range images {
		entry := loadable{Config: blobName(im.config.Digest), RepoTags: []string{r.name + ":" + r.version + "-" + im.manifest.Platform.Architecture}}
		for _, l := range im.layers {
			entry.Layers = append(entry.Layers, blobName(l.Digest))
		}
		docker = append(docker, entry)
		index.Manifests = append(index.Manifests, im.manifest)
		for sum, blob := range im.blobs {
			whole.blobs[sum] = blob
		}
	}
	top, err := whole.addJSON(v1.MediaTypeImageIndex, index)
	if err != nil {
		return err
	}
	top.Annotations = map[string]string{
		v1.AnnotationRefName:       r.version,
		"io.containerd.image.name": r.name + ":" + r.version,
	}
	files := map[string]file{}
	put := func(name string, data []byte) {
		files[name] = file{name: name, mode: 0o644, data: data, time: r.created}
	}
	for name, v := range map[string]any{
		v1.ImageLayoutFile: v1.ImageLayout{Version: v1.ImageLayoutVersion},
		v1.ImageIndexFile:  v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex, Manifests: []v1.Descriptor{top}},
		"manifest.json":    docker,
	} {
		data, err := json.Marshal(v)
		if err != nil {
			return err
		}
		put(name, data)
	}
	for sum, blob := range whole.blobs {
		put(blobName(sum), blob)
	}
	return writeTar(tar.NewWriter(out), files)
}

// blobName is where a blob lies in the layout.
func blobName(sum digest.Digest) string {
	return v1.ImageBlobsDir + "/" + sum.Algorithm().String() + "/" + sum.Encoded()
}
