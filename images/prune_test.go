package images

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// named puts an image of the cache under the name and recipe of another.
func named(t *testing.T, cache, key string, r Recipe, age time.Duration) Image {
	t.Helper()
	img := cachedImage(t, cache, r.digest(), key, time.Now().Add(-age))
	dir := filepath.Join(imagesDir(cache), r.Name+"-"+key)
	img.Name = r.Name
	if err := errors.Join(img.store(img.Dir), os.Rename(img.Dir, dir)); err != nil {
		t.Fatal(err)
	}
	img.locate(dir)
	return img
}

func initrdFor(t *testing.T, cache string, img Image, agent string) string {
	t.Helper()
	path, err := InitrdWithAgent(t.Context(), img, []byte(agent), cache)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func aged(t *testing.T, path string, age time.Duration) {
	t.Helper()
	then := time.Now().Add(-age)
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
}

func templateFor(t *testing.T, cache, key, initrd string, img Image, age time.Duration) string {
	t.Helper()
	one := Template{Key: key, Image: img.Key, Initramfs: filepath.Base(initrd)}
	one.locate(cache)
	if err := errors.Join(os.MkdirAll(one.Dir, 0o755), os.WriteFile(one.Path, make([]byte, 8192), 0o644), one.store(one.Dir)); err != nil {
		t.Fatal(err)
	}
	aged(t, filepath.Join(one.Dir, templateManifest), age)
	return one.Dir
}

// stock is a cache with what stays and what goes.
type stock struct {
	cache       string
	stay, goes  []string
	usual, old  Image
	foreign     Image
	usualInitrd string
}

func newStock(t *testing.T) stock {
	t.Helper()
	const hour, month = time.Hour, 30 * 24 * time.Hour
	s := stock{cache: t.TempDir()}
	kernel, err := ForKernel("linux-image-6.12-cloud-amd64")
	backport, err2 := ForKernel("linux-image-cloud-amd64/bookworm-backports")
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	own := Recipe{Name: Debian12.Name + "+own"}
	other := Recipe{Name: Debian12.Name, Suite: "other"}
	s.usual = named(t, s.cache, "aaaa000000000000", Debian12, hour)
	s.old = named(t, s.cache, "bbbb000000000000", Debian12, 2*month)
	s.foreign = named(t, s.cache, "cccc000000000000", other, month)
	six := named(t, s.cache, "dddd000000000000", kernel, hour)
	later := named(t, s.cache, "eeee000000000000", backport, hour)
	unknown := named(t, s.cache, "2222000000000000", Recipe{Name: Debian12.Name + "+6.12-cloud-amd64+other"}, hour)
	outdated := named(t, s.cache, "3333000000000000", Recipe{Name: kernel.Name, Suite: "other"}, month)
	mine := named(t, s.cache, "ffff000000000000", own, month)
	damaged := named(t, s.cache, "1111000000000000", kernel, month)
	if err := os.Truncate(damaged.Root, 2); err != nil {
		t.Fatal(err)
	}
	aged(t, damaged.Dir, month)
	s.usualInitrd = initrdFor(t, s.cache, s.usual, "agent")
	others := []string{
		initrdFor(t, s.cache, s.usual, "another agent"), initrdFor(t, s.cache, s.old, "agent"), initrdFor(t, s.cache, s.foreign, "agent"),
	}
	for path, age := range map[string]time.Duration{s.usualInitrd: hour, others[0]: hour, others[1]: month, others[2]: month} {
		aged(t, path, age) // making one removes those that are too old
	}
	unfinished := filepath.Join(imagesDir(s.cache), buildPrefix+"1")
	if err := os.Mkdir(unfinished, 0o755); err != nil {
		t.Fatal(err)
	}
	aged(t, unfinished, hour)
	s.stay = []string{s.usual.Dir, six.Dir, later.Dir, mine.Dir, unknown.Dir, s.usualInitrd, templateFor(t, s.cache, "t1", s.usualInitrd, s.usual, hour)}
	s.goes = append(others, s.old.Dir, outdated.Dir, s.foreign.Dir, damaged.Dir, unfinished,
		templateFor(t, s.cache, "t2", others[0], s.usual, hour), templateFor(t, s.cache, "t3", "", s.usual, hour), templateFor(t, s.cache, "t4", others[1], s.old, hour))
	return s
}

func (s stock) left(t *testing.T) (stays, gone []string) {
	t.Helper()
	for _, p := range slices.Concat(s.stay, s.goes) {
		if _, err := os.Lstat(p); errors.Is(err, fs.ErrNotExist) {
			gone = append(gone, p)
		} else {
			stays = append(stays, p)
		}
	}
	return stays, gone
}

func options() PruneOptions { return PruneOptions{Agent: sha256.Sum256([]byte("agent"))} }

func paths(list []Stale, kept bool) (out []string) {
	for _, s := range list {
		if (s.Kept != "") == kept {
			out = append(out, s.Path)
		}
	}
	return out
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestPrune(t *testing.T) {
	s := newStock(t)
	o := options()
	o.DryRun = true
	list, err := Prune(t.Context(), s.cache, o)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "to be removed", paths(list, false), s.goes)
	for _, one := range list {
		if one.Why == "" || one.Size == 0 && one.Kind != staleUnfinished {
			t.Errorf("%+v", one)
		}
	}
	if _, gone := s.left(t); len(gone) != 0 {
		t.Errorf("a dry run removed %v", gone)
	}
	if _, err := os.Stat(filepath.Join(s.cache, "images.lock")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a dry run made a lock: %v", err)
	}
	if _, err := Prune(t.Context(), s.cache, options()); err != nil {
		t.Fatal(err)
	}
	stays, gone := s.left(t)
	same(t, "removed", gone, s.goes)
	same(t, "left", stays, s.stay)
	if list, err := Prune(t.Context(), s.cache, options()); err != nil || len(list) != 0 {
		t.Errorf("a second time: %+v, %v", list, err)
	}
	if list, err := Prune(t.Context(), filepath.Join(s.cache, "nothing"), options()); err != nil || list != nil {
		t.Errorf("no cache: %v, %v", list, err)
	}
}

// What a lab uses stays, and with its image the templates that machines are made anew
// from; so does what a process has open, and what was asked for a moment ago.
func TestPruneLeavesWhatIsUsed(t *testing.T) {
	s := newStock(t)
	o := options()
	o.Using = func(path string) string {
		if path == s.old.Dir {
			return "demo"
		}
		return ""
	}
	open, err := os.Open(s.foreign.Root)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	aged(t, s.goes[0], time.Minute) // another agent's initramfs
	list, err := Prune(t.Context(), s.cache, o)
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]string{}
	for _, one := range list {
		reasons[one.Path] = one.Kept
	}
	t4 := s.goes[len(s.goes)-1]
	for path, want := range map[string]string{s.old.Dir: "lab demo", t4: "lab demo", s.foreign.Dir: "open", s.goes[0]: "just now"} {
		if !strings.Contains(reasons[path], want) {
			t.Errorf("%s is kept because %q, want %s", path, reasons[path], want)
		}
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	same(t, "kept", paths(list, true), []string{s.old.Dir, t4, s.foreign.Dir, s.goes[0]})
}

func TestPruneUnused(t *testing.T) {
	s := newStock(t)
	o := options()
	o.UnusedFor = 7 * 24 * time.Hour
	if _, err := Prune(t.Context(), s.cache, o); err != nil {
		t.Fatal(err)
	}
	_, gone := s.left(t)
	same(t, "gone", gone, append(slices.Clone(s.goes), s.stay[3])) // the own kernel's
}

// A build that goes on has the lock: its directory is not unfinished.
func TestPruneWaitsForABuild(t *testing.T) {
	s := newStock(t)
	release, err := acquire(t.Context(), s.cache, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 1)
	o := options()
	o.Progress = func(step string) { told <- step }
	done := make(chan error, 1)
	go func() {
		_, err := Prune(t.Context(), s.cache, o)
		done <- err
	}()
	if got := <-told; !strings.Contains(got, "waiting for process") {
		t.Errorf("told %q", got)
	}
	if _, gone := s.left(t); len(gone) != 0 {
		t.Errorf("removed under somebody else's lock: %v", gone)
	}
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestIsOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if isOpen(path) || isOpen(path+"none") {
		t.Error("nobody has it open")
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if !isOpen(path) {
		t.Error("a reader is not seen")
	}
	f.Close()
	if isOpen(path) {
		t.Error("still open after it was closed")
	}
}

func TestRecipeNamed(t *testing.T) {
	backport, err := ForKernel("linux-image-cloud-amd64/bookworm-backports")
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []Recipe{Debian12, backport} {
		for _, server := range []string{"", "nsd", "knot", "unbound"} {
			want, err := of.WithServer(server)
			if err != nil {
				t.Fatal(err)
			}
			if got, known := recipeNamed(want.Name); !known || got.digest() != want.digest() {
				t.Errorf("%s: %v, %s", want.Name, known, got.Name)
			}
		}
	}
	for _, name := range []string{"debian-12+own", "debian-12+own+nsd", "debian-12+named", "nsd", "+nsd", ""} {
		if r, known := recipeNamed(name); known {
			t.Errorf("%s is %s", name, r.Name)
		}
	}
}
