package images

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/diag"
)

const testRelease = "6.9.0-mine+"

// bzImageOf is as much of a bzImage as tells its release.
func bzImageOf(text string) []byte {
	image := make([]byte, 0x400)
	copy(image[headerMagic:], "HdrS")
	binary.LittleEndian.PutUint16(image[headerProtocol:], 0x020f)
	binary.LittleEndian.PutUint16(image[headerVersion:], 0x100)
	image[headerFlags] = 1
	copy(image[0x300:], text+"\x00")
	return image
}

// builtinAll is the list of a kernel with all that a guest needs compiled in.
func builtinAll(but ...string) string {
	var b strings.Builder
	for _, name := range []string{"net/netfilter/ipvs/ip_vs", "net/netfilter/ipvs/ip_vs_rr", "drivers/virtio/virtio_pci", "drivers/block/virtio_blk",
		"fs/squashfs/squashfs", "fs/overlayfs/overlay", "drivers/char/virtio_console", "drivers/net/virtio_net"} {
		if !slices.Contains(but, filepath.Base(name)) {
			b.WriteString("kernel/" + name + ".ko\n")
		}
	}
	return b.String()
}

func goodConfig(but string) string {
	var b strings.Builder
	for _, o := range bootOptions {
		if o != but {
			b.WriteString("CONFIG_" + o + "=y\n")
		}
	}
	return b.String() + "CONFIG_IP_VS=m\n# CONFIG_MODVERSIONS is not set\n"
}

// lay writes files below a new directory.
func lay(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestForOwnKernel(t *testing.T) {
	image := string(bzImageOf(testRelease + " (me@here) #1 SMP"))
	tree := map[string]string{"arch/x86/boot/bzImage": image, "modules.builtin": builtinAll(), "modules.builtin.modinfo": "", ".config": goodConfig("")}
	installed := map[string]string{"vmlinuz": image, "root/lib/modules/" + testRelease + "/modules.builtin": builtinAll(), "root/lib/modules/" + testRelease + "/kernel/x": ""}
	for name, tt := range map[string]struct {
		files                   map[string]string
		kernel, modules, initrd string
	}{
		"a tree":                      {tree, ".", "", ""},
		"the kernel in a tree":        {tree, "arch/x86/boot/bzImage", "", ""},
		"installed modules":           {installed, "vmlinuz", "root", ""},
		"the directory of modules":    {installed, "vmlinuz", "root/lib/modules", ""},
		"the directory of the kernel": {installed, "vmlinuz", "root/lib/modules/" + testRelease, ""},
		"with an initramfs":           {installed, "vmlinuz", "root", "vmlinuz"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := lay(t, tt.files)
			r, err := ownIn(t, dir, tt.kernel, tt.modules, tt.initrd)
			if err != nil {
				t.Fatal(err)
			}
			if r.Own.Release != testRelease || r.kernelPackageOf() != "" || slices.Contains(Debian12.Packages, "") {
				t.Errorf("release %q, package %q", r.Own.Release, r.kernelPackageOf())
			}
			k, err := r.kernel("")
			if err != nil || !k.builtin["ip_vs"] || !slices.Equal(k.schedulers(), []string{"rr"}) {
				t.Errorf("the kernel's modules: %v, %v", k, err)
			}
		})
	}
	if !slices.Contains(Debian12.Packages, DefaultKernel) {
		t.Error("the recipe that all share was changed")
	}
}

func ownIn(t *testing.T, dir, kernel, modules, initrd string) (Recipe, error) {
	t.Helper()
	in := func(p string) string {
		if p == "" {
			return ""
		}
		return filepath.Join(dir, p)
	}
	return ForOwnKernel(context.Background(), in(kernel), in(modules), in(initrd))
}

// TestOwnKernelDigest: the recipe is known by what the kernel is, not by where
// it lies.
func TestOwnKernelDigest(t *testing.T) {
	files := func(version, builtin string) map[string]string {
		return map[string]string{"arch/x86/boot/bzImage": string(bzImageOf(version)), "modules.builtin": builtin, "initrd": "a"}
	}
	digest := func(f map[string]string, initrd string) string {
		r, err := ownIn(t, lay(t, f), ".", "", initrd)
		if err != nil {
			t.Fatal(err)
		}
		return r.digest()
	}
	first := digest(files(testRelease+" #1", builtinAll()), "")
	if again := digest(files(testRelease+" #1", builtinAll()), ""); again != first {
		t.Error("the same kernel elsewhere is another recipe")
	}
	for what, other := range map[string]string{
		"another kernel":    digest(files(testRelease+" #2", builtinAll()), ""),
		"something less":    digest(files(testRelease+" #1", builtinAll("ip_vs_rr")), ""),
		"with an initramfs": digest(files(testRelease+" #1", builtinAll()), "initrd"),
	} {
		if other == first {
			t.Errorf("%s has the digest of the first", what)
		}
	}
}

