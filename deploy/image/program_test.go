package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"testing"
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

func TestStatic(t *testing.T) {
	tests := []struct {
		name    string
		data    []byte
		wantErr string
	}{
		{"a static program", program("amd64", "", "x"), ""},
		{"a loader", program("amd64", "/lib64/ld.so", "x"), "it names a loader: build it with CGO_ENABLED=0"},
		{"a library", program("amd64", "", "x", "libc.so.6"), "it needs libc.so.6: build it with CGO_ENABLED=0"},
		{"a text", []byte("ELF\n"), "it is not a program"},
		{"nothing", nil, "it is not a program"},
		{"another machine's", program("arm64", "", "x"), "it is for EM_AARCH64, and not for amd64"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := errText(static(tt.data, "amd64")); got != tt.wantErr {
				t.Errorf("error %q, want %q", got, tt.wantErr)
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
