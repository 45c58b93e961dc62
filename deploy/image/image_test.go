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

var packaged = time.Date(2024, 2, 3, 4, 5, 6, 0, time.UTC)

// inputs is a folder with what the command reads.
type inputs struct {
	*testing.T
	dir string
}

// newInputs has a binary and Debian's packages, for two architectures. One has
// its files below /usr, as newer Debians do.
func newInputs(t *testing.T) inputs {
	in := inputs{t, t.TempDir()}
	for arch, usr := range map[string]string{"amd64": "./", "arm64": "./usr/"} {
		in.write("keel-"+arch, program(arch, "", "keel"))
		in.pack(arch+"/base-files", map[string]string{
			"./etc/os-release":                     "-> ../usr/lib/os-release",
			"./usr/lib/os-release":                 "ID=debian\n",
			"./usr/share/common-licenses/GPL":      "-> GPL-2",
			"./usr/share/common-licenses/GPL-2":    "the GPL\n",
			"./usr/share/doc/base-files/FAQ":       "not wanted",
			"./usr/share/doc/base-files/copyright": "free\n",
		})
		in.pack(arch+"/libc6", map[string]string{
			usr + "lib64/ld.so.2":                "-> /lib/some-linux-gnu/ld.so.2",
			usr + "lib/some-linux-gnu/ld.so.2":   library(arch, "loader"),
			usr + "lib/some-linux-gnu/libc.so.6": library(arch, "libc", "ld.so.2"),
			usr + "lib/some-linux-gnu/libm.so.6": library(arch, "not wanted"),
			"./usr/share/doc/libc6/copyright":    "LGPL\n",
		})
		in.pack(arch+"/unused", map[string]string{
			"./usr/share/doc/unused/copyright": "not wanted",
		})
		in.pack(arch+"/util-linux", map[string]string{
			usr + "bin/nsenter":                        string(program(arch, "/lib64/ld.so.2", "nsenter", "libenter.so.1", "libc.so.6")),
			usr + "sbin/chroot":                        string(program(arch, "/lib64/ld.so.2", "chroot", "libc.so.6")),
			usr + "bin/mount":                          "not wanted",
			"./usr/lib/some-linux-gnu/libenter.so.1":   "-> libenter.so.1.2",
			"./usr/lib/some-linux-gnu/libenter.so.1.2": library(arch, "libenter"),
			"./usr/share/doc/util-linux/copyright":     "GPL, see GPL-2\n",
		})
	}
	return in
}

func (in inputs) write(name string, data []byte) {
	in.Helper()
	path := filepath.Join(in.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		in.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		in.Fatal(err)
	}
}

// pack writes a package; "-> x" is a link. Its owner is one that the image has not.
func (in inputs) pack(name string, files map[string]string) {
	in.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for file, text := range files {
		h := &tar.Header{Name: file, Mode: 0o644, Size: int64(len(text)), Uid: 7, ModTime: packaged}
		if strings.Contains(file, "bin/") {
			h.Mode = 0o755
		}
		if to, ok := strings.CutPrefix(text, "-> "); ok {
			h.Typeflag, h.Linkname, h.Size, h.Mode, text = tar.TypeSymlink, to, 0, 0o777, ""
		}
		if err := w.WriteHeader(h); err != nil {
			in.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			in.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		in.Fatal(err)
	}
	in.write(name+".tar", out.Bytes())
	in.write(name+".control", []byte("Package: "+filepath.Base(name)+"\nVersion: 1:1.2-3\n"))
}

// args are the arguments for both architectures; more come before the binaries.
func (in inputs) args(more ...string) []string {
	args := append([]string{"-debian", in.dir, "-version", "v1.2.3", "-commit", "c0ffee", "-time", "1700000000"}, more...)
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
			RootFS: v1.RootFS{Type: "layers", DiffIDs: got.RootFS.DiffIDs}, // Unpack has checked them
			History: []v1.History{
				{Created: &created, CreatedBy: "make image: Debian base-files 1:1.2-3, libc6 1:1.2-3, util-linux 1:1.2-3"},
				{Created: &created, CreatedBy: "make image: keel v1.2.3"},
			},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("config for %s (-want +got):\n%s", arch, diff)
		}
		if diff := cmp.Diff(tree(arch), list(t, dir)); diff != "" {
			t.Errorf("files for %s (-want +got):\n%s", arch, diff)
		}
		for name, want := range map[string]time.Time{"usr/bin/keel": created, "usr/bin/nsenter": packaged, "var/lib/dpkg/status.d/libc6": time.Unix(0, 0)} {
			if info, err := os.Stat(filepath.Join(dir, name)); err != nil || !info.ModTime().Equal(want) {
				t.Errorf("%s is of %v, %v, want %s", name, info, err, want)
			}
		}
	}
}

