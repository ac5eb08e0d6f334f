package images

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/u-root/u-root/pkg/cpio"
)

func smallInitrd(t *testing.T) []byte {
	t.Helper()
	k := fakeKernel(map[string]string{"virtio_blk": "virtio", "virtio": ""})
	for name, info := range k.infos {
		info.text = []byte("text of " + name)
	}
	tr := tree{"usr/bin/busybox": {mode: 0o755, data: elfFile("")}}
	recipe := Recipe{Name: "test", BootModules: []string{"virtio_blk"}, Epoch: 1000}
	var buf bytes.Buffer
	if err := writeInitrd(t.Context(), &buf, recipe, tr, k); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestInitrd(t *testing.T) {
	archive := smallInitrd(t)
	if !bytes.Equal(archive, smallInitrd(t)) {
		t.Error("two archives of the same files differ")
	}
	records := readCPIO(t, archive)
	if got, want := content(t, records["lib/lvslab/modules"]), "/lib/lvslab/ko/virtio.ko\n/lib/lvslab/ko/virtio_blk.ko\n"; got != want {
		t.Errorf("the list of modules is %q, want %q", got, want)
	}
	if got := content(t, records["lib/lvslab/ko/virtio_blk.ko"]); got != "text of virtio_blk" {
		t.Errorf("a module is %q", got)
	}
	for _, dir := range []string{"proc", "sys", "dev", "run", "newroot", "lower", "upper"} {
		if r, ok := records[dir]; !ok || r.Mode&cpio.S_IFMT != cpio.S_IFDIR {
			t.Errorf("no directory %s", dir)
		}
	}
	if r := records["dev/console"]; r.Mode != cpio.S_IFCHR|0o600 || r.Rmajor != 5 || r.Rminor != 1 {
		t.Errorf("console is %+v", r.Info)
	}
	if !strings.HasPrefix(content(t, records["init"]), "#!/bin/sh\n") || records["init"].Mode&0o111 == 0 {
		t.Error("no /init to run")
	}
	for name, r := range records {
		if r.MTime != 1000 || r.UID != 0 || r.GID != 0 {
			t.Errorf("%s carries %+v", name, r.Info)
		}
	}
}

func TestInitrdWantsStaticBusybox(t *testing.T) {
	k := fakeKernel(nil)
	for name, tr := range map[string]tree{
		"none":    {},
		"dynamic": {"usr/bin/busybox": {mode: 0o755, data: elfFile(loader, "libc.so.6")}},
		"no ELF":  {"usr/bin/busybox": {mode: 0o755, data: []byte("#!/bin/sh")}},
	} {
		if err := writeInitrd(t.Context(), &bytes.Buffer{}, Recipe{Name: "test"}, tr, k); err == nil {
			t.Errorf("%s busybox is no error", name)
		}
	}
}

func readCPIO(t *testing.T, archive []byte) map[string]cpio.Record {
	t.Helper()
	list, err := cpio.ReadAllRecords(cpio.Newc.Reader(bytes.NewReader(archive)))
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]cpio.Record{}
	for _, r := range list {
		m[r.Name] = r
	}
	return m
}

func content(t *testing.T, r cpio.Record) string {
	t.Helper()
	if r.ReaderAt == nil {
		t.Fatalf("%s has no content", r.Name)
	}
	buf := make([]byte, r.FileSize)
	if _, err := r.ReadAt(buf, 0); err != nil && r.FileSize > 0 {
		t.Fatal(err)
	}
	return string(buf)
}

// cachedImage puts a complete image with made-up files into a cache.
func cachedImage(t *testing.T, cache, recipe, key string, when time.Time) Image {
	t.Helper()
	dir := filepath.Join(imagesDir(cache), "test-"+key)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{kernelFile: "kernel", initrdFile: string(smallInitrd(t)), rootFile: "root " + key} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	img := Image{Name: "test", Key: key, Recipe: recipe, Created: when, Resolved: when, Packages: map[string]string{"a": "1"}}
	if err := errors.Join(img.seal(dir), img.store(dir)); err != nil {
		t.Fatal(err)
	}
	img.locate(dir)
	return img
}

func TestInitrdWithAgent(t *testing.T) {
	cache := t.TempDir()
	img := cachedImage(t, cache, "r", "0123456789abcdef", time.Unix(1, 0))
	path, err := InitrdWithAgent(t.Context(), img, []byte("agent one"), cache)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	base, _ := os.ReadFile(img.Initrd)
	if !bytes.HasPrefix(whole, base) || len(base)%4 != 0 {
		t.Error("the image's archive does not come first, unchanged, at a multiple of four")
	}
	records := readCPIO(t, whole[len(base):])
	if got := content(t, records["lvslab-agent"]); got != "agent one" || records["lvslab-agent"].Mode != cpio.S_IFREG|0o755 {
		t.Errorf("the agent is %q, %+v", got, records["lvslab-agent"].Info)
	}

	old := time.Now().Add(-2 * initrdAge)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	again, err := InitrdWithAgent(t.Context(), img, []byte("agent one"), cache)
	if err != nil || again != path {
		t.Errorf("the same agent gave %s, %v; want %s", again, err, path)
	}
	if info, _ := os.Stat(path); info.ModTime().Before(time.Now().Add(-time.Hour)) {
		t.Error("asking for it does not renew it")
	}
	other, err := InitrdWithAgent(t.Context(), img, []byte("agent two"), cache)
	if err != nil || other == path {
		t.Errorf("another agent gave %s, %v", other, err)
	}
	_ = os.Chtimes(path, old, old)
	if _, err := InitrdWithAgent(t.Context(), img, []byte("agent three"), cache); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("one that nobody used for a week is kept: %v", err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("one in use is gone: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := InitrdWithAgent(ctx, img, []byte("agent four"), cache); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	entries, _ := os.ReadDir(initrdsDir(cache))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		if strings.HasPrefix(e.Name(), buildPrefix) || !strings.HasPrefix(e.Name(), img.Key+"-") {
			t.Errorf("left %s", e.Name())
		}
	}
	if d := cmp.Diff(2, len(names)); d != "" {
		t.Errorf("%v: %s", names, d)
	}
}
