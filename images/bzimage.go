package images

import (
	"bytes"
	"encoding/binary"
	"os"
	"strings"

	"github.com/lvslab/lvslab/internal/diag"
)

// The x86 boot protocol (Documentation/arch/x86/boot.rst): a bzImage has the
// magic "HdrS" at 0x202, the protocol's version at 0x206, at 0x20e the place of
// its own version's text, counted from 0x200, and since 2.12 at 0x236 a bit that
// says whether it is a 64-bit kernel.
const (
	headerMagic    = 0x202
	headerProtocol = 0x206
	headerVersion  = 0x20e
	headerFlags    = 0x236
	headerBase     = 0x200
)

// kernelRelease reads the release out of a bzImage.
func kernelRelease(path string) (string, error) {
	image, err := os.ReadFile(path)
	if err != nil {
		return "", diag.Fail(err, "The kernel cannot be read", "Check the path and its permissions.", "%s", path)
	}
	release, why := releaseIn(image)
	if why != "" {
		return "", diag.Fail(nil, "Not a kernel", "Name a bzImage for x86-64: arch/x86/boot/bzImage in the kernel's tree, or vmlinuz of a package.", "%s %s", path, why)
	}
	return release, nil
}

// releaseIn returns the release that a bzImage calls itself, else what is wrong
// with it.
func releaseIn(image []byte) (release, why string) {
	switch {
	case bytes.HasPrefix(image, []byte("\x7fELF")):
		return "", "is an ELF file, as vmlinux is"
	case len(image) == 0:
		return "", "is empty"
	case len(image) < headerFlags+2 || string(image[headerMagic:headerMagic+4]) != "HdrS":
		return "", "has no boot header"
	case binary.LittleEndian.Uint16(image[headerProtocol:]) >= 0x020c && image[headerFlags]&1 == 0:
		return "", "is a 32-bit kernel"
	}
	at := headerBase + int(binary.LittleEndian.Uint16(image[headerVersion:]))
	end := bytes.IndexByte(image[min(at, len(image)):], 0)
	if at == headerBase || end < 1 {
		return "", "does not tell its version"
	}
	release, _, _ = strings.Cut(string(image[at:at+end]), " ")
	if release == "" || strings.HasPrefix(release, ".") || strings.ContainsAny(release, "/\\\n") {
		return "", "does not tell its version"
	}
	return release, ""
}
