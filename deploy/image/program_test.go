package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// program is an ELF file that names a loader, if it is not empty, and libraries.
func program(arch, loader, content string, libraries ...string) []byte {
	machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]
	const ehsize, phsize, shsize = 64, 56, 64
	names, dynamic := []byte{0}, []elf.Dyn64{}
	for _, l := range libraries {
		dynamic = append(dynamic, elf.Dyn64{Tag: int64(elf.DT_NEEDED), Val: uint64(len(names))})
		names = append(append(names, l...), 0)
	}
	dynamic = append(dynamic, elf.Dyn64{})

	segment := elf.Prog64{Type: uint32(elf.PT_LOAD)}
	interp := []byte(loader + "\x00")
	if loader != "" {
		segment = elf.Prog64{Type: uint32(elf.PT_INTERP), Off: ehsize + phsize, Filesz: uint64(len(interp))}
	}
	at := uint64(ehsize + phsize + len(interp))
	strings := elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: at, Size: uint64(len(names))}
	at += strings.Size
	needed := elf.Section64{Type: uint32(elf.SHT_DYNAMIC), Off: at, Size: uint64(16 * len(dynamic)), Link: 1}
	at += needed.Size
	header := elf.Header64{
		Ident:   [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:    uint16(elf.ET_EXEC),
		Machine: uint16(machine),
		Version: uint32(elf.EV_CURRENT),
		Phoff:   ehsize, Ehsize: ehsize, Phentsize: phsize, Phnum: 1,
		Shoff: at, Shentsize: shsize, Shnum: 3, Shstrndx: 1,
	}
	var out bytes.Buffer
	for _, v := range []any{header, segment, interp, names, dynamic, elf.Section64{}, strings, needed, []byte(content)} {
		if err := binary.Write(&out, binary.LittleEndian, v); err != nil {
			panic(err) // fixed sizes into memory
		}
	}
	return out.Bytes()
}

func library(arch, content string, libraries ...string) string {
	return string(program(arch, "", content, libraries...))
}

func TestNeeds(t *testing.T) {
	tests := []struct {
		name      string
		data      []byte
		loader    string
		libraries []string
		wantErr   string
	}{
		{"a static program", program("amd64", "", "x"), "", nil, ""},
		{"a program", program("amd64", "/lib64/ld.so", "x", "liba.so.1", "libc.so.6"), "/lib64/ld.so", []string{"liba.so.1", "libc.so.6"}, ""},
		{"a library", program("amd64", "", "x", "libc.so.6"), "", []string{"libc.so.6"}, ""},
		{"a text", []byte("ELF\n"), "", nil, ""},
		{"nothing", nil, "", nil, ""},
		{"another machine's", program("arm64", "", "x"), "", nil, "it is for EM_AARCH64, and not for amd64"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			loader, libraries, err := needs(tt.data, "amd64")
			if got := errText(err); got != tt.wantErr {
				t.Errorf("error %q, want %q", got, tt.wantErr)
			}
			if loader != tt.loader {
				t.Errorf("loader %q, want %q", loader, tt.loader)
			}
			if diff := cmp.Diff(tt.libraries, libraries); diff != "" {
				t.Errorf("libraries (-want +got):\n%s", diff)
			}
		})
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
