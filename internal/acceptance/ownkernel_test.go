package acceptance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/images"
	"github.com/lvslab/lvslab/internal/vmtest"
)

// packagedKernel puts the kernel of the built-in image and its modules into a
// directory as a user has them who took them out of the package: vmlinuz and
// root/usr/lib/modules. It returns the directory and the kernel's release.
func packagedKernel(t *testing.T) (dir, release string) {
	t.Helper()
	cache, err := images.DefaultCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	img, err := images.Build(t.Context(), images.Debian12, images.Options{CacheDir: cache})
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	cmd := exec.Command("unsquashfs", "-no-progress", "-no-xattrs", "-dest", filepath.Join(dir, "root"), img.Root, "usr/lib/modules")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	kernel, err := os.ReadFile(img.Kernel)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "vmlinuz"), kernel, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir, img.KernelRelease
}

// TestAccLongOwnKernel runs the smallest study on a kernel that is a file, and
// then offers one whose inside is damaged: that is told, with what its console
// said, before anything of a lab exists.
func TestAccLongOwnKernel(t *testing.T) {
	vmtest.NeedLong(t)
	dropOwnImages(t)
	dir, release := packagedKernel(t)
	kernel := filepath.Join(dir, "vmlinuz")
	topology := fmt.Sprintf("image \"mine\" {\n  kernel  = %q\n  modules = %q\n}\n", kernel, filepath.Join(dir, "root")) + strings.Replace(small("ownkernel", "198.19.61", matrix("x", "flush", 1, `"rr", "sh"`, "4")),
		`director "front" {`, "director \"front\" {\n  image = image.mine", 1)
	s := newSite(t, topology)
	r := s.must(0, 5*time.Minute, "apply", "lab.hcl")
	if !strings.Contains(r.stdout, "Linux "+release) || !strings.Contains(r.stdout, "debian-12+own") {
		t.Errorf("the plan does not tell the kernel: %s", r)
	}
	if runs := s.latest("ownkernel").Runs(); len(runs) != 2 || !runs[0].Valid || runs[0].AnswersOK != 120 {
		t.Errorf("runs: %+v", runs)
	}

	broken, err := os.ReadFile(kernel)
	if err != nil {
		t.Fatal(err)
	}
	clear(broken[len(broken)/2 : len(broken)/2+1<<16]) // inside of what is compressed
	if err := os.WriteFile(kernel, broken, 0o644); err != nil {
		t.Fatal(err)
	}
	r = s.must(1, 5*time.Minute, "apply", "lab.hcl")
	for _, want := range []string{"The kernel does not boot", "System halted", "last console lines", "lab.hcl line 2"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("%q is not said: %s", want, r)
		}
	}
	if r.took > time.Minute {
		t.Errorf("a kernel that does not boot was waited for: %s", r)
	}
	if strings.Contains(r.stdout, "hypervisor  process") {
		t.Errorf("a lab was begun: %s", r)
	}
}

// dropOwnImages takes away, at the end of the test, the images that it has made.
func dropOwnImages(t *testing.T) {
	t.Helper()
	cache, err := images.DefaultCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	before, err := images.List(cache)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		after, err := images.List(cache)
		for _, img := range after {
			known := slices.ContainsFunc(before, func(b images.Image) bool { return b.Key == img.Key })
			if img.Name == "debian-12+own" && !known {
				err = errors.Join(err, images.Remove(context.Background(), cache, img.Key))
			}
		}
		if err != nil {
			t.Error(err)
		}
	})
}
