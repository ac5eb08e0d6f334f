package libvirt

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// QEMU's stream says of every page of a guest's memory what is in it, of a page
// of zeros too. QEMU reads such a page when it loads the stream, to see whether
// it need be cleared, and under transparent huge pages that read allocates 2 MiB:
// measured, a restored guest of 256 MiB has all of it in the host's memory, and
// that is most of what a restore costs. Memory that no record mentions is left
// as QEMU got it from the kernel, which is zeros. So a template's stream is
// written anew without these records.
//
// The format is that of QEMU's migration/savevm.c and migration/ram.c (checked
// with 7.2): sections, of which "ram" is not delimited and must be understood.
// What is not exactly as expected is an error, and the stream stays as it is.
const (
	streamMagic   = "QEVM\x00\x00\x00\x03"
	sectionStart  = 0x01
	sectionPart   = 0x02
	sectionEnd    = 0x03
	sectionConfig = 0x07
	sectionFooter = 0x7e

	ramZero     = 0x02
	ramSizes    = 0x04
	ramPage     = 0x08
	ramEnd      = 0x10
	ramContinue = 0x20
	ramFlags    = guestPage - 1
	guestPage   = 4096

	// mainMemory is the block whose pages are left out, from 1 MiB up: what is
	// below is written to by the firmware before the stream is loaded.
	mainMemory = "pc.ram"
	lowMemory  = 1 << 20
)

// errStream is wrapped when QEMU's stream is not what is understood here.
var errStream = errors.New("QEMU's stream has another form")

// withoutZeros copies a saved machine to another file without its pages of
// zeros, and returns how many there were.
func withoutZeros(from, to string) (dropped int, err error) {
	in, head, err := openTemplate(from)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	if _, err := in.Seek(head.stream, io.SeekStart); err != nil {
		return 0, err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err = errors.Join(err, out.Close()); err != nil {
			os.Remove(to)
		}
	}()
	if _, err := out.Write(head.encode()); err != nil {
		return 0, err
	}
	return dropZeros(in, out)
}

// dropZeros copies QEMU's stream.
func dropZeros(r io.Reader, w io.Writer) (int, error) {
	c := &streamCopy{r: bufio.NewReaderSize(r, 1<<20), w: bufio.NewWriterSize(w, 1<<20), written: map[uint64]bool{}}
	if err := c.run(); err != nil {
		return 0, err
	}
	return c.dropped, c.w.Flush()
}

type streamCopy struct {
	r *bufio.Reader
	w *bufio.Writer
	// inBlock and outBlock are the blocks that "the same block" means.
	inBlock, outBlock string
	// written are the pages of the main memory that have had another content.
	written map[uint64]bool
	dropped int
}

func (c *streamCopy) run() error {
	magic, err := c.take(len(streamMagic))
	if err != nil {
		return err
	}
	if string(magic) != streamMagic {
		return fmt.Errorf("%w: it begins with %q", errStream, magic)
	}
	for {
		kind, err := c.take(1)
		if err != nil {
			return err
		}
		switch kind[0] {
		case sectionConfig:
			_, err = c.takeSized(4)
		case sectionStart:
			err = c.ramStart()
		case sectionPart, sectionEnd:
			err = c.ramPart()
		default:
			err = fmt.Errorf("%w: a section of kind %#x before the end of the memory", errStream, kind[0])
		}
		if err != nil {
			return err
		}
		if kind[0] == sectionEnd {
			// Only the memory comes in parts: the devices follow, as they are.
			_, err := io.Copy(c.w, c.r)
			return err
		}
	}
}

// take copies n bytes and returns them.
func (c *streamCopy) take(n int) ([]byte, error) {
	b, err := c.read(n)
	if err == nil {
		_, err = c.w.Write(b)
	}
	return b, err
}

func (c *streamCopy) read(n int) ([]byte, error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(c.r, b); err != nil {
		return nil, fmt.Errorf("%w: it ends early: %w", errStream, err)
	}
	return b, nil
}

// longestText bounds names of sections and machine types.
const longestText = 1 << 10

