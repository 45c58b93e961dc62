package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// wanted is what the image takes of Debian, beside what these files need and the
// copyright of each package: the commands by which the agent reaches its host,
// the licences that copyrights point to, and the release's name, by which
// scanners know what they are looking at.
func wanted() []string {
	return []string{"usr/bin/nsenter", "usr/sbin/chroot", "usr/share/common-licenses/", "etc/os-release"}
}

// tools is the layer below Keel's own.
type tools struct {
	files    []file
	versions []string // "util-linux 2.38.1-5"
}

// fromDebian makes the layer of what packages.sh has put into dir for an
// architecture.
func fromDebian(dir, arch string) (tools, error) {
	all, err := readDebian(filepath.Join(dir, arch), arch)
	if err != nil {
		return tools{}, err
	}
	for _, name := range wanted() {
		if err := all.take(name); err != nil {
			return tools{}, err
		}
	}
	got := tools{files: []file{
		{name: "host", mode: fs.ModeDir | 0o755},
		{name: "tmp", mode: fs.ModeDir | fs.ModeSticky | 0o777},
	}}
	used := map[string]bool{}
	for name := range all.taken {
		used[all.from[name]] = true
	}
	for _, name := range all.packages {
		if !used[name] {
			continue
		}
		if err := all.take("usr/share/doc/" + name + "/copyright"); err != nil {
			return tools{}, err
		}
		control, err := os.ReadFile(filepath.Join(dir, arch, name+".control"))
		if err != nil {
			return tools{}, err
		}
		version, err := versionOf(control)
		if err != nil {
			return tools{}, fmt.Errorf("%s.control: %w", name, err)
		}
		got.versions = append(got.versions, name+" "+version)
		got.files = append(got.files, file{name: "var/lib/dpkg/status.d/" + name, mode: 0o644, data: control})
	}
	for name := range all.taken {
		got.files = append(got.files, all.files[name])
	}
	for _, name := range merged() {
		if slices.ContainsFunc(got.files, func(f file) bool { return strings.HasPrefix(f.name, "usr/"+name+"/") }) {
			got.files = append(got.files, file{name: name, mode: fs.ModeSymlink | 0o777, link: "usr/" + name})
		}
	}
	return got, nil
}

// versionOf finds the version in a package's control data.
func versionOf(control []byte) (string, error) {
	for line := range strings.Lines(string(control)) {
		if v, ok := strings.CutPrefix(line, "Version: "); ok {
			return strings.TrimSpace(v), nil
		}
	}
	return "", errors.New("it has no line Version")
}

// debian is the files of packages, and which of them are taken.
type debian struct {
	arch     string
	packages []string
	files    map[string]file
	from     map[string]string // the package of a file
	taken    map[string]bool
}

// readDebian reads the packages in a folder.
func readDebian(dir, arch string) (debian, error) {
	d := debian{arch: arch, files: map[string]file{}, from: map[string]string{}, taken: map[string]bool{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return debian{}, err
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".tar")
		if !ok {
			continue
		}
		if err := d.read(filepath.Join(dir, e.Name()), name); err != nil {
			return debian{}, fmt.Errorf("%s: %w", filepath.Join(dir, e.Name()), err)
		}
		d.packages = append(d.packages, name)
	}
	return d, nil
}

// read adds a package. Folders are not remembered: those that are needed are made.
func (d debian) read(path, name string) error {
	content, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	for in := tar.NewReader(content); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeSymlink {
			continue
		}
		f := file{name: place(h.Name), mode: h.FileInfo().Mode(), link: h.Linkname, time: h.ModTime}
		if f.data, err = io.ReadAll(in); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		d.files[f.name], d.from[f.name] = f, name
	}
}

// merged are the folders that are one with those below /usr on every machine,
// and are not in every Debian's packages.
func merged() []string { return []string{"bin", "lib", "lib64", "sbin"} }

// place is where a file of a package lies in the image.
func place(name string) string {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	if top, _, _ := strings.Cut(name, "/"); slices.Contains(merged(), top) {
		return "usr/" + name
	}
	return name
}

// take takes a file with all that it needs, or what is below a name that ends in
// a slash.
func (d debian) take(name string) error {
	if strings.HasSuffix(name, "/") {
		found := false
		for n := range d.files {
			if strings.HasPrefix(n, name) {
				found = true
				if err := d.take(n); err != nil {
					return err
				}
			}
		}
		if !found {
			return d.missing(name)
		}
		return nil
	}
	f, ok := d.files[name]
	switch {
	case !ok:
		return d.missing(name)
	case d.taken[name]:
		return nil
	}
	d.taken[name] = true
	if f.mode.Type() == fs.ModeSymlink {
		to := f.link
		if !path.IsAbs(to) {
			to = path.Join(path.Dir(name), to)
		}
		if err := d.take(place(to)); err != nil {
			return fmt.Errorf("%s: leads to %s: %w", name, f.link, err)
		}
		return nil
	}
	loader, libraries, err := needs(f.data, d.arch)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if loader != "" {
		if err := d.take(place(loader)); err != nil {
			return fmt.Errorf("%s: needs %s: %w", name, loader, err)
		}
	}
	for _, library := range libraries {
		if err := d.takeLibrary(library); err != nil {
			return fmt.Errorf("%s: needs %s: %w", name, library, err)
		}
	}
	return nil
}

// takeLibrary takes a library from where the loader looks for it.
func (d debian) takeLibrary(name string) error {
	for file := range d.files {
		if path.Base(file) == name && strings.HasSuffix(path.Dir(file), "-linux-gnu") {
			return d.take(file)
		}
	}
	return d.missing("it")
}

func (d debian) missing(name string) error {
	return fmt.Errorf("%s is in none of Debian's packages for %s: %s", name, d.arch, strings.Join(d.packages, ", "))
}
