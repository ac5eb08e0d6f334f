package images

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/qcow2"
)

// Formats of disks.
const (
	FormatQcow2 = "qcow2"
	FormatRaw   = "raw"
)

// Disk is a disk image of the user's: a system of its own with boot loader,
// kernel and cloud-init. It is never written to.
type Disk struct {
	// Path is absolute and without symbolic links.
	Path string
	// Format is qcow2 or raw, Size that of the disk in bytes.
	Format string
	Size   int64
	// Sum is a SHA-256 over the contents of the file and of those that it stands on.
	Sum string
	// Release is what the kernel on it calls itself, "" before a machine was booted
	// from it: see [NoteKernel].
	Release string
	// Files are the file and those that it stands on, absolute.
	Files []string
}

// maxBacking is how many images may stand on one another.
const maxBacking = 32

// OpenDisk looks at a disk image. What no machine can boot from is a
// [*diag.Failure]; whether there is a system on it that boots, only the boot
// tells. Sums are remembered in the cache as long as a file stays as it is.
func OpenDisk(ctx context.Context, path, cacheDir string) (Disk, error) {
	d, err := openDisk(path, func(file string) (string, error) { return rememberedSum(ctx, file, cacheDir) })
	if err != nil {
		return Disk{}, err
	}
	if text, err := os.ReadFile(d.kernelNote(cacheDir)); err == nil {
		d.Release = strings.TrimSpace(string(text))
	}
	return d, nil
}

// openDisk is OpenDisk with what sum says of the contents of each file.
func openDisk(path string, sumOf func(file string) (string, error)) (Disk, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return Disk{}, diag.Fail(err, "The disk cannot be read", pathRemedy, "%s", path)
	}
	d := Disk{Path: real}
	all := sha256.New()
	for next := real; next != ""; {
		if len(d.Files) == maxBacking {
			return Disk{}, diag.Fail(nil, "Too many images stand on one another", "Make one of them: qemu-img convert -O qcow2 "+path+" whole.qcow2.", "%s leads to more than %d", path, maxBacking)
		}
		layer, err := openLayer(next, len(d.Files) == 0)
		if err != nil {
			return Disk{}, err
		}
		if len(d.Files) == 0 {
			d.Format, d.Size = layer.format, layer.size
		}
		d.Files = append(d.Files, next)
		sum, err := sumOf(next)
		if err != nil {
			return Disk{}, diag.Fail(err, "The disk cannot be read", pathRemedy, "%s", next)
		}
		fmt.Fprintf(all, "%s %s\n", layer.format, sum)
		next = layer.backing
	}
	d.Sum = hex.EncodeToString(all.Sum(nil))
	return d, nil
}

func (d Disk) kernelNote(cacheDir string) string {
	return filepath.Join(sumsDir(cacheDir), d.Sum[:16]+kernelSuffix)
}

// NoteKernel keeps what the kernel of a disk calls itself, so that the next plan
// knows it.
func NoteKernel(d Disk, release, cacheDir string) {
	file := d.kernelNote(cacheDir)
	if makeDir(filepath.Dir(file)) == nil {
		_ = replaceFile(file, []byte(release+"\n"))
	}
}

// layer is one file of a disk.
type layer struct {
	format, backing string
	size            int64
}

