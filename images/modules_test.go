package images

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/lvslab/lvslab/internal/diag"
)

func TestParseModinfo(t *testing.T) {
	got := parseModinfo([]byte("license=GPL\x00\x00depends=nf-conntrack,libcrc32c\x00softdep=pre: crc32c post: z pre: a-b\x00vermagic=6.1 SMP\x00"))
	want := &modInfo{depends: []string{"nf_conntrack", "libcrc32c"}, softPre: []string{"crc32c", "a_b"}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(modInfo{})); d != "" {
		t.Error(d)
	}
}

func FuzzParseModinfo(f *testing.F) {
	f.Add([]byte("depends=a,b\x00softdep=pre: x post: y"))
	f.Add([]byte("depends=\x00softdep=pre:"))
	f.Add([]byte{0, '=', 0})
	f.Fuzz(func(t *testing.T, section []byte) {
		info := parseModinfo(section)
		for _, name := range append(info.depends, info.softPre...) {
			if strings.ContainsAny(name, "-/\x00") {
				t.Errorf("module name %q", name)
			}
		}
	})
}

// fakeKernel has the modules of a map name → depends, all read already.
func fakeKernel(depends map[string]string) *kernelTree {
	k := &kernelTree{release: "6.1.0-test", files: map[string]string{}, builtin: map[string]bool{"ext4": true}, infos: map[string]*modInfo{}}
	for name, list := range depends {
		k.files[name] = "kernel/net/" + name + ".ko"
		k.infos[name] = parseModinfo([]byte("depends=" + list))
	}
	return k
}

func TestLoadOrder(t *testing.T) {
	k := fakeKernel(map[string]string{"virtio_pci": "virtio_ring,virtio", "virtio_ring": "", "virtio": "", "virtio_blk": "virtio_ring,virtio", "loop_a": "loop_b", "loop_b": "loop_a", "lost": "nothere"})
	k.infos["virtio_blk"].softPre = []string{"absent", "ext4"}
	tests := []struct{ in, want string }{
		{"virtio_pci virtio_blk", "virtio_ring virtio virtio_pci virtio_blk"},
		{"virtio-blk virtio_pci", "virtio_ring virtio virtio_blk virtio_pci"},
		{"ext4 virtio", "virtio"},
		{"loop_a", "loop_b loop_a"},
	}
	for _, tt := range tests {
		got, err := k.loadOrder(t.Context(), strings.Fields(tt.in))
		if err != nil || strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %q, %v; want %q", tt.in, got, err, tt.want)
		}
	}
	if _, err := k.loadOrder(t.Context(), []string{"lost"}); err == nil || !strings.Contains(err.Error(), "lost needs nothere") {
		t.Errorf("a dependency that is not there: %v", err)
	}
}

func TestSelectModules(t *testing.T) {
	k := fakeKernel(map[string]string{"a": "", "b": "", "c_d": ""})
	k.files["b"] = "kernel/netx/b.ko"
	got, err := k.selectModules([]string{"net/", "ext4", "c-d"})
	if err != nil || cmp.Diff([]string{"a", "c_d"}, got) != "" {
		t.Errorf("got %v, %v", got, err)
	}
	_, err = k.selectModules([]string{"a", "ip_vs_nosuch", "no/dir/"})
	var f *diag.Failure
	if !errors.As(err, &f) || !strings.Contains(f.Diagnostic.Detail, "6.1.0-test has no ip_vs_nosuch, no/dir/") {
		t.Errorf("missing modules: %v", err)
	}
}

func TestReadModuleUncompresses(t *testing.T) {
	dir := t.TempDir()
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"a.ko": []byte("module"), "b.ko.zst": enc.EncodeAll([]byte("module"), nil)} {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, data, 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := readModule(t.Context(), p)
		if err != nil || string(got) != "module" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if got := moduleName("kernel/x/" + name); got != name[:1] {
			t.Errorf("name of %s is %q", name, got)
		}
	}
}

func TestOpenKernelWantsOne(t *testing.T) {
	root := t.TempDir()
	if _, err := openKernel(root); err == nil || !strings.Contains(err.Error(), "0 kernels") {
		t.Errorf("no kernel: %v", err)
	}
	for _, r := range []string{"6.1", "6.12"} {
		if err := os.MkdirAll(filepath.Join(root, "lib/modules", r, "kernel"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := openKernel(root); err == nil || !strings.Contains(err.Error(), "2 kernels") {
		t.Errorf("two kernels: %v", err)
	}
}