func TestForOwnKernelRefuses(t *testing.T) {
	image := string(bzImageOf(testRelease))
	tree := func(change map[string]string) map[string]string {
		all := map[string]string{"arch/x86/boot/bzImage": image, "modules.builtin": builtinAll(), ".config": goodConfig("")}
		for name, text := range change {
			if all[name] = text; text == "" {
				delete(all, name)
			}
		}
		return all
	}
	for name, tt := range map[string]struct {
		files                   map[string]string
		kernel, modules, initrd string
		want                    []string
	}{
		"no file":          {tree(nil), "bzImage", "", "", []string{"The kernel cannot be read", "bzImage", "directory of the topology"}},
		"not built":        {tree(map[string]string{"arch/x86/boot/bzImage": ""}), ".", "", "", []string{"not built", "make bzImage"}},
		"vmlinux":          {map[string]string{"vmlinux": "\x7fELF\x02"}, "vmlinux", "", "", []string{"Not a kernel", "vmlinux is an ELF file", "arch/x86/boot/bzImage"}},
		"empty":            {map[string]string{"k": ""}, "k", "", "", []string{"Not a kernel", "k is empty"}},
		"text":             {map[string]string{"k": strings.Repeat("x", 2048)}, "k", "", "", []string{"no boot header"}},
		"alone":            {map[string]string{"k": image}, "k", "", "", []string{"Modules missing", "modules_install"}},
		"other modules":    {map[string]string{"k": image, "m/lib/modules/6.1/x": ""}, "k", "m", "", []string{"No modules of this kernel", testRelease, "m/lib/modules/" + testRelease}},
		"half built":       {tree(map[string]string{"modules.builtin": ""}), ".", "", "", []string{"modules are not complete", "make bzImage modules"}},
		"no ipvs":          {tree(map[string]string{"modules.builtin": builtinAll("ip_vs")}), ".", "", "", []string{"no IPVS", "CONFIG_IP_VS=m"}},
		"no disk":          {tree(map[string]string{"modules.builtin": builtinAll("virtio_blk", "overlay")}), ".", "", "", []string{"cannot start a guest", "no overlay, virtio_blk", "CONFIG_OVERLAY_FS, CONFIG_VIRTIO_BLK"}},
		"no initramfs":     {tree(map[string]string{".config": goodConfig("BLK_DEV_INITRD")}), ".", "", "", []string{"cannot start a guest", ".config does not set CONFIG_BLK_DEV_INITRD"}},
		"initrd missing":   {tree(nil), ".", "", "initrd", []string{"The initramfs cannot be read", "initrd"}},
		"a module missing": {tree(map[string]string{"modules.order": "kernel/net/ipv4/ipip.ko\n"}), ".", "", "", []string{"modules are not complete", "ipip.ko"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ownIn(t, lay(t, tt.files), tt.kernel, tt.modules, tt.initrd)
			var known *diag.Failure
			if !errors.As(err, &known) {
				t.Fatalf("%v, want a refusal with a remedy", err)
			}
			text := known.Diagnostic.Summary + "\n" + known.Diagnostic.Detail + "\n" + known.Diagnostic.Remedy + "\n" + err.Error()
			for _, want := range tt.want {
				if !strings.Contains(text, want) {
					t.Errorf("%q is not in\n%s", want, text)
				}
			}
		})
	}
}

// TestTreeModules: the list of a tree has .o until Linux 6.2 and .ko then, with
// and without kernel/ before it.
func TestTreeModules(t *testing.T) {
	dir := lay(t, map[string]string{"modules.builtin": "", "modules.order": "kernel/net/a/b-c.ko\nnet/d.o\n"})
	k := newKernelTree("6", "", dir)
	k.tree = true
	if err := k.scanAny(); err != nil {
		t.Fatal(err)
	}
	if got := k.path("b_c"); got != filepath.Join(dir, "net/a/b-c.ko") || k.files["d"] != "kernel/net/d.ko" {
		t.Errorf("b-c lies at %s, d at %s", got, k.files["d"])
	}
	if got := string(orderInstalled([]byte("net/d.o\nkernel/e.ko\n"))); got != "kernel/net/d.ko\nkernel/e.ko\n" {
		t.Errorf("installed the order is %q", got)
	}
	if got := k.present([]string{"net/a/", "net/none/", "b-c", "z"}); !slices.Equal(got, []string{"net/a/", "b-c"}) {
		t.Errorf("present are %q", got)
	}
}

func FuzzReleaseIn(f *testing.F) {
	f.Add(bzImageOf(testRelease + " (x) #1"))
	f.Add([]byte("\x7fELF"))
	short := bzImageOf("")
	binary.LittleEndian.PutUint16(short[headerVersion:], 0xffff)
	f.Add(short)
	f.Fuzz(func(t *testing.T, image []byte) {
		release, why := releaseIn(image)
		if (release == "") == (why == "") {
			t.Errorf("release %q, why %q", release, why)
		}
		if strings.ContainsAny(release, "/\\ \x00") {
			t.Errorf("release %q is not the name of a directory", release)
		}
	})
}

func TestReleaseIn(t *testing.T) {
	small := bzImageOf(testRelease)
	small[headerFlags] = 0
	for _, tt := range []struct {
		image         []byte
		release, part string
	}{
		{bzImageOf("6.1.0-51-cloud-amd64 (debian) #1 SMP"), "6.1.0-51-cloud-amd64", ""},
		{bzImageOf("../../etc x"), "", "does not tell"},
		{bzImageOf(""), "", "does not tell"},
		{small, "", "32-bit"},
	} {
		if release, why := releaseIn(tt.image); release != tt.release || !strings.Contains(why, tt.part) {
			t.Errorf("%q, %q, want %q, %q", release, why, tt.release, tt.part)
		}
	}
}
