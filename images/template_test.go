package images

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var memory = bytes.Repeat([]byte("memory"), 1000)

// making counts how often a template was made.
func making(count *atomic.Int32, during func()) func(context.Context, string, string) error {
	return func(_ context.Context, dir, path string) error {
		count.Add(1)
		if during != nil {
			during()
		}
		return errors.Join(os.WriteFile(filepath.Join(dir, "console.log"), []byte("x"), 0o644), os.WriteFile(path, memory, 0o600))
	}
}

func template(key string) Template {
	return Template{Key: key, Image: "0123456789abcdef", Memory: 256 << 20, Accelerator: "tcg"}
}

func buildTemplate(t *testing.T, cache, key string, make func(context.Context, string, string) error) Template {
	t.Helper()
	got, err := BuildTemplate(t.Context(), template(key), TemplateOptions{CacheDir: cache, Make: make})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func templateFiles(t *testing.T, cache string) string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(templatesDir(cache), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(templatesDir(cache), path)
			list = append(list, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(list, " ")
}

func TestTemplate(t *testing.T) {
	cache := t.TempDir()
	if _, ok, err := FindTemplate(cache, "0123456789abcdef", "k1"); ok || err != nil {
		t.Fatalf("an empty cache has one: %v", err)
	}
	var count atomic.Int32
	made := buildTemplate(t, cache, "k1", making(&count, nil))
	if want := "0123456789abcdef-k1/memory 0123456789abcdef-k1/template.json"; templateFiles(t, cache) != want {
		t.Errorf("files %s", templateFiles(t, cache))
	}
	found, ok, err := FindTemplate(cache, "0123456789abcdef", "k1")
	if !ok || err != nil || found.Sum != made.Sum || found.Path != made.Path || found.Size != int64(len(memory)) || found.Memory != 256<<20 {
		t.Errorf("found %+v, %v, made %+v", found, err, made)
	}
	if b, err := os.ReadFile(found.Path); err != nil || !bytes.Equal(b, memory) {
		t.Errorf("content: %v", err)
	}
	buildTemplate(t, cache, "k1", making(&count, nil))
	if count.Load() != 1 {
		t.Errorf("made %d times", count.Load())
	}
	list, err := Templates(cache)
	if err != nil || len(list) != 1 || list[0].Key != "k1" || list[0].Used.IsZero() {
		t.Errorf("list %+v, %v", list, err)
	}
}

func TestDamagedTemplate(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"another byte": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			st, err := f.Stat()
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte("X"), 77)
			// Whoever sets the times back cannot set back the change time.
			return errors.Join(err, os.Chtimes(path, st.ModTime(), st.ModTime()))
		},
		"shorter": func(path string) error { return os.Truncate(path, 10) },
		"gone":    os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			cache := t.TempDir()
			var count atomic.Int32
			made := buildTemplate(t, cache, "k1", making(&count, nil))
			time.Sleep(30 * time.Millisecond) // the clock of change times is coarse
			if err := damage(made.Path); err != nil {
				t.Fatal(err)
			}
			if _, ok, err := FindTemplate(cache, made.Image, made.Key); ok || !errors.Is(err, ErrDamaged) {
				t.Fatalf("found %v, %v", ok, err)
			}
			buildTemplate(t, cache, "k1", making(&count, nil))
			if _, ok, err := FindTemplate(cache, made.Image, made.Key); !ok || err != nil || count.Load() != 2 {
				t.Errorf("after making it anew: %v, %v, made %d times", ok, err, count.Load())
			}
		})
	}
}

// TestTouchedTemplate: another time and the same content is the same template;
// the sum is computed once.
func TestTouchedTemplate(t *testing.T) {
	cache := t.TempDir()
	var count atomic.Int32
	made := buildTemplate(t, cache, "k1", making(&count, nil))
	then := time.Now().Add(-time.Hour)
	if err := os.Chtimes(made.Path, then, then); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		found, ok, err := FindTemplate(cache, made.Image, made.Key)
		if !ok || err != nil || found.Seen == made.Seen {
			t.Fatalf("found %v, %v, %+v", ok, err, found)
		}
	}
}