// openLayer reads what a file is. A raw one has a boot sector when it is what
// the machine boots from; one that another stands on may hold anything.
func openLayer(path string, boots bool) (layer, error) {
	f, err := os.Open(path)
	if err != nil {
		return layer{}, diag.Fail(err, "The disk cannot be read", pathRemedy, "%s", path)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return layer{}, diag.Fail(err, "Not a disk image", "Name a file: a qcow2 or raw image.", "%s is no regular file", path)
	}
	h, err := qcow2.Read(f)
	switch {
	case errors.Is(err, qcow2.ErrNot):
		return rawLayer(f, info, boots)
	case err != nil:
		return layer{}, diag.Fail(err, "The qcow2 image is damaged", "Fetch or make it again; qemu-img check "+path+" says more.", "%s", path)
	case h.Encrypted || h.External || h.Corrupt:
		return layer{}, diag.Fail(nil, "The qcow2 image cannot be used", "Make a plain one: qemu-img convert -O qcow2 "+path+" plain.qcow2.", "%s %s", path, oddity(h))
	case h.Size == 0:
		return layer{}, diag.Fail(nil, "Not a disk image", "Name an image with a system on it.", "%s holds a disk of 0 bytes", path)
	case h.Backing == "":
		return layer{format: FormatQcow2, size: h.Size}, nil
	}
	backing := h.Backing
	if !filepath.IsAbs(backing) {
		backing = filepath.Join(filepath.Dir(path), backing)
	}
	if _, err := os.Stat(backing); err != nil {
		return layer{}, diag.Fail(err, "The disk stands on an image that is not there",
			"Put that image there, or make one file of both where it is: qemu-img convert -O qcow2 "+filepath.Base(path)+" whole.qcow2.", "%s stands on %s", path, h.Backing)
	}
	return layer{format: FormatQcow2, size: h.Size, backing: backing}, nil
}

func oddity(h qcow2.Header) string {
	switch {
	case h.Encrypted:
		return "is encrypted"
	case h.External:
		return "has its contents in another file"
	}
	return "is marked as corrupt"
}

// The last two bytes of a disk's first sector, of one with a GPT too: without
// them the firmware boots nothing.
const (
	sectorBytes = 512
	bootMark    = "\x55\xaa"
)

// rawLayer takes a file for a raw disk when it can be one.
func rawLayer(f *os.File, info fs.FileInfo, boots bool) (layer, error) {
	sector := make([]byte, sectorBytes)
	n, err := io.ReadFull(f, sector)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return layer{}, diag.Fail(err, "The disk cannot be read", pathRemedy, "%s", f.Name())
	}
	if !boots || n == sectorBytes && string(sector[sectorBytes-len(bootMark):]) == bootMark {
		return layer{format: FormatRaw, size: info.Size()}, nil
	}
	what, remedy := "is no qcow2 image, and has no boot sector as a raw one has", "Name a qcow2 image, or a raw one of a whole disk with a boot loader."
	for _, k := range otherFormats {
		if bytes.HasPrefix(sector[:n], []byte(k.magic)) {
			what, remedy = "is "+k.name, fmt.Sprintf(k.remedy, filepath.Base(f.Name()))
		}
	}
	if n == 0 {
		what = "is empty"
	}
	return layer{}, diag.Fail(nil, "Not a disk image", remedy, "%s %s", f.Name(), what)
}

// otherFormats are what a file may be instead, by its first bytes.
var otherFormats = []struct{ magic, name, remedy string }{
	{"\x1f\x8b", "compressed with gzip", "Unpack it: gunzip %s."},
	{"\xfd7zXZ\x00", "compressed with xz", "Unpack it: unxz %s."},
	{"\x28\xb5\x2f\xfd", "compressed with zstd", "Unpack it: unzstd %s."},
	{"KDMV", "a VMDK", "Convert it: qemu-img convert -O qcow2 %s disk.qcow2."},
	{"# Disk DescriptorFile", "a VMDK", "Convert it: qemu-img convert -O qcow2 %s disk.qcow2."},
	{"vhdxfile", "a VHDX", "Convert it: qemu-img convert -O qcow2 %s disk.qcow2."},
	{"<<< ", "a VDI", "Convert it: qemu-img convert -O qcow2 %s disk.qcow2."},
	{"\x7fELF", "an ELF file", "Name the image of a disk; %s is a program or kernel."},
}

// Image is the disk as the image that machines boot. What is inside is not
// known before one has: it has no packages, and no kernel's release.
func (d Disk) Image() Image {
	return Image{Name: filepath.Base(d.Path), Key: d.Sum[:16], Digest: d.Sum, Recipe: d.Sum, KernelRelease: d.Release, Size: d.Size}
}
