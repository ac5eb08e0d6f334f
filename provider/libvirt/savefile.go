package libvirt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A file that libvirt saves a machine to is (libvirt, src/qemu/qemu_saveimage.h,
// struct _virQEMUSaveHeader): a header of 92 bytes, the machine's definition
// with a zero byte, optionally a "cookie" with a zero byte, padding up to the
// length in the header, and then QEMU's own stream up to the end.
//
// A definition that is passed beside the file must have the file's name and
// UUID, but the one inside is trusted. So a clone is a file with another
// definition, the same cookie and the same stream; and since nothing is aligned
// to anything, the definition may be of any length.
const (
	saveMagic      = "LibvirtQemudSave"
	savePartMagic  = "LibvirtQemudPart" // saving was under way
	saveVersion    = 2
	saveHeaderSize = 92
	// saveHeadMost bounds what is believed of the length in a header. A small
	// machine's definition and cookie take 8 KiB.
	saveHeadMost = 1 << 20
)

// errSaveFile is wrapped by every error about a file that is not, or not
// wholly, a saved machine.
var errSaveFile = errors.New("not a saved machine")

// saveHead is what stands before QEMU's stream.
type saveHead struct {
	xml    string
	cookie string
	// stream is the offset of QEMU's stream in the file.
	stream int64
}

// readSaveHead reads the beginning of a file.
func readSaveHead(r io.Reader) (saveHead, error) {
	var raw [saveHeaderSize]byte
	if _, err := io.ReadFull(r, raw[:]); err != nil {
		return saveHead{}, fmt.Errorf("%w: %w", errSaveFile, err)
	}
	field := func(i int) uint32 { return binary.LittleEndian.Uint32(raw[len(saveMagic)+4*i:]) }
	version, length, compression, cookieAt := field(0), field(1), field(3), field(4)
	switch magic := string(raw[:len(saveMagic)]); {
	case magic == savePartMagic:
		return saveHead{}, fmt.Errorf("%w: saving it did not come to its end", errSaveFile)
	case magic != saveMagic:
		return saveHead{}, fmt.Errorf("%w: it begins with %q", errSaveFile, magic)
	case version != saveVersion:
		return saveHead{}, fmt.Errorf("%w: version %d is not known", errSaveFile, version)
	case compression != 0:
		return saveHead{}, fmt.Errorf("%w: its stream is compressed", errSaveFile)
	case length == 0 || length > saveHeadMost || cookieAt >= length:
		return saveHead{}, fmt.Errorf("%w: a definition of %d bytes with a cookie at %d", errSaveFile, length, cookieAt)
	}
	data := make([]byte, length)
	if _, err := io.ReadFull(r, data); err != nil {
		return saveHead{}, fmt.Errorf("%w: %w", errSaveFile, err)
	}
	h := saveHead{stream: saveHeaderSize + int64(length)}
	if cookieAt > 0 {
		h.cookie = untilZero(data[cookieAt:])
		data = data[:cookieAt]
	}
	h.xml = untilZero(data)
	return h, nil
}

func untilZero(b []byte) string {
	text, _, _ := bytes.Cut(b, []byte{0})
	return string(text)
}

// encode writes the beginning of a file whose machine runs on when restored.
func (h saveHead) encode() []byte {
	data := append([]byte(h.xml), 0)
	cookieAt := 0
	if h.cookie != "" {
		cookieAt = len(data)
		data = append(append(data, h.cookie...), 0)
	}
	const running, uncompressed = 1, 0
	out := make([]byte, saveHeaderSize, saveHeaderSize+len(data))
	copy(out, saveMagic)
	for i, v := range []uint32{saveVersion, uint32(len(data)), running, uncompressed, uint32(cookieAt)} {
		binary.LittleEndian.PutUint32(out[len(saveMagic)+4*i:], v)
	}
	return append(out, data...)
}
