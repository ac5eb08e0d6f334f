package acceptance

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	recipeLine = regexp.MustCompile(`"recipe": "[0-9a-f]+"`)
	whenLine   = regexp.MustCompile(`"(created|resolved)": "20\d\d`)
)

// rewriteRecipes gives the images of a cache another recipe and age, and returns what puts
// their own back.
func rewriteRecipes(t *testing.T, cache string) (back func()) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(cache, "images", "*", "image.json"))
	was := map[string][]byte{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err == nil {
			was[f] = text
			text = recipeLine.ReplaceAll(text, []byte(`"recipe": "00"`))
			err = os.WriteFile(f, whenLine.ReplaceAll(text, []byte(`"$1": "2001`)), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		for f, text := range was {
			if _, err := os.Stat(f); err == nil {
				if err := os.WriteFile(f, text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// everythingAged makes a cache one that was not used for two hours.
func everythingAged(t *testing.T, cache string) {
	t.Helper()
	then := time.Now().Add(-2 * time.Hour)
	for _, dir := range []string{"images", "initrds", "templates"} {
		err := filepath.WalkDir(filepath.Join(cache, dir), func(p string, _ fs.DirEntry, err error) error {
			if err == nil {
				err = os.Chtimes(p, then, then)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestAccPrune prunes the cache under a lab that is up, when its image and all else
// is stale: what the lab is made of stays, told from its own directory and from
// another; a machine is made anew from it; once the lab is gone all goes.
func TestAccPrune(t *testing.T) {
	s := newSite(t, pair("pruned", "198.19.37", "", ""))
	cache := linked(t, s)
	s.must(0, 4*time.Minute, "apply", "lab.hcl")
	images, _ := filepath.Glob(filepath.Join(cache, "images", "debian-12-*"))
	others, _ := filepath.Glob(filepath.Join(cache, "images", "debian-12+*"))
	for _, dir := range others {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	spare := filepath.Join(cache, "images", "debian-12-0000000000000000")
	if err := os.CopyFS(spare, os.DirFS(images[0])); err != nil {
		t.Fatal(err)
	}
	extra := filepath.Join(cache, "initrds", filepath.Base(images[0])[len("debian-12-"):]+"-0000000000000000.cpio")
	if err := os.WriteFile(extra, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	initrds, _ := filepath.Glob(filepath.Join(cache, "initrds", "*"))
	templates, _ := filepath.Glob(filepath.Join(cache, "templates", "*"))
	if len(images) == 0 || len(initrds) != 2 || len(templates) == 0 {
		t.Fatalf("%v, %v, %v: want what a lab is made of", images, initrds, templates)
	}
	back := rewriteRecipes(t, cache)
	everythingAged(t, cache)

	elsewhere := t.TempDir()
	for _, more := range [][]string{{"--dry-run"}, {"--dry-run", "--chdir", elsewhere}, {"--chdir", elsewhere}} {
		r := s.must(0, time.Minute, append([]string{"image", "prune"}, more...)...)
		for _, path := range append(slices.Clone(templates), images[0]) {
			if line := lineWith(r.stdout, filepath.Base(path)+" "); !strings.Contains(line, "kept: lab pruned uses it") {
				t.Errorf("%v says of %s %q: %s", more, path, line, r)
			}
		}
	}
	for _, path := range append(templates, images[0]) {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	for _, path := range []string{spare, extra} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is still there", path)
		}
	}
	back()
	s.must(0, time.Minute, "plan", "--detailed-exitcode", "lab.hcl")
	s.must(0, 2*time.Minute, "apply", "--auto-approve", "--replace", "client.probe", "lab.hcl")
	s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")
	rewriteRecipes(t, cache)
	everythingAged(t, cache)
	s.must(0, time.Minute, "image", "prune")
	for _, dir := range []string{"images", "initrds", "templates"} {
		if left, _ := filepath.Glob(filepath.Join(cache, dir, "*")); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	}
}

func lineWith(text, part string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return line
		}
	}
	return ""
}
