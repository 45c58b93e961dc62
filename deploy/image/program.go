package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
)

// static says what keeps a program from running alone on an architecture.
func static(data []byte, arch string) error {
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	want, ok := machines[arch]
	if !ok {
		return fmt.Errorf("architecture %q: want amd64 or arm64", arch)
	}
	if !bytes.HasPrefix(data, []byte(elf.ELFMAG)) {
		return errors.New("it is not a program")
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return err
	}
	if f.Machine != want {
		return fmt.Errorf("it is for %s, and not for %s", f.Machine, arch)
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("names of its libraries: %w", err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("it names a loader: build it with CGO_ENABLED=0")
		}
	}
	if len(libraries) > 0 {
		return fmt.Errorf("it needs %s: build it with CGO_ENABLED=0", libraries[0])
	}
	return nil
}
