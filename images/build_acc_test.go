package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/vmtest"
)

// accImage is the image that the acceptance tests share, in a cache of its own.
var accImage = sync.OnceValues(func() (Image, error) {
	dir, err := os.MkdirTemp("", "lvslab-acc-image-")
	if err != nil {
		return Image{}, err
	}
	accCache = dir
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	start := time.Now()
	img, err := Build(ctx, Debian12, Options{CacheDir: dir})
	accBuildTime = time.Since(start)
	return img, err
})

var (
	accCache     string
	accBuildTime time.Duration
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("LVSLAB_TEST_BUILD_IN"); dir != "" {
		buildForParent(dir)
	}
	code := m.Run()
	if accCache != "" {
		os.RemoveAll(accCache)
	}
	os.Exit(code)
}

func acceptance(t *testing.T) Image {
	t.Helper()
	vmtest.Need(t)
	img, err := accImage()
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func TestAccBuildIsReproducible(t *testing.T) {
	first := acceptance(t)
	t.Logf("built in %.1f s: kernel %d, initramfs %d, root %d bytes", accBuildTime.Seconds(),
		first.Sizes[kernelFile], first.Sizes[initrdFile], first.Sizes[rootFile])
	if limit := int64(60 << 20); first.Sizes[rootFile] > limit {
		t.Errorf("root has %d bytes, more than %d", first.Sizes[rootFile], limit)
	}
	// Another user, directory, umask, time zone and epoch must not show.
	cache := filepath.Join(openDir(t), "a cache")
	cmd := exec.CommandContext(t.Context(), copyOfTest(t, filepath.Dir(cache)))
	cmd.Env = append(os.Environ(), "LVSLAB_TEST_BUILD_IN="+cache, "TZ=Asia/Tokyo", "SOURCE_DATE_EPOCH=12345", "HOME=/nonexistent")
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("build as another user: %v\n%s", err, out)
	}
	list, err := List(cache)
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %v\n%s", list, err, out)
	}
	second := list[0]
	if first.Key != second.Key || first.Digest != second.Digest {
		t.Errorf("two builds differ:\n%s %v\n%s %v", first.Key, first.Files, second.Key, second.Files)
	}
	if err := second.Verify(); err != nil {
		t.Error(err)
	}
	if steps := strings.Count(string(out), "step: "); steps < 3 {
		t.Errorf("progress said only %d things: %s", steps, out)
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(second.Dir), buildPrefix+"*"))
	if len(left) > 0 {
		t.Errorf("the build left %v", left)
	}
}

// buildForParent is the other user's process.
func buildForParent(dir string) {
	syscall.Umask(0o077)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	_, err := Build(ctx, Debian12, Options{CacheDir: dir, Progress: func(s string) { fmt.Println("step: " + s) }})
	cancel()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// openDir makes a directory in which everybody may work.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lvslab-acc-open-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// copyOfTest puts this test program where another user can run it.
func copyOfTest(t *testing.T, dir string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	p := filepath.Join(dir, "images.test")
	if err := os.WriteFile(p, program, 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAccCachedIsQuick(t *testing.T) {
	img := acceptance(t)
	start := time.Now()
	again, err := Build(t.Context(), Debian12, Options{CacheDir: accCache, Progress: func(s string) { t.Errorf("cached build did: %s", s) }})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("cached build took %v", took)
	}
	if again.Root != img.Root || again.Digest != img.Digest {
		t.Errorf("cached image is %+v, built was %+v", again, img)
	}
}

func TestAccRefreshKeepsUnchanged(t *testing.T) {
	img := acceptance(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	again, err := Build(ctx, Debian12, Options{CacheDir: accCache, Refresh: true})
	if err != nil {
		t.Fatal(err)
	}
	if again.Key != img.Key || !again.Created.Equal(img.Created) || !again.Resolved.After(img.Resolved) {
		t.Errorf("refreshed %+v from %+v: want the same image, resolved later", again, img)
	}
}

func TestAccCancelledBuildLeavesNothing(t *testing.T) {
	vmtest.Need(t)
	cache := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err := Build(ctx, Debian12, Options{CacheDir: cache})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want the deadline", err)
	}
	entries, _ := os.ReadDir(imagesDir(cache))
	for _, e := range entries {
		t.Errorf("left in the cache: %s", e.Name())
	}
}

// TestAccNoTraces looks into the root for what belongs to the building machine.
func TestAccNoTraces(t *testing.T) {
	img := acceptance(t)
	dir := filepath.Join(t.TempDir(), "root")
	if out, err := exec.Command("unsquashfs", "-no-progress", "-d", dir, img.Root).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, p := range []string{"etc/machine-id", "etc/resolv.conf", "etc/apt", "etc/ssh", "etc/fstab", "var/lib/apt", "var/cache/apt", "var/lib/dpkg"} {
		if _, err := os.Lstat(filepath.Join(dir, p)); err == nil {
			t.Errorf("/%s is in the root", p)
		}
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "etc/hostname")); string(text) != "lvslab-guest\n" {
		t.Errorf("hostname is %q", text)
	}
	words := []string{accCache}
	if name, _ := os.Hostname(); len(name) > 5 {
		words = append(words, name)
	}
	words = append(words, sourceHosts(t)...)
	for _, word := range words {
		out, _ := exec.Command("grep", "-rlaF", "--", word, filepath.Join(dir, "etc"), filepath.Join(dir, "var"), filepath.Join(dir, "usr/share"), filepath.Join(dir, "usr/lib/modules"), img.Initrd).Output()
		if len(out) > 0 {
			t.Errorf("%q of the building machine is in %s", word, out)
		}
	}
}

// sourceHosts returns the hosts of the machine's package sources.
func sourceHosts(t *testing.T) []string {
	src, err := readSources(aptDir, Debian12.Suite)
	if err != nil {
		t.Fatal(err)
	}
	hosts := map[string]bool{}
	for _, word := range strings.Fields(strings.Join(append(src.oneLine, src.deb822...), " ")) {
		if _, rest, ok := strings.Cut(word, "://"); ok {
			host, _, _ := strings.Cut(rest, "/")
			hosts[host] = true
		}
	}
	var list []string
	for h := range hosts {
		list = append(list, h)
	}
	sort.Strings(list)
	if len(list) == 0 {
		t.Log("the package sources name no host")
	}
	return list
}
