package qcow2

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// header makes the begin of an image of version 3 that stands on base.img.
func header(change func(b []byte)) []byte {
	b := make([]byte, 512)
	copy(b, Magic)
	be := binary.BigEndian
	be.PutUint32(b[atVersion:], 3)
	be.PutUint32(b[atClusterBits:], 16)
	be.PutUint64(b[atSize:], 3<<30)
	be.PutUint32(b[atHeaderLength:], lengthV3)
	at := lengthV3
	for _, e := range []struct {
		kind uint32
		text string
	}{{0x6803f857, "feature names"}, {extensionBacking, "raw"}, {extensionEnd, ""}} {
		be.PutUint32(b[at:], e.kind)
		be.PutUint32(b[at+4:], uint32(len(e.text)))
		copy(b[at+8:], e.text)
		at += 8 + (len(e.text)+7)/8*8
	}
	be.PutUint64(b[atBacking:], uint64(at))
	be.PutUint32(b[atBackingLength:], uint32(copy(b[at:], "base.img")))
	change(b)
	return b
}

func TestRead(t *testing.T) {
	be := binary.BigEndian
	whole := Header{Version: 3, Size: 3 << 30, Backing: "base.img", BackingFormat: "raw"}
	for name, c := range map[string]struct {
		change func(b []byte)
		want   func(h *Header)
		err    string
	}{
		"as it is":   {func([]byte) {}, func(*Header) {}, ""},
		"alone":      {func(b []byte) { be.PutUint64(b[atBacking:], 0) }, func(h *Header) { h.Backing, h.BackingFormat = "", "" }, ""},
		"encrypted":  {func(b []byte) { be.PutUint32(b[atCrypt:], 2) }, func(h *Header) { h.Encrypted = true }, ""},
		"external":   {func(b []byte) { be.PutUint64(b[atIncompatible:], bitExternal) }, func(h *Header) { h.External = true }, ""},
		"corrupt":    {func(b []byte) { be.PutUint64(b[atIncompatible:], bitCorrupt) }, func(h *Header) { h.Corrupt = true }, ""},
		"version":    {func(b []byte) { be.PutUint32(b[atVersion:], 1) }, nil, "version 1"},
		"clusters":   {func(b []byte) { be.PutUint32(b[atClusterBits:], 40) }, nil, "2^40"},
		"long name":  {func(b []byte) { be.PutUint32(b[atBackingLength:], 5000) }, nil, "5000 bytes"},
		"name far":   {func(b []byte) { be.PutUint64(b[atBacking:], 1<<40) }, nil, "backing image"},
		"extension":  {func(b []byte) { be.PutUint32(b[lengthV3+4:], 1<<31) }, nil, "header extension"},
		"other file": {func(b []byte) { b[0] = 'x' }, nil, ErrNot.Error()},
	} {
		got, err := Read(bytes.NewReader(header(c.change)))
		if c.want == nil {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		want := whole
		c.want(&want)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
	if _, err := Read(strings.NewReader("")); !errors.Is(err, ErrNot) {
		t.Errorf("an empty file: %v", err)
	}
	if _, err := Read(bytes.NewReader(header(func([]byte) {})[:90])); err == nil || errors.Is(err, ErrNot) {
		t.Errorf("a cut header: %v", err)
	}
}

// What qemu-img writes is read as qemu-img was told.
func TestReadOfQEMU(t *testing.T) {
	tool, err := exec.LookPath("qemu-img")
	if err != nil {
		t.Fatalf("%v: make setup-test installs it", err)
	}
	dir := t.TempDir()
	run := func(args ...string) {
		cmd := exec.Command(tool, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	run("create", "-q", "-f", "qcow2", "base.qcow2", "70M")
	run("create", "-q", "-f", "qcow2", "-b", "base.qcow2", "-F", "qcow2", "top.qcow2", "90M")
	run("create", "-q", "-f", "qcow2", "-o", "compat=0.10", "old.qcow2", "5M")
	for name, want := range map[string]Header{
		"base.qcow2": {Version: 3, Size: 70 << 20},
		"top.qcow2":  {Version: 3, Size: 90 << 20, Backing: "base.qcow2", BackingFormat: "qcow2"},
		"old.qcow2":  {Version: 2, Size: 5 << 20},
	} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Read(f)
		f.Close()
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(header(func([]byte) {}))
	f.Add([]byte(Magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := Read(bytes.NewReader(b))
		if err == nil && (h.Size < 0 || len(h.Backing) > maxName || h.Version != 2 && h.Version != 3) {
			t.Errorf("%+v", h)
		}
	})
}
