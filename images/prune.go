package images

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Stale is something in the cache that this lvslab will not ask for again.
type Stale struct {
	Kind string `json:"kind"` // image, initramfs, template, seed, sum or unfinished
	Name string `json:"name"`
	Path string `json:"path"`
	Size int64  `json:"size"` // bytes that it takes on the disk
	Why  string `json:"why"`  // it is stale
	// Kept is why it stays all the same; "" = it goes.
	Kept string `json:"kept,omitempty"`

	used time.Time
	of   string // directory of the image that a template is of, "" else
}

// The kinds of stale things.
const (
	staleImage      = "image"
	staleInitrd     = "initramfs"
	staleTemplate   = "template"
	staleSeed       = "seed"
	staleSum        = "sum"
	staleUnfinished = "unfinished"
)

// justUsed is how long something stays after it was asked for: a lab that comes up
// has its paths and does not run yet.
const justUsed = 10 * time.Minute

// PruneOptions say what [Prune] removes.
type PruneOptions struct {
	// Agent is the SHA-256 of this program's agent.
	Agent [sha256.Size]byte
	// Using names the running lab that needs a file, or one below a directory; "" =
	// none does.
	Using func(path string) string
	// UnusedFor, unless 0, takes images and seeds in that no lab was started from for so
	// long.
	UnusedFor time.Duration
	// DryRun only says what would go.
	DryRun bool
	// Progress hears who is waited for; nil is silence.
	Progress func(string)
}

// Prune removes from a cache what no recipe of this program leads to: images of
// other recipes and such that newer ones have replaced, initramfs files with other
// agents, templates of either, seeds with other agents, what was noted of disks that
// are gone or have changed, unfinished builds. Of images whose recipe does not
// follow from their name, as with a kernel of the user's own, only replaced ones go.
// It returns all that is stale, and leaves what is in use. A cache that does not
// exist is empty.
func Prune(ctx context.Context, cacheDir string, o PruneOptions) ([]Stale, error) {
	if _, err := os.Stat(cacheDir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if !o.DryRun { // one who makes something has the lock, and then there is nothing unfinished
		for _, lock := range []func(context.Context, string, func(string)) (func(), error){acquire, lockTemplates} {
			release, err := lock(ctx, cacheDir, o.Progress)
			if err != nil {
				return nil, err
			}
			defer release()
		}
	}
	list, err := stale(cacheDir, o, time.Now())
	if err != nil || o.DryRun {
		return list, err
	}
	var failed []error
	for i, s := range list {
		if s.Kept != "" {
			continue
		}
		if err := s.remove(); err != nil {
			list[i].Kept = "it cannot be removed"
			failed = append(failed, fmt.Errorf("remove %s %s: %w", s.Kind, s.Name, err))
		}
	}
	return list, errors.Join(failed...)
}

// remove makes it go so that others see it whole or not at all.
func (s Stale) remove() error {
	switch s.Kind {
	case staleImage, staleTemplate:
		return dropTemplate(s.Path)
	case staleInitrd, staleSeed, staleSum:
		return os.Remove(s.Path)
	}
	return os.RemoveAll(s.Path)
}

// stale lists what this program does not ask for: images first, then what is made
// of them.
func stale(cacheDir string, o PruneOptions, now time.Time) ([]Stale, error) {
	out, keep, err := staleImages(cacheDir, o, now)
	if err != nil {
		return nil, err
	}
	for _, of := range []func(string, PruneOptions, []Image) ([]Stale, error){staleInitrds, staleTemplates, staleSeeds, staleSums} {
		more, err := of(cacheDir, o, keep)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	for i := range out {
		if out[i].Size, err = onDisk(out[i].Path); err != nil {
			return nil, err
		}
		out[i].Kept = out[i].inUse(o, now)
	}
	return out, nil
}

// inUse says why something must stay.
func (s Stale) inUse(o PruneOptions, now time.Time) string {
	if o.Using != nil {
		for _, path := range []string{s.Path, s.of} {
			if lab := o.Using(path); path != "" && lab != "" {
				return "lab " + lab + " uses it"
			}
		}
	}
	if ago := now.Sub(s.used); ago < justUsed {
		return "used just now"
	}
	open := false
	_ = filepath.WalkDir(s.Path, func(p string, d fs.DirEntry, err error) error {
		open = open || err == nil && d.Type().IsRegular() && isOpen(p)
		return nil
	})
	if open {
		return "a process has it open"
	}
	return ""
}

// onDisk is how many bytes a file or a directory takes.
func onDisk(path string) (n int64, err error) {
	err = filepath.WalkDir(path, func(p string, _ fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(p, &st)
		}
		if errors.Is(err, fs.ErrNotExist) { // it went while this looked
			return nil
		}
		n += st.Blocks * 512 // stat(2) counts in these
		return err
	})
	return n, err
}

// replaced reports whether an image is not the newest of its recipe.
func replaced(img Image, newestFirst []Image) bool {
	for _, other := range newestFirst {
		if other.Recipe == img.Recipe {
			return other.Key != img.Key
		}
	}
	return false
}

// outdated reports whether this program makes another image of that name. It says no
// where the recipe does not follow from the name, as with a kernel of the user's own.
func outdated(img Image) bool {
	r, known := recipeNamed(img.Name)
	return known && r.digest() != img.Recipe
}

// recipeNamed is the recipe that an image's name stands for: that of the usual guest,
// with the kernel of a package, whose name has + for the slash before a release, and
// with another name server, which comes last.
func recipeNamed(name string) (Recipe, bool) {
	for server := range servers {
		if rest, ok := strings.CutSuffix(name, "+"+server); ok {
			r, known := recipeNamed(rest)
			if !known {
				return Recipe{}, false
			}
			r, err := r.WithServer(server)
			return r, err == nil
		}
	}
	if name == Debian12.Name {
		return Debian12, true
	}
	kernel, ok := strings.CutPrefix(name, Debian12.Name+"+")
	if !ok {
		return Recipe{}, false
	}
	pkg, release, more := strings.Cut(kernel, "+")
	if !strings.HasSuffix(pkg, Debian12.Arch) || more && !strings.HasPrefix(release, Debian12.Suite) {
		return Recipe{}, false
	}
	if more {
		pkg += "/" + release
	}
	r, err := ForKernel("linux-image-" + pkg)
	return r, err == nil && r.Name == name
}
