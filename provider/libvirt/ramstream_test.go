package libvirt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// stream builds QEMU's stream.
type stream struct{ bytes.Buffer }

func (s *stream) word(v uint64) { s.Write(binary.BigEndian.AppendUint64(nil, v)) }
func (s *stream) half(v uint32) { s.Write(binary.BigEndian.AppendUint32(nil, v)) }
func (s *stream) text(v string) { s.WriteByte(byte(len(v))); s.WriteString(v) }

// page writes one record; block "" means the same as before.
func (s *stream) page(block string, addr uint64, fill byte, zero bool) {
	flags := uint64(ramPage)
	if zero {
		flags = ramZero
	}
	if block == "" {
		flags |= ramContinue
	}
	s.word(addr | flags)
	if block != "" {
		s.text(block)
	}
	if zero {
		s.WriteByte(fill)
		return
	}
	s.Write(bytes.Repeat([]byte{fill}, guestPage))
}

func (s *stream) begin() {
	s.WriteString(streamMagic)
	s.WriteByte(sectionConfig)
	s.half(6)
	s.WriteString("pc-7.2")
	s.WriteByte(sectionStart)
	s.half(3)
	s.text("ram")
	s.half(0)
	s.half(4)
	s.word(0x300000 | ramSizes)
	s.text(mainMemory)
	s.word(0x200000)
	s.text("pc.bios")
	s.word(0x100000)
	s.end()
}

func (s *stream) end() {
	s.word(ramEnd)
	s.WriteByte(sectionFooter)
	s.half(3)
}

func (s *stream) section(kind byte) { s.WriteByte(kind); s.half(3) }

const deviceState = "\x04 whatever the devices say \x00"

func TestDropZeros(t *testing.T) {
	var in, want stream
	for _, s := range []*stream{&in, &want} {
		drop := s == &want
		s.begin()
		s.section(sectionPart)
		s.page(mainMemory, 0, 0, true) // low memory stays
		s.page("", 0x100000, 7, false)
		if !drop {
			s.page("", 0x101000, 0, true)
		}
		s.page("", 0x102000, 9, true) // filled with another byte
		s.page("", 0x103000, 8, false)
		s.page("", 0x103000, 0, true) // its second content
		s.page("pc.bios", 0, 0, true) // another block
		if !drop {
			s.page(mainMemory, 0x104000, 0, true) // it names the block for the next one
			s.page("", 0x105000, 5, false)
		} else {
			s.page(mainMemory, 0x105000, 5, false)
		}
		s.end()
		s.section(sectionEnd)
		if !drop {
			s.page("", 0x106000, 0, true)
		}
		s.end()
		s.WriteString(deviceState)
	}
	var out bytes.Buffer
	n, err := dropZeros(bytes.NewReader(in.Bytes()), &out)
	if err != nil || n != 3 {
		t.Fatalf("%d dropped, %v", n, err)
	}
	if !bytes.Equal(out.Bytes(), want.Bytes()) {
		t.Errorf("got %d bytes, want %d", out.Len(), want.Len())
	}
}

func TestDropZerosRefusesWhatItDoesNotKnow(t *testing.T) {
	build := func(fill func(s *stream)) []byte {
		var s stream
		fill(&s)
		return s.Bytes()
	}
	for name, c := range map[string]struct {
		in   []byte
		want string
	}{
		"empty":          {nil, "ends early"},
		"no stream":      {[]byte("something else"), "begins with"},
		"other section":  {build(func(s *stream) { s.WriteString(streamMagic); s.WriteByte(5) }), "kind 0x5"},
		"cut":            {build(func(s *stream) { s.begin(); s.section(sectionPart); s.word(8) }), "ends early"},
		"unknown record": {build(func(s *stream) { s.begin(); s.section(sectionPart); s.word(0x40 | ramContinue) }), "flags 0x40"},
		"not the memory": {build(func(s *stream) {
			s.WriteString(streamMagic)
			s.WriteByte(sectionStart)
			s.half(1)
			s.text("block")
		}), "block comes in parts"},
	} {
		if _, err := dropZeros(bytes.NewReader(c.in), &bytes.Buffer{}); !errors.Is(err, errStream) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestWithoutZerosKeepsTheHead(t *testing.T) {
	var s stream
	s.begin()
	s.section(sectionEnd)
	s.page(mainMemory, 0x100000, 0, true)
	s.end()
	s.WriteString(deviceState)
	dir := t.TempDir()
	from, to := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	if err := os.WriteFile(from, saved(t, "<domain/>", "<cookie/>", s.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if n, err := withoutZeros(from, to); n != 1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	f, h, err := openTemplate(to)
	if err != nil || h.xml != "<domain/>" || h.cookie != "<cookie/>" {
		t.Fatalf("%+v, %v", h, err)
	}
	f.Close()
	// What is not understood leaves no half file.
	if err := os.WriteFile(from, saved(t, "<domain/>", "", "QEVM?"), 0o644); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "c")
	if _, err := withoutZeros(from, other); !errors.Is(err, errStream) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(other); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left: %v", err)
	}
}

func FuzzDropZeros(f *testing.F) {
	var s stream
	s.begin()
	s.section(sectionPart)
	s.page(mainMemory, 0x100000, 0, true)
	s.page("", 0x101000, 1, false)
	s.end()
	s.section(sectionEnd)
	s.end()
	s.WriteString(deviceState)
	f.Add(s.Bytes())
	f.Add([]byte(streamMagic))
	f.Fuzz(func(t *testing.T, in []byte) {
		var once, twice bytes.Buffer
		if _, err := dropZeros(bytes.NewReader(in), &once); err != nil {
			return
		}
		if n, err := dropZeros(bytes.NewReader(once.Bytes()), &twice); err != nil || n != 0 || !bytes.Equal(once.Bytes(), twice.Bytes()) {
			t.Errorf("done twice: %d more dropped, %v", n, err)
		}
	})
}
