package images

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/diag"
)

// elfFile writes the smallest file in which debug/elf finds an interpreter and
// needed libraries: header, one PT_INTERP, sections null, .dynstr, .dynamic.
func elfFile(interp string, needed ...string) []byte {
	const header, phsize, shsize = 64, 56, 64
	le := binary.LittleEndian
	interpText := append([]byte(interp), 0)
	dynstr := []byte{0}
	var dynamic bytes.Buffer
	for _, name := range needed {
		binary.Write(&dynamic, le, []uint64{uint64(elf.DT_NEEDED), uint64(len(dynstr))})
		dynstr = append(append(dynstr, name...), 0)
	}
	binary.Write(&dynamic, le, []uint64{uint64(elf.DT_NULL), 0})
	names := []byte("\x00.dynstr\x00.dynamic\x00.shstrtab\x00")
	interpAt := uint64(header + phsize)
	dynstrAt := interpAt + uint64(len(interpText))
	dynamicAt := dynstrAt + uint64(len(dynstr))
	namesAt := dynamicAt + uint64(dynamic.Len())
	sectionsAt := namesAt + uint64(len(names))

	var b bytes.Buffer
	h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: header, Shoff: sectionsAt,
		Ehsize: header, Phentsize: phsize, Phnum: 1, Shentsize: shsize, Shnum: 4, Shstrndx: 3}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	binary.Write(&b, le, h)
	kind := elf.PT_INTERP
	if interp == "" {
		kind = elf.PT_NULL
	}
	binary.Write(&b, le, elf.Prog64{Type: uint32(kind), Off: interpAt, Filesz: uint64(len(interpText))})
	b.Write(interpText)
	b.Write(dynstr)
	b.Write(dynamic.Bytes())
	b.Write(names)
	binary.Write(&b, le, elf.Section64{})
	binary.Write(&b, le, elf.Section64{Name: 1, Type: uint32(elf.SHT_STRTAB), Off: dynstrAt, Size: uint64(len(dynstr))})
	binary.Write(&b, le, elf.Section64{Name: 9, Type: uint32(elf.SHT_DYNAMIC), Off: dynamicAt, Size: uint64(dynamic.Len()), Link: 1, Entsize: 16})
	binary.Write(&b, le, elf.Section64{Name: 18, Type: uint32(elf.SHT_STRTAB), Off: namesAt, Size: uint64(len(names))})
	return b.Bytes()
}

const (
	lib    = "usr/lib/x86_64-linux-gnu/"
	loader = "/lib64/ld-linux-x86-64.so.2"
)

func libraryTree() tree {
	file := func(interp string, needed ...string) entry {
		return entry{mode: 0o755, data: elfFile(interp, needed...)}
	}
	return tree{
		"usr/bin/dig":                      file(loader, "libdns.so.1", "libc.so.6"),
		"usr/bin/static":                   file(""),
		"usr/bin/script":                   {mode: 0o755, data: []byte("#!/bin/sh\n" + strings.Repeat(" ", 64))},
		"etc/short":                        {mode: 0o644, data: []byte("\x7fELF")},
		"usr/lib64/ld-linux-x86-64.so.2":   {mode: fs.ModeSymlink, link: "/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"},
		lib + "ld-linux-x86-64.so.2":       file(""),
		lib + "libc.so.6":                  file("", "ld-linux-x86-64.so.2"),
		lib + "libdns.so.1":                {mode: fs.ModeSymlink, link: "libdns.so.1.2"},
		lib + "libdns.so.1.2":              file("", "libc.so.6"),
		lib + "libgcc_s.so.1":              file("", "libc.so.6"),
		lib + "libunused.so.1":             {mode: fs.ModeSymlink, link: "libunused.so.1.0"},
		lib + "libunused.so.1.0":           file("", "libmissing.so.1"), // unneeded, so what it lacks does not count
		lib + "bind/plugin.so":             file("", "libplug.so.1"),
		lib + "libplug.so.1":               file("", "libc.so.6"),
		"usr/lib/modules/6/kernel/mod.ko":  {mode: 0o644, data: elfFile("", "nosuch")},
		"usr/share/dns/root.key.something": {mode: 0o644, data: bytes.Repeat([]byte("x"), 100)},
	}
}

func TestPruneLibraries(t *testing.T) {
	tr := libraryTree()
	before := len(tr)
	if err := tr.pruneLibraries([]string{"libgcc_s.so.1", "libnothere.so"}); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{"libunused.so.1", "libunused.so.1.0"} {
		if tr.has(lib + gone) {
			t.Errorf("%s is still there", gone)
		}
	}
	if len(tr) != before-2 {
		t.Errorf("left are %v", tr.paths())
	}
}

func TestMissingLibrary(t *testing.T) {
	tr := libraryTree()
	delete(tr, lib+"libplug.so.1")
	tr["usr/bin/host"] = tr["usr/bin/dig"]
	delete(tr, lib+"libdns.so.1")
	err := tr.pruneLibraries(nil)
	var f *diag.Failure
	if !errors.As(err, &f) {
		t.Fatalf("got %v", err)
	}
	want := "not in the root:\n  libdns.so.1, needed by /usr/bin/dig, /usr/bin/host\n  libplug.so.1, needed by /usr/lib/x86_64-linux-gnu/bind/plugin.so"
	if d := cmp.Diff(want, f.Diagnostic.Detail); d != "" {
		t.Error(d)
	}
}

func TestReadProgram(t *testing.T) {
	p, err := readProgram(entry{data: elfFile(loader, "a", "b")})
	if err != nil || p == nil || p.interp != loader || cmp.Diff([]string{"ld-linux-x86-64.so.2", "a", "b"}, p.wants()) != "" {
		t.Errorf("got %+v, %v", p, err)
	}
}
