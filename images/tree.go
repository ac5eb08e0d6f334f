package images

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
)

// entry is one file, directory or symbolic link of the root. A file's bytes
// are in data, or on disk at source when that is set.
type entry struct {
	mode   fs.FileMode // type and permission
	uid    int
	link   string
	source string
	data   []byte
}

// tree is a root file system in the making, by path without leading slash.
// Owners and times are decided here and not on disk, so no step needs root and
// nothing of the building machine gets in.
type tree map[string]entry

// mergedDirs are the directories that Debian 12 merged into usr; packages
// still ship files in both places.
var mergedDirs = []string{"bin", "sbin", "lib", "lib64"}

// merged moves a package's path to its place in the merged layout.
func merged(p string) string {
	top, _, _ := strings.Cut(p, "/")
	if contains(mergedDirs, top) {
		return "usr/" + p
	}
	return p
}

// scan reads an unpacked root, without what prune leaves out. Directories are
// not taken over: those that hold something come back with mode 0755.
// Permissions are brought to 0755 or 0644, so that neither the umask nor the
// user who unpacks matters; set-uid programs are of no use to a guest that
// runs as root.
func scan(root string, prune pruner) (tree, error) {
	t := tree{}
	err := filepath.WalkDir(root, func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, full)
		if err != nil || rel == "." {
			return err
		}
		p := merged(filepath.ToSlash(rel))
		if d.IsDir() {
			if prune.matches(p + "/") {
				return filepath.SkipDir
			}
			return nil
		}
		if prune.matches(p) {
			return nil
		}
		return t.take(p, full, d)
	})
	if err != nil {
		return nil, fmt.Errorf("read the unpacked packages: %w", err)
	}
	return t, nil
}

// take adds one file or link. Where both halves of the old layout bring the
// same name (/bin/ip, and /sbin/ip as a link to it), the file wins.
func (t tree) take(p, full string, d fs.DirEntry) error {
	switch d.Type() {
	case 0:
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if info.Mode()&0o111 != 0 {
			mode = 0o755
		}
		t[p] = entry{mode: mode, source: full}
	case fs.ModeSymlink:
		target, err := os.Readlink(full)
		if err != nil {
			return err
		}
		if _, taken := t[p]; !taken && t.resolve(p, target) != p {
			t[p] = entry{mode: fs.ModeSymlink | 0o777, link: target}
		}
	}
	return nil // devices and sockets are not the packages' business
}

// resolve returns the path in the merged layout to which a link at p points.
func (t tree) resolve(p, target string) string {
	if !path.IsAbs(target) {
		target = path.Join("/", path.Dir(p), target)
	}
	return merged(strings.TrimPrefix(path.Clean(target), "/"))
}

// follow returns the entry at p after links, and false for a loop or nothing.
func (t tree) follow(p string) (string, entry, bool) {
	for range 16 {
		e, ok := t[p]
		if !ok || e.mode.Type() != fs.ModeSymlink {
			return p, e, ok
		}
		p = t.resolve(p, e.link)
	}
	return p, entry{}, false
}

// dropDangling removes links whose target was pruned.
func (t tree) dropDangling() {
	for again := true; again; {
		again = false
		for p, e := range t {
			if e.mode.Type() != fs.ModeSymlink {
				continue
			}
			if _, _, ok := t.follow(p); !ok {
				delete(t, p)
				again = true
			}
		}
	}
}

// addParents puts in the directories that the entries need.
func (t tree) addParents() {
	for p := range t {
		for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
			if _, ok := t[dir]; !ok {
				t[dir] = entry{mode: fs.ModeDir | 0o755}
			}
		}
	}
}

// paths returns all paths in order; a directory comes before what it holds.
func (t tree) paths() []string {
	list := make([]string, 0, len(t))
	for p := range t {
		list = append(list, p)
	}
	sort.Strings(list)
	return list
}

// content returns a file's bytes.
func (e entry) content() ([]byte, error) {
	if e.source == "" {
		return e.data, nil
	}
	return os.ReadFile(e.source)
}

// pruner decides what of the packages stays out.
type pruner struct {
	dirs  []string
	globs []string
}

// newPruner reads a recipe's list. A glob that cannot be read is an error.
func newPruner(patterns []string) (pruner, error) {
	var pr pruner
	for _, pattern := range patterns {
		if strings.HasSuffix(pattern, "/") {
			pr.dirs = append(pr.dirs, pattern)
			continue
		}
		if _, err := path.Match(pattern, ""); err != nil {
			return pr, fmt.Errorf("recipe prunes %q: %w", pattern, err)
		}
		pr.globs = append(pr.globs, pattern)
	}
	return pr, nil
}

// matches reports whether a path stays out; a directory is given with its slash.
func (pr pruner) matches(p string) bool {
	for _, dir := range pr.dirs {
		if strings.HasPrefix(p, dir) {
			return true
		}
	}
	for _, glob := range pr.globs {
		if ok, _ := path.Match(glob, p); ok {
			return true
		}
	}
	return false
}
