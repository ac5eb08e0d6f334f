package images

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// disksIn gives a cache what disks of the user's leave there: of one that stays, one
// that has changed, and one that is gone; the first stands on another.
func disksIn(t *testing.T, cache string) (stay, goes []string) {
	t.Helper()
	disks := t.TempDir()
	raw := func(name string) string {
		sector := make([]byte, 1024)
		copy(sector, name)
		copy(sector[510:], "\x55\xaa")
		path := filepath.Join(disks, name)
		if err := os.WriteFile(path, sector, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	base := raw("base.raw")
	upper := filepath.Join(disks, "upper.qcow2")
	if err := os.WriteFile(upper, []byte(qcow2File(filepath.Base(base))), 0o644); err != nil {
		t.Fatal(err)
	}
	before := func() []string { all, _ := filepath.Glob(filepath.Join(sumsDir(cache), "*")); return all }
	for _, path := range []string{upper, raw("changed.raw"), raw("gone.raw")} {
		d, err := OpenDisk(t.Context(), path, cache)
		if err != nil {
			t.Fatal(err)
		}
		NoteKernel(d, "6.1.0", cache)
		if path == upper {
			stay = before()
		}
	}
	for _, p := range before() {
		if !slices.Contains(stay, p) {
			goes = append(goes, p)
		}
	}
	if err := errors.Join(os.WriteFile(filepath.Join(disks, "changed.raw"), []byte("other"), 0o644), os.Remove(filepath.Join(disks, "gone.raw"))); err != nil {
		t.Fatal(err)
	}
	if len(stay) != 3 || len(goes) != 4 {
		t.Fatalf("%v, %v: want the sums of 4 files and 3 kernels", stay, goes)
	}
	for _, agent := range []string{"agent", "another agent"} {
		seed, err := Seed(t.Context(), []byte(agent), cache)
		if err != nil {
			t.Fatal(err)
		}
		if agent == "agent" {
			stay = append(stay, seed)
		} else {
			goes = append(goes, seed)
		}
	}
	torn, half := filepath.Join(seedsDir(cache), buildPrefix+"7"), filepath.Join(sumsDir(cache), buildPrefix+"8")
	damaged := filepath.Join(sumsDir(cache), "0011223344556677.json")
	if err := errors.Join(os.Mkdir(torn, 0o755), os.WriteFile(half, []byte("{"), 0o600), os.WriteFile(damaged, []byte("{"), 0o600)); err != nil {
		t.Fatal(err)
	}
	goes = append(goes, torn, half, damaged)
	for _, p := range slices.Concat(stay, goes) {
		aged(t, p, time.Hour)
	}
	return stay, goes
}

func TestPruneOfDisks(t *testing.T) {
	s := stock{cache: t.TempDir()} // of one who has no other images
	s.stay, s.goes = disksIn(t, s.cache)
	busy := s.goes[len(s.goes)-3]
	aged(t, busy, time.Minute) // a seed in the making
	list, err := Prune(t.Context(), s.cache, options())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "kept", paths(list, true), []string{busy})
	stays, gone := s.left(t)
	same(t, "left", stays, append(slices.Clone(s.stay), busy))
	same(t, "removed", gone, slices.DeleteFunc(s.goes, func(p string) bool { return p == busy }))
	o := options()
	o.UnusedFor = 30 * time.Minute
	if list, err = Prune(t.Context(), s.cache, o); err != nil {
		t.Fatal(err)
	}
	same(t, "unused", paths(list, false), []string{SeedPath(o.Agent, s.cache)})
}