func TestTwoBuildersMakeOneTemplate(t *testing.T) {
	cache := t.TempDir()
	var count atomic.Int32
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			_, err := BuildTemplate(t.Context(), template("k1"), TemplateOptions{CacheDir: cache,
				Make: making(&count, func() { time.Sleep(50 * time.Millisecond) })})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if count.Load() != 1 {
		t.Errorf("made %d times", count.Load())
	}
}

// TestFailedTemplateLeavesNothing: an error, and a process that was killed.
func TestFailedTemplateLeavesNothing(t *testing.T) {
	cache := t.TempDir()
	boom := errors.New("boom")
	_, err := BuildTemplate(t.Context(), template("k1"), TemplateOptions{CacheDir: cache, Make: func(_ context.Context, _, path string) error {
		return errors.Join(os.WriteFile(path, memory, 0o600), boom)
	}})
	if !errors.Is(err, boom) || templateFiles(t, cache) != "" {
		t.Errorf("%v, left %s", err, templateFiles(t, cache))
	}
	left := filepath.Join(templatesDir(cache), buildPrefix+"killed")
	if err := errors.Join(os.Mkdir(left, 0o755), os.WriteFile(filepath.Join(left, "lineage"), []byte("l"), 0o644)); err != nil {
		t.Fatal(err)
	}
	var ended []string
	var count atomic.Int32
	_, err = BuildTemplate(t.Context(), template("k1"), TemplateOptions{CacheDir: cache, Make: making(&count, nil),
		Abandoned: func(dir string) error { ended = append(ended, dir); return nil }})
	if err != nil || len(ended) != 1 || ended[0] != left || strings.Contains(templateFiles(t, cache), "killed") {
		t.Errorf("%v, ended %v, files %s", err, ended, templateFiles(t, cache))
	}
}

func TestOldTemplatesGo(t *testing.T) {
	cache := t.TempDir()
	var count atomic.Int32
	for i := range templateMost + 3 {
		made := buildTemplate(t, cache, fmt.Sprintf("k%d", i), making(&count, nil))
		used := time.Now().Add(time.Duration(i-100) * time.Minute)
		if err := os.Chtimes(filepath.Join(made.Dir, templateManifest), used, used); err != nil {
			t.Fatal(err)
		}
	}
	list, err := Templates(cache)
	if err != nil || len(list) != templateMost {
		t.Errorf("%d templates, want %d: %v", len(list), templateMost, err)
	}
	for _, l := range list {
		if l.Key < "k3" {
			t.Errorf("%s was used longest ago and is still there", l.Key)
		}
		old := time.Now().Add(-templateAge - time.Hour)
		if err := os.Chtimes(filepath.Join(l.Dir, templateManifest), old, old); err != nil {
			t.Fatal(err)
		}
	}
	buildTemplate(t, cache, "new", making(&count, nil))
	if list, err = Templates(cache); err != nil || len(list) != 1 {
		t.Errorf("%d templates after a week, %v", len(list), err)
	}
}

func TestTemplatesGoWithTheirImage(t *testing.T) {
	cache := t.TempDir()
	var count atomic.Int32
	buildTemplate(t, cache, "k1", making(&count, nil))
	if err := os.MkdirAll(filepath.Join(imagesDir(cache), "debian-12-0123456789abcdef"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Remove(t.Context(), cache, "0123456789abcdef"); err != nil {
		t.Fatal(err)
	}
	if files := templateFiles(t, cache); files != "" {
		t.Errorf("left: %s", files)
	}
}

func TestTemplateKey(t *testing.T) {
	if TemplateKey("ab", "c") == TemplateKey("a", "bc") || TemplateKey("a") == TemplateKey("a", "") || len(TemplateKey()) != 16 {
		t.Error("different parts have the same key")
	}
}
