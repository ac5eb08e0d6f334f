package images

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// TestUnfinishedTemplates: what is being made is not unfinished, what a killed
// process has left is; looking makes no file.
func TestUnfinishedTemplates(t *testing.T) {
	cache := t.TempDir()
	if list, err := UnfinishedTemplates(cache); len(list) > 0 || err != nil {
		t.Errorf("an empty cache has %v, %v", list, err)
	}
	if entries, err := os.ReadDir(cache); err != nil || len(entries) > 0 {
		t.Errorf("looking has made %v, %v", entries, err)
	}
	var count atomic.Int32
	buildTemplate(t, cache, "k1", func(ctx context.Context, dir, path string) error {
		if CacheOf(dir) != cache {
			t.Errorf("the cache of %s is not %s", dir, CacheOf(dir))
		}
		if list, err := UnfinishedTemplates(cache); len(list) > 0 || err != nil {
			t.Errorf("while one is made: %v, %v", list, err)
		}
		if err := SweepTemplates(cache, func(string) error { return errors.New("asked about a living one") }); err != nil {
			t.Error(err)
		}
		return making(&count, nil)(ctx, dir, path)
	})
	left := filepath.Join(templatesDir(cache), buildPrefix+"killed")
	if err := errors.Join(os.Mkdir(left, 0o755), os.WriteFile(filepath.Join(left, "memory.whole"), memory, 0o644)); err != nil {
		t.Fatal(err)
	}
	if list, err := UnfinishedTemplates(cache); err != nil || len(list) != 1 || list[0] != left {
		t.Errorf("left by a killed process: %v, %v", list, err)
	}
	busy := errors.New("it does not end")
	if err := SweepTemplates(cache, func(string) error { return busy }); !errors.Is(err, busy) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(left); err != nil {
		t.Errorf("removed under a process that does not end: %v", err)
	}
	var said []string
	other, err := BuildTemplate(t.Context(), template("k2"), TemplateOptions{CacheDir: cache, Make: making(&count, nil),
		Abandoned: func(string) error { return busy }, Progress: func(step string) { said = append(said, step) }})
	if err != nil || len(said) != 1 || !strings.Contains(said[0], busy.Error()) {
		t.Errorf("beside one that does not end: %v, said %q", err, said)
	}
	if err := dropTemplate(other.Dir); err != nil {
		t.Error(err)
	}
	var ended []string
	if err := SweepTemplates(cache, func(dir string) error { ended = append(ended, dir); return nil }); err != nil || len(ended) != 1 {
		t.Errorf("%v, %v", ended, err)
	}
	if want := "0123456789abcdef-k1/memory 0123456789abcdef-k1/template.json"; templateFiles(t, cache) != want {
		t.Errorf("files %s", templateFiles(t, cache))
	}
}

// TestTemplateWithoutSpace: what would fill the disk is not begun; a disk that
// fills meanwhile is named, whoever tells it, and nothing is left.
func TestTemplateWithoutSpace(t *testing.T) {
	cache := t.TempDir()
	large := template("k1")
	large.Memory = 1 << 60
	var count atomic.Int32
	_, err := BuildTemplate(t.Context(), large, TemplateOptions{CacheDir: cache, Make: making(&count, nil)})
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "a template") || count.Load() != 0 {
		t.Errorf("%v, made %d times", err, count.Load())
	}
	for _, cause := range []error{syscall.ENOSPC, errors.New("libvirt_iohelper: Unable to write x: No space left on device")} {
		_, err := BuildTemplate(t.Context(), template("k1"), TemplateOptions{CacheDir: cache, Make: func(_ context.Context, dir, path string) error {
			return errors.Join(os.WriteFile(path+".whole", memory, 0o644), cause)
		}})
		if !errors.Is(err, cause) || !strings.Contains(err.Error(), "The disk is full") || templateFiles(t, cache) != "" {
			t.Errorf("%v: %v, left %s", cause, err, templateFiles(t, cache))
		}
	}
}
