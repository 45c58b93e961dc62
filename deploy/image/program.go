package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
)

// needs tells which loader and libraries a program or library names. What is
// neither needs nothing; what is for another architecture is an error.
func needs(data []byte, arch string) (loader string, libraries []string, err error) {
	if !bytes.HasPrefix(data, []byte(elf.ELFMAG)) {
		return "", nil, nil
	}
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	want, ok := machines[arch]
	if !ok {
		return "", nil, fmt.Errorf("architecture %q: want amd64 or arm64", arch)
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return "", nil, err
	}
	if f.Machine != want {
		return "", nil, fmt.Errorf("it is for %s, and not for %s", f.Machine, arch)
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		name := make([]byte, p.Filesz)
		if _, err := p.ReadAt(name, 0); err != nil {
			return "", nil, fmt.Errorf("name of its loader: %w", err)
		}
		loader = string(bytes.TrimRight(name, "\x00"))
	}
	libraries, err = f.ImportedLibraries()
	if err != nil {
		return "", nil, fmt.Errorf("names of its libraries: %w", err)
	}
	return loader, libraries, nil
}

// static says what keeps a program from running without libraries.
func static(data []byte, arch string) error {
	loader, libraries, err := needs(data, arch)
	switch {
	case err != nil:
		return err
	case !bytes.HasPrefix(data, []byte(elf.ELFMAG)):
		return errors.New("it is no program")
	case loader != "" || len(libraries) > 0:
		return errors.New("it is not static: build it with CGO_ENABLED=0")
	}
	return nil
}
