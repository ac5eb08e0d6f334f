package images

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/diag"
)

func TestDefaultCacheDir(t *testing.T) {
	t.Setenv("SUDO_UID", "")
	t.Setenv("LVSLAB_CACHE", "/var/tmp/somewhere")
	if dir, err := DefaultCacheDir(); err != nil || dir != "/var/tmp/somewhere" {
		t.Errorf("got %s, %v", dir, err)
	}
	t.Setenv("LVSLAB_CACHE", "")
	t.Setenv("XDG_CACHE_HOME", "/xdg")
	if dir, err := DefaultCacheDir(); err != nil || dir != "/xdg/lvslab" {
		t.Errorf("got %s, %v", dir, err)
	}
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	_, err := DefaultCacheDir()
	var f *diag.Failure
	if !errors.As(err, &f) || !strings.Contains(f.Diagnostic.Remedy, "LVSLAB_CACHE") {
		t.Errorf("no home: %v", err)
	}
}

func TestListFindRemove(t *testing.T) {
	cache := t.TempDir()
	if list, err := List(filepath.Join(cache, "nothing")); err != nil || len(list) != 0 {
		t.Errorf("no cache: %v, %v", list, err)
	}
	old := cachedImage(t, cache, "r", "aaaa000000000000", time.Unix(100, 0))
	young := cachedImage(t, cache, "r", "aabb000000000000", time.Unix(200, 0))
	cachedImage(t, cache, "other", "cccc000000000000", time.Unix(300, 0))
	short := cachedImage(t, cache, "r", "dddd000000000000", time.Unix(400, 0))
	if err := os.Truncate(short.Root, 2); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(imagesDir(cache), buildPrefix+"1"), 0o755); err != nil {
		t.Fatal(err)
	}
	list, err := List(cache)
	if err != nil || len(list) != 3 || list[0].Key != "cccc000000000000" || list[2].Key != old.Key {
		t.Fatalf("list is %v, %v", list, err)
	}
	img, ok, err := find(cache, "r")
	if err != nil || !ok || img.Key != young.Key || img.Root != young.Root || img.Packages["a"] != "1" {
		t.Errorf("found %+v, %v, %v; want the younger complete one", img, ok, err)
	}
	if _, ok, _ := find(cache, "none"); ok {
		t.Error("found an image of no recipe")
	}

	initrd, err := InitrdWithAgent(t.Context(), young, []byte("x"), cache)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"": "No such image", "ff": "No such image", "aa": "More than one"} {
		var f *diag.Failure
		if err := Remove(t.Context(), cache, key); !errors.As(err, &f) || !strings.Contains(f.Diagnostic.Summary, want) || f.Diagnostic.Remedy == "" {
			t.Errorf("remove %q: %v, want %s", key, err, want)
		}
	}
	for _, key := range []string{"aab", "dddd000000000000"} { // the start of a key; a damaged image
		if err := Remove(t.Context(), cache, key); err != nil {
			t.Errorf("remove %s: %v", key, err)
		}
	}
	for _, p := range []string{young.Dir, short.Dir, initrd} {
		if _, err := os.Stat(p); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", p, err)
		}
	}
	if img, ok, _ := find(cache, "r"); !ok || img.Key != old.Key {
		t.Errorf("after removal found %+v, %v", img, ok)
	}
}

func TestVerify(t *testing.T) {
	img := cachedImage(t, t.TempDir(), "r", "0123456789abcdef", time.Unix(1, 0))
	if err := img.Verify(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(img.Kernel, []byte("kernle"), 0o644); err != nil { // same length
		t.Fatal(err)
	}
	var f *diag.Failure
	if err := img.Verify(); !errors.As(err, &f) || !strings.Contains(f.Diagnostic.Remedy, "image rm 0123456789abcdef") {
		t.Errorf("a changed kernel: %v", err)
	}
	if err := os.Remove(img.Root); err != nil {
		t.Fatal(err)
	}
	if err := img.Verify(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing root: %v", err)
	}
}

func TestLockWaitsAndTells(t *testing.T) {
	cache := t.TempDir()
	release, err := acquire(t.Context(), cache, func(s string) { t.Errorf("said %q", s) })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*lockPoll)
	defer cancel()
	var said []string
	_, err = acquire(ctx, cache, func(s string) { said = append(said, s) })
	var f *diag.Failure
	if !errors.As(err, &f) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(f.Diagnostic.Detail, "process ") {
		t.Errorf("held lock: %v", err)
	}
	if len(said) != 1 || !strings.Contains(said[0], "process ") {
		t.Errorf("said %q, want once who holds it", said)
	}
	time.AfterFunc(2*lockPoll, release)
	again, err := acquire(t.Context(), cache, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	again()
}

// TestLockNamesALateHolder: one who has just taken the lock writes his number down
// a moment later.
func TestLockNamesALateHolder(t *testing.T) {
	cache := t.TempDir()
	f, err := os.Create(filepath.Join(cache, "images.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*lockPoll)
	defer cancel()
	time.AfterFunc(lockPoll/4, func() { _, _ = f.WriteString("4711\n") })
	var said []string
	if _, err := acquire(ctx, cache, func(s string) { said = append(said, s) }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("held lock: %v", err)
	}
	if len(said) != 1 || !strings.Contains(said[0], "waiting for process 4711") {
		t.Errorf("said %q", said)
	}
}

func TestCachedBuildNeedsNoLock(t *testing.T) {
	cache := t.TempDir()
	recipe := Recipe{Name: "test"}
	img := cachedImage(t, cache, recipe.digest(), "0123456789abcdef", time.Unix(1, 0))
	release, err := acquire(t.Context(), cache, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	got, err := Build(ctx, recipe, Options{CacheDir: cache})
	if err != nil || got.Digest != img.Digest {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestSpaceAndSweep(t *testing.T) {
	dir := t.TempDir()
	err := checkSpace(dir, "an image", 1<<62)
	var f *diag.Failure
	if !errors.As(err, &f) || !errors.Is(err, unix.ENOSPC) || !strings.Contains(f.Diagnostic.Detail, dir) {
		t.Errorf("no space: %v", err)
	}
	if err := checkSpace(dir, "an image", 1); err != nil {
		t.Error(err)
	}
	for _, name := range []string{buildPrefix + "123/root/x", "debian-12-key"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := sweepBuilds(dir); err != nil {
		t.Fatal(err)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 1 || entries[0].Name() != "debian-12-key" {
		t.Errorf("left %v", entries)
	}
	if err := sweepBuilds(filepath.Join(dir, "nothing")); err != nil {
		t.Error(err)
	}
}

func TestMissingTools(t *testing.T) {
	err := checkTools([]tool{{"lvslab-no-such-program", "some-package"}, {"sh", "dash"}, {"lvslab-nor-this", "other-package"}})
	var f *diag.Failure
	if !errors.As(err, &f) {
		t.Fatalf("got %v", err)
	}
	if !strings.HasSuffix(f.Diagnostic.Remedy, "some-package other-package` as root.") || strings.Contains(f.Diagnostic.Detail, "sh,") {
		t.Errorf("got %s", f.Diagnostic)
	}
}
