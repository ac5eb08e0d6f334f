// Package qcow2 reads the header of QEMU's disk images: enough to know what one
// is, how large a disk it holds and which other image it stands on. It writes
// none. The format is QEMU's docs/interop/qcow2.txt.
package qcow2

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Magic begins every image: "QFI" and 0xfb.
const Magic = "QFI\xfb"

// ErrNot says that a file is no qcow2 image.
var ErrNot = errors.New("no qcow2 image")

// Header is what of an image's header counts here.
type Header struct {
	// Version is 2 or 3.
	Version int
	// Size is that of the disk in bytes, not that of the file.
	Size int64
	// Backing is the image that this one stands on, as written: relative to this
	// one's directory when it is not absolute. "" is none.
	Backing string
	// BackingFormat is its format, "" when it is not written down.
	BackingFormat string
	// Encrypted: the contents need a key. External: they are in another file.
	// Corrupt: QEMU has found the image damaged and writes no more to it.
	Encrypted, External, Corrupt bool
}

// Offsets and lengths of the header's fields, all big-endian.
const (
	atVersion       = 4
	atBacking       = 8
	atBackingLength = 16
	atClusterBits   = 20
	atSize          = 24
	atCrypt         = 32
	atIncompatible  = 72
	atHeaderLength  = 100
	lengthV2        = 72
	lengthV3        = 104
)

// Bits of the incompatible features, and types of header extensions.
const (
	bitCorrupt       = 1 << 1
	bitExternal      = 1 << 2
	extensionEnd     = 0
	extensionBacking = 0xe2792aca
)

// maxName is the longest name of a backing image, in bytes.
const maxName = 1023

// Read reads the header. An error wraps [ErrNot] when the magic is another one.
func Read(r io.ReaderAt) (Header, error) {
	head := make([]byte, lengthV3)
	n, err := r.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return Header{}, err
	}
	if n < len(Magic) || string(head[:len(Magic)]) != Magic {
		return Header{}, ErrNot
	}
	if n < lengthV2 {
		return Header{}, fmt.Errorf("the file ends after %d bytes, within its header", n)
	}
	be := binary.BigEndian
	h := Header{Version: int(be.Uint32(head[atVersion:])), Size: int64(be.Uint64(head[atSize:])), Encrypted: be.Uint32(head[atCrypt:]) != 0}
	length := int64(lengthV2)
	switch {
	case h.Version == 3 && n < lengthV3:
		return Header{}, fmt.Errorf("the file ends after %d bytes, within its header", n)
	case h.Version == 3:
		features := be.Uint64(head[atIncompatible:])
		h.Corrupt, h.External = features&bitCorrupt != 0, features&bitExternal != 0
		length = int64(be.Uint32(head[atHeaderLength:]))
	case h.Version != 2:
		return Header{}, fmt.Errorf("version %d of the format; 2 and 3 are known", h.Version)
	}
	bits := be.Uint32(head[atClusterBits:])
	if bits < 9 || bits > 21 {
		return Header{}, fmt.Errorf("clusters of 2^%d bytes; 2^9 to 2^21 are allowed", bits)
	}
	if h.Size < 0 {
		return Header{}, fmt.Errorf("a disk of %d bytes", uint64(h.Size))
	}
	at, size := int64(be.Uint64(head[atBacking:])), int64(be.Uint32(head[atBackingLength:]))
	if at == 0 {
		return h, nil
	}
	cluster := int64(1) << bits
	if size < 1 || size > maxName || at < length || at > cluster-size {
		return Header{}, fmt.Errorf("the name of its backing image has %d bytes at %d", size, at)
	}
	name := make([]byte, size)
	if _, err := r.ReadAt(name, at); err != nil {
		return Header{}, fmt.Errorf("the name of its backing image: %w", err)
	}
	h.Backing = string(name)
	h.BackingFormat, err = backingFormat(r, length, at)
	return h, err
}

// backingFormat finds it among the header's extensions, which end where the
// backing image's name begins.
func backingFormat(r io.ReaderAt, from, to int64) (string, error) {
	for at := from; at+8 <= to; {
		var head [8]byte
		if _, err := r.ReadAt(head[:], at); err != nil {
			return "", fmt.Errorf("header extension: %w", err)
		}
		kind, size := binary.BigEndian.Uint32(head[:]), int64(binary.BigEndian.Uint32(head[4:]))
		at += int64(len(head))
		switch {
		case kind == extensionEnd:
			return "", nil
		case size > to-at:
			return "", fmt.Errorf("header extension of %d bytes at %d", size, at)
		case kind == extensionBacking:
			name := make([]byte, size)
			if _, err := r.ReadAt(name, at); err != nil {
				return "", fmt.Errorf("header extension: %w", err)
			}
			return string(name), nil
		}
		at += (size + 7) / 8 * 8
	}
	return "", nil
}