// tree is everything in the image, but for folders that only lead somewhere.
func tree(arch string) map[string]string {
	control := func(name string) string { return "-rw-r--r-- Package: " + name + "\nVersion: 1:1.2-3\n" }
	return map[string]string{
		"bin":                                    "Lrwxrwxrwx usr/bin",
		"etc/os-release":                         "Lrwxrwxrwx ../usr/lib/os-release",
		"host":                                   "drwxr-xr-x",
		"lib":                                    "Lrwxrwxrwx usr/lib",
		"lib64":                                  "Lrwxrwxrwx usr/lib64",
		"sbin":                                   "Lrwxrwxrwx usr/sbin",
		"tmp":                                    "dtrwxrwxrwx",
		"usr/bin/keel":                           "-rwxr-xr-x " + string(program(arch, "", "keel")),
		"usr/bin/nsenter":                        "-rwxr-xr-x " + string(program(arch, "/lib64/ld.so.2", "nsenter", "libenter.so.1", "libc.so.6")),
		"usr/lib/os-release":                     "-rw-r--r-- ID=debian\n",
		"usr/lib/some-linux-gnu/ld.so.2":         "-rw-r--r-- " + library(arch, "loader"),
		"usr/lib/some-linux-gnu/libc.so.6":       "-rw-r--r-- " + library(arch, "libc", "ld.so.2"),
		"usr/lib/some-linux-gnu/libenter.so.1":   "Lrwxrwxrwx libenter.so.1.2",
		"usr/lib/some-linux-gnu/libenter.so.1.2": "-rw-r--r-- " + library(arch, "libenter"),
		"usr/lib64/ld.so.2":                      "Lrwxrwxrwx /lib/some-linux-gnu/ld.so.2",
		"usr/sbin/chroot":                        "-rwxr-xr-x " + string(program(arch, "/lib64/ld.so.2", "chroot", "libc.so.6")),
		"usr/share/common-licenses/GPL":          "Lrwxrwxrwx GPL-2",
		"usr/share/common-licenses/GPL-2":        "-rw-r--r-- the GPL\n",
		"usr/share/doc/base-files/copyright":     "-rw-r--r-- free\n",
		"usr/share/doc/libc6/copyright":          "-rw-r--r-- LGPL\n",
		"usr/share/doc/util-linux/copyright":     "-rw-r--r-- GPL, see GPL-2\n",
		"var/lib/dpkg/status.d/base-files":       control("base-files"),
		"var/lib/dpkg/status.d/libc6":            control("libc6"),
		"var/lib/dpkg/status.d/util-linux":       control("util-linux"),
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
	// Another folder, in which the packages have their files in another order.
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

// A node that has one version of Keel fetches only Keel for the next.
func TestRun_toolsAreALayerThatStays(t *testing.T) {
	in := newInputs(t)
	before := untar(t, in.archive())
	in.write("keel-amd64", program("amd64", "", "newer"))
	in.write("keel-arm64", program("arm64", "", "newer"))
	stays := 0
	for name, data := range untar(t, in.archive("-version", "v1.2.4", "-commit", "beef", "-time", "1800000000")) {
		if _, ok := before[name]; ok && bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
			stays++
		}
	}
	if stays != 2 {
		t.Errorf("%d layers are those of the version before, want one for each architecture", stays)
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
		{"a binary that is none", func(in inputs) { in.write("keel-amd64", []byte("#!/bin/sh\n")) }, nil, "keel-amd64: it is no program"},
		{"a binary that is cut", func(in inputs) { in.write("keel-amd64", program("amd64", "", "keel")[:99]) }, nil, "keel-amd64: "},
		{"a binary with a loader", func(in inputs) { in.write("keel-amd64", program("amd64", "/lib64/ld.so.2", "keel")) }, nil, "keel-amd64: it is not static"},
		{"a binary with libraries", func(in inputs) { in.write("keel-amd64", program("amd64", "", "keel", "libc.so.6")) }, nil, "keel-amd64: it is not static"},
		{"no packages", nil, []string{"-debian", "/nowhere"}, "/nowhere/amd64: no such file"},
		{"a package without a version", func(in inputs) { in.write("amd64/base-files.control", []byte("Package: x\n")) }, nil, "base-files.control: it has no line Version"},
		{"a package that is no tar", func(in inputs) { in.write("amd64/base-files.tar", bytes.Repeat([]byte("x"), 512)) }, nil, "base-files.tar: archive/tar: invalid tar header"},
		{"a package without its licence", func(in inputs) {
			in.pack("amd64/base-files", map[string]string{"./etc/os-release": "", "./usr/share/common-licenses/GPL": ""})
		}, nil, "usr/share/doc/base-files/copyright is in none of Debian's packages for amd64: base-files, libc6, unused, util-linux"},
		{"no licences", func(in inputs) { in.pack("amd64/base-files", nil) }, nil, "usr/share/common-licenses/ is in none of Debian's packages"},
		{"no nsenter", func(in inputs) { in.pack("amd64/util-linux", nil) }, nil, "usr/bin/nsenter is in none of Debian's packages"},
		{"no loader", func(in inputs) { in.pack("amd64/libc6", nil) }, nil, "usr/bin/nsenter: needs /lib64/ld.so.2: usr/lib64/ld.so.2 is in none of Debian's packages"},
		{"no library", func(in inputs) {
			in.pack("amd64/util-linux", map[string]string{"./bin/nsenter": string(program("amd64", "", "nsenter", "libnew.so.7"))})
		}, nil, "usr/bin/nsenter: needs libnew.so.7: it is in none of Debian's packages"},
		{"a link to nothing", func(in inputs) {
			in.pack("amd64/util-linux", map[string]string{"./bin/nsenter": "-> ../lib/nsenter"})
		}, nil, "usr/bin/nsenter: leads to ../lib/nsenter: usr/lib/nsenter is in none of Debian's packages"},
		{"a package for another machine", func(in inputs) {
			in.pack("amd64/util-linux", map[string]string{"./bin/nsenter": string(program("arm64", "", "nsenter"))})
		}, nil, "usr/bin/nsenter: it is for EM_AARCH64, and not for amd64"},
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

// What unpacks images in tests does see a mistake.
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
