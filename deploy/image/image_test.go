package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/tlspu/keel/test/machine"
)

// inputs is a directory with what the command reads.
type inputs struct {
	*testing.T
	dir string
}

// newInputs has a binary for two architectures.
func newInputs(t *testing.T) inputs {
	in := inputs{t, t.TempDir()}
	for _, arch := range []string{"amd64", "arm64"} {
		in.write("keel-"+arch, program(arch, "", "keel"))
	}
	return in
}

func (in inputs) write(name string, data []byte) {
	in.Helper()
	if err := os.WriteFile(filepath.Join(in.dir, name), data, 0o644); err != nil {
		in.Fatal(err)
	}
}

// args are the arguments for both architectures; more come before the binaries.
func (in inputs) args(more ...string) []string {
	args := append([]string{"-version", "v1.2.3", "-commit", "c0ffee", "-time", "1700000000"}, more...)
	return append(args, "amd64="+filepath.Join(in.dir, "keel-amd64"), "arm64="+filepath.Join(in.dir, "keel-arm64"))
}

func (in inputs) archive(more ...string) []byte {
	in.Helper()
	var out bytes.Buffer
	if err := run(in.args(more...), &out); err != nil {
		in.Fatal(err)
	}
	return out.Bytes()
}

func TestRun_makesAnImageForEachArchitecture(t *testing.T) {
	archive := newInputs(t).archive()
	for _, arch := range []string{"amd64", "arm64"} {
		dir := t.TempDir()
		got, err := machine.Unpack(bytes.NewReader(archive), arch, dir)
		if err != nil {
			t.Fatal(err)
		}
		created := time.Unix(1700000000, 0).UTC()
		about := map[string]string{
			"org.opencontainers.image.created":  "2023-11-14T22:13:20Z",
			"org.opencontainers.image.revision": "c0ffee",
			"org.opencontainers.image.source":   "https://github.com/tlspu/keel",
			"org.opencontainers.image.title":    "keel",
			"org.opencontainers.image.version":  "v1.2.3",
		}
		want := v1.Image{
			Created:  &created,
			Platform: v1.Platform{OS: "linux", Architecture: arch},
			Config: v1.ImageConfig{
				User:       "0:0",
				Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
				Entrypoint: []string{"/usr/bin/keel"},
				WorkingDir: "/",
				Labels:     about,
			},
			RootFS:  v1.RootFS{Type: "layers", DiffIDs: got.RootFS.DiffIDs}, // Unpack has checked them
			History: []v1.History{{Created: &created, CreatedBy: "make image: keel v1.2.3"}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("config for %s (-want +got):\n%s", arch, diff)
		}
		if diff := cmp.Diff(tree(arch), list(t, dir)); diff != "" {
			t.Errorf("files for %s (-want +got):\n%s", arch, diff)
		}
		if info, err := os.Stat(filepath.Join(dir, "usr/bin/keel")); err != nil || !info.ModTime().Equal(created) {
			t.Errorf("usr/bin/keel is of %v, %v, want %s", info, err, created)
		}
	}
}

// tree is everything in the image, but for directories that only lead somewhere.
func tree(arch string) map[string]string {
	return map[string]string{
		"host":         "drwxr-xr-x",
		"tmp":          "dtrwxrwxrwx",
		"usr/bin/keel": "-rwxr-xr-x " + string(program(arch, "", "keel")),
	}
}

// list reads a tree in the same form.
func list(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if d.IsDir() {
			if below, err := os.ReadDir(path); err != nil || len(below) > 0 {
				return err
			}
			got[name] = info.Mode().String()
			return nil
		}
		text, err := os.ReadFile(path)
		if d.Type() == fs.ModeSymlink {
			var to string
			to, err = os.Readlink(path)
			text = []byte(to)
		}
		got[name] = info.Mode().String() + " " + string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// What is loaded has a name.
func TestRun_namesTheImage(t *testing.T) {
	archive := newInputs(t).archive("-name", "registry.example:5000/fleet/keel")
	files := map[string]string{}
	for name, data := range untar(t, archive) {
		files[name] = string(data)
	}
	for _, want := range []string{`"io.containerd.image.name":"registry.example:5000/fleet/keel:v1.2.3"`, `"org.opencontainers.image.ref.name":"v1.2.3"`} {
		if !strings.Contains(files["index.json"], want) {
			t.Errorf("index.json has no %s: %s", want, files["index.json"])
		}
	}
	// Docker's own store takes one tag for each architecture.
	for _, arch := range []string{"amd64", "arm64"} {
		if want := `"RepoTags":["registry.example:5000/fleet/keel:v1.2.3-` + arch + `"]`; !strings.Contains(files["manifest.json"], want) {
			t.Errorf("manifest.json has no %s: %s", want, files["manifest.json"])
		}
	}
	for name := range files {
		if strings.HasPrefix(name, "blobs/") {
			continue
		}
		if name != "index.json" && name != "manifest.json" && name != "oci-layout" {
			t.Errorf("the archive has %s", name)
		}
	}
}

func untar(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for in := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := in.Next()
		if err != nil {
			return files
		}
		var data bytes.Buffer
		if _, err := data.ReadFrom(in); err != nil {
			t.Fatal(err)
		}
		files[h.Name] = data.Bytes()
	}
}

func TestRun_sameInputGivesTheSameBytes(t *testing.T) {
	one := newInputs(t)
	first := one.archive()
	// Another directory, and files of another time.
	other := newInputs(t)
	old := time.Unix(1, 0)
	if err := os.Chtimes(filepath.Join(other.dir, "keel-amd64"), old, old); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TZ", "Asia/Tokyo")
	if !bytes.Equal(first, other.archive()) {
		t.Error("the same input gives two archives")
	}
	if bytes.Equal(first, one.archive("-time", "1700000001")) {
		t.Error("the time of the commit is not in the archive")
	}
}

func TestRun_badInput(t *testing.T) {
	tests := []struct {
		name    string
		spoil   func(in inputs)
		args    []string
		wantErr string
	}{
		{"no version", nil, []string{"-version", ""}, `version "": it is the image's tag`},
		{"a version that is no tag", nil, []string{"-version", "v1+dirty"}, `version "v1+dirty": it is the image's tag`},
		{"no commit", nil, []string{"-commit", ""}, "commit: it is empty"},
		{"a name without a registry", nil, []string{"-name", "keel"}, `name "keel": want a registry`},
		{"a name with a tag", nil, []string{"-name", "docker.io/library/keel:v1"}, "want a registry"},
		{"no such flag", nil, []string{"-frob"}, "not defined: -frob"},
		{"no architecture", nil, []string{"keel"}, `argument "keel": want ARCH=BINARY`},
		{"an unknown architecture", nil, []string{"riscv64=KEEL"}, `architecture "riscv64": want amd64 or arm64`},
		{"an architecture twice", nil, []string{"amd64=KEEL", "amd64=KEEL"}, "there is a binary for amd64 already"},
		{"no binary", nil, []string{"amd64=/nowhere/keel"}, "/nowhere/keel: no such file"},
		{"a binary for another machine", nil, []string{"arm64=KEEL"}, "it is for EM_X86_64, and not for arm64"},
		{"a binary that is none", func(in inputs) { in.write("keel-amd64", []byte("#!/bin/sh\n")) }, nil, "keel-amd64: it is not a program"},
		{"a binary that is cut", func(in inputs) { in.write("keel-amd64", program("amd64", "", "keel")[:99]) }, nil, "keel-amd64: "},
		{"a binary with a loader", func(in inputs) { in.write("keel-amd64", program("amd64", "/lib64/ld.so.2", "keel")) }, nil, "keel-amd64: it names a loader"},
		{"a binary with libraries", func(in inputs) { in.write("keel-amd64", program("amd64", "", "keel", "libc.so.6")) }, nil, "keel-amd64: it needs libc.so.6"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := newInputs(t)
			if tt.spoil != nil {
				tt.spoil(in)
			}
			args := in.args(tt.args...)
			for i, arg := range args {
				args[i] = strings.Replace(arg, "KEEL", filepath.Join(in.dir, "keel-amd64"), 1)
			}
			var out bytes.Buffer
			if err := run(args, &out); err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got %v, want %q", err, tt.wantErr)
			}
			if out.Len() > 0 {
				t.Error("something was written all the same")
			}
		})
	}
	t.Run("nothing to put in", func(t *testing.T) {
		err := run([]string{"-version", "v1", "-commit", "c"}, new(bytes.Buffer))
		if want := "there is no binary to put into an image"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	})
	t.Run("nowhere to write", func(t *testing.T) {
		err := run(newInputs(t).args(), full{})
		if err == nil || !strings.Contains(err.Error(), "no space") {
			t.Errorf("got %v, want what the writer says", err)
		}
	})
}

// full is a disk that is full.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, fmt.Errorf("no space") }

// What unpacks images in tests sees what is wrong.
func TestUnpack_refusesAnotherContent(t *testing.T) {
	archive := newInputs(t).archive()
	for old, other := range map[string]string{
		`"User":"0:0"`:                 `"User":"1:1"`, // a blob that is not what its name says
		`"imageLayoutVersion":"1.0.0"`: `"imageLayoutVersion":"2.0.0"`,
		`"digest":"sha256:`:            `"digest":"sha512:`,
	} {
		changed := bytes.ReplaceAll(archive, []byte(old), []byte(other))
		if bytes.Equal(changed, archive) {
			t.Errorf("the archive has no %s", old)
		}
		if _, err := machine.Unpack(bytes.NewReader(changed), "amd64", t.TempDir()); err == nil {
			t.Errorf("with %s in place of %s it is unpacked", other, old)
		}
	}
	if _, err := machine.Unpack(bytes.NewReader(archive), "riscv64", t.TempDir()); err == nil {
		t.Error("an image for riscv64 is unpacked, and there is none")
	}
}
