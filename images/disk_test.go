package images

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/diag"
)

// qcow2File is the header of an image of a gigabyte that stands on backing.
func qcow2File(backing string) string {
	b := make([]byte, 200)
	be := binary.BigEndian
	copy(b, "QFI\xfb")
	be.PutUint32(b[4:], 3)
	be.PutUint32(b[20:], 16)
	be.PutUint64(b[24:], 1<<30)
	be.PutUint32(b[100:], 104)
	if backing != "" {
		be.PutUint64(b[8:], 112)
		be.PutUint32(b[16:], uint32(copy(b[112:], backing)))
	}
	return string(b)
}

func TestOpenDisk(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	open := func(name string) (Disk, error) { return OpenDisk(t.Context(), filepath.Join(dir, name), cache) }
	write("base.qcow2", qcow2File(""))
	write("top.qcow2", qcow2File("base.qcow2"))
	write("disk.raw", strings.Repeat("x", 510)+"\x55\xaa"+strings.Repeat("y", 512))
	if err := os.Symlink("top.qcow2", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	top, err := open("link")
	if err != nil || top.Format != FormatQcow2 || top.Size != 1<<30 || len(top.Files) != 2 || filepath.Base(top.Path) != "top.qcow2" {
		t.Fatalf("%+v, %v", top, err)
	}
	raw, err := open("disk.raw")
	if err != nil || raw.Format != FormatRaw || raw.Size != 1024 || raw.Sum == top.Sum {
		t.Fatalf("%+v, %v", raw, err)
	}
	if img := top.Image(); img.Name != "top.qcow2" || img.Digest != top.Sum || img.Key != top.Sum[:16] || img.KernelRelease != "" {
		t.Errorf("%+v", img)
	}
	NoteKernel(top, "6.1.0-57-cloud-amd64", cache)
	again, err := open("top.qcow2")
	if err != nil || again.Sum != top.Sum || again.Release != "6.1.0-57-cloud-amd64" {
		t.Errorf("%+v, %v", again, err)
	}
	write("base.qcow2", qcow2File("")+"more")
	changed, err := open("top.qcow2")
	if err != nil || changed.Sum == top.Sum || changed.Release != "" {
		t.Errorf("what it stands on has changed: %+v, %v", changed, err)
	}
}

// A sum is that of the contents, and is not read again while the file stays.
func TestRememberedSum(t *testing.T) {
	cache, file := t.TempDir(), filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("abc"), 0o644); err != nil {
		t.Fatal(err)
	}
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	for range 2 {
		if sum, err := rememberedSum(t.Context(), file, cache); err != nil || sum != abc {
			t.Fatalf("%s, %v", sum, err)
		}
	}
	memos, err := filepath.Glob(filepath.Join(cache, "sums", "*.json"))
	if err != nil || len(memos) != 1 {
		t.Fatalf("%v, %v", memos, err)
	}
	text, err := os.ReadFile(memos[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(memos[0], []byte(strings.Replace(string(text), abc, "remembered", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if sum, err := rememberedSum(t.Context(), file, cache); err != nil || sum != "remembered" {
		t.Errorf("it was read again: %s, %v", sum, err)
	}
	if err := os.WriteFile(file, []byte("abcd"), 0o644); err != nil {
		t.Fatal(err)
	}
	if sum, err := rememberedSum(t.Context(), file, cache); err != nil || sum == "remembered" || sum == abc {
		t.Errorf("the file has changed: %s, %v", sum, err)
	}
}

func TestOpenDiskRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ text, summary, detail, remedy string }{
		"orphan.qcow2": {qcow2File("gone.qcow2"), "The disk stands on an image that is not there", "stands on gone.qcow2", "qemu-img convert"},
		"locked.qcow2": {qcow2File("")[:32] + "\x00\x00\x00\x02" + qcow2File("")[36:], "The qcow2 image cannot be used", "is encrypted", "qemu-img convert"},
		"cut.qcow2":    {qcow2File("")[:50], "The qcow2 image is damaged", "within its header", "qemu-img check"},
		"disk.gz":      {"\x1f\x8b\x08", "Not a disk image", "compressed with gzip", "gunzip disk.gz"},
		"disk.vmdk":    {"KDMV", "Not a disk image", "is a VMDK", "qemu-img convert"},
		"ext4.raw":     {strings.Repeat("\x00", 4096), "Not a disk image", "no boot sector", "boot loader"},
		"empty":        {"", "Not a disk image", "is empty", "boot loader"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := OpenDisk(t.Context(), path, t.TempDir())
		refusal(t, name, err, c.summary, c.detail, c.remedy)
	}
	_, err := OpenDisk(t.Context(), filepath.Join(dir, "none.qcow2"), t.TempDir())
	refusal(t, "none.qcow2", err, "The disk cannot be read", "none.qcow2", "Check the path")
	_, err = OpenDisk(t.Context(), dir, t.TempDir())
	refusal(t, "a directory", err, "Not a disk image", "no regular file", "Name a file")
	loop := filepath.Join(dir, "loop.qcow2")
	if err := os.WriteFile(loop, []byte(qcow2File("loop.qcow2")), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = OpenDisk(t.Context(), loop, t.TempDir())
	refusal(t, "a loop", err, "Too many images stand on one another", "more than 32", "qemu-img convert")
}

func refusal(t *testing.T, name string, err error, summary, detail, remedy string) {
	t.Helper()
	var f *diag.Failure
	if !errors.As(err, &f) {
		t.Errorf("%s: %v", name, err)
		return
	}
	text := err.Error() + "\n" + f.Diagnostic.Detail
	if f.Diagnostic.Summary != summary || !strings.Contains(text, detail) || !strings.Contains(f.Diagnostic.Remedy, remedy) {
		t.Errorf("%s: %q, %q, %q", name, f.Diagnostic.Summary, text, f.Diagnostic.Remedy)
	}
}