// takeSized copies a text that follows its length of 1 or 4 bytes.
func (c *streamCopy) takeSized(size int) (string, error) {
	b, err := c.take(size)
	if err != nil {
		return "", err
	}
	n := int(b[0])
	if size == 4 {
		n = int(binary.BigEndian.Uint32(b))
	}
	if n > longestText {
		return "", fmt.Errorf("%w: a name of %d bytes", errStream, n)
	}
	text, err := c.take(n)
	return string(text), err
}

// ramStart copies the start of the section "ram": its blocks with their sizes.
func (c *streamCopy) ramStart() error {
	if _, err := c.take(4); err != nil { // the section's number
		return err
	}
	name, err := c.takeSized(1)
	if err != nil {
		return err
	}
	if name != "ram" {
		return fmt.Errorf("%w: %s comes in parts", errStream, name)
	}
	if _, err := c.take(8); err != nil { // instance, version
		return err
	}
	total, err := c.takeWord()
	if err != nil {
		return err
	}
	if total&ramFlags != ramSizes {
		return fmt.Errorf("%w: the memory begins with %#x", errStream, total)
	}
	for left := int64(total &^ ramFlags); left > 0; {
		if _, err := c.takeSized(1); err != nil {
			return err
		}
		size, err := c.takeWord()
		if err != nil {
			return err
		}
		if int64(size) <= 0 || int64(size) > left {
			return fmt.Errorf("%w: a block of %d bytes where %d are left", errStream, size, left)
		}
		left -= int64(size)
	}
	return c.pages()
}

func (c *streamCopy) takeWord() (uint64, error) {
	b, err := c.take(8)
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(b), nil
}

// ramPart copies a later part of the section.
func (c *streamCopy) ramPart() error {
	if _, err := c.take(4); err != nil {
		return err
	}
	return c.pages()
}

// pages copies records until the end of the part, and its footer.
func (c *streamCopy) pages() error {
	for {
		b, err := c.read(8)
		if err != nil {
			return err
		}
		word := binary.BigEndian.Uint64(b)
		if word == ramEnd {
			break
		}
		if err := c.page(word&^ramFlags, word&ramFlags); err != nil {
			return err
		}
	}
	if err := c.putWord(ramEnd); err != nil {
		return err
	}
	next, err := c.r.Peek(1)
	if err != nil || next[0] != sectionFooter {
		return err
	}
	_, err = c.take(5) // and the section's number
	return err
}

// page copies one record or leaves it out.
func (c *streamCopy) page(addr, flags uint64) error {
	if flags&ramContinue == 0 {
		n, err := c.read(1)
		if err != nil {
			return err
		}
		name, err := c.read(int(n[0]))
		if err != nil {
			return err
		}
		c.inBlock = string(name)
	}
	var content []byte
	var err error
	switch kind := flags &^ ramContinue; kind {
	case ramPage:
		content, err = c.read(guestPage)
	case ramZero:
		content, err = c.read(1)
	default:
		return fmt.Errorf("%w: a page with the flags %#x", errStream, kind)
	}
	if err != nil {
		return err
	}
	main := c.inBlock == mainMemory && addr >= lowMemory
	if main && len(content) == 1 && content[0] == 0 && !c.written[addr] {
		c.dropped++
		return nil
	}
	if main {
		c.written[addr] = true
	}
	return c.putPage(addr, flags&^ramContinue, content)
}

func (c *streamCopy) putPage(addr, flags uint64, content []byte) error {
	name := []byte{byte(len(c.inBlock))}
	name = append(name, c.inBlock...)
	if c.inBlock == c.outBlock {
		flags, name = flags|ramContinue, nil
	}
	c.outBlock = c.inBlock
	if err := c.putWord(addr | flags); err != nil {
		return err
	}
	_, err := c.w.Write(append(name, content...))
	return err
}

func (c *streamCopy) putWord(v uint64) error {
	_, err := c.w.Write(binary.BigEndian.AppendUint64(nil, v))
	return err
}
