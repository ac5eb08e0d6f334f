package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/diag"
)

// Options say where and how to build.
type Options struct {
	// CacheDir is where images are kept; "" means [DefaultCacheDir].
	CacheDir string
	// Progress hears a few words at the start of each step; nil is silence.
	Progress func(step string)
	// Refresh asks the package sources even when the cache has an image of
	// the recipe. When the versions have not changed, that image is returned.
	Refresh bool
}

func (o *Options) complete() error {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.CacheDir == "" {
		dir, err := DefaultCacheDir()
		if err != nil {
			return err
		}
		o.CacheDir = dir
	}
	dir, err := filepath.Abs(o.CacheDir)
	if err != nil {
		return fmt.Errorf("resolve the cache directory: %w", err)
	}
	o.CacheDir = dir
	return nil
}

// Build returns the image of a recipe, from the cache when it has one (1 ms,
// no network), else built (about 20 s). It is built under a lock and renamed
// into place, so others see it complete or not at all; whoever waited for the
// lock finds it in the cache. Causes that a person can cure are
// [*diag.Failure]s.
func Build(ctx context.Context, recipe Recipe, opts Options) (Image, error) {
	if err := opts.complete(); err != nil {
		return Image{}, err
	}
	digest := recipe.digest()
	if !opts.Refresh {
		if img, ok, err := find(opts.CacheDir, digest); ok || err != nil {
			return img, err
		}
	}
	if err := makeDir(imagesDir(opts.CacheDir)); err != nil {
		return Image{}, err
	}
	release, err := acquire(ctx, opts.CacheDir, opts.Progress)
	if err != nil {
		return Image{}, err
	}
	defer release()
	if !opts.Refresh {
		if img, ok, err := find(opts.CacheDir, digest); ok || err != nil {
			return img, err
		}
	}
	if err := sweepBuilds(imagesDir(opts.CacheDir)); err != nil {
		return Image{}, err
	}
	if err := errors.Join(checkTools(tools), checkSpace(opts.CacheDir, "an image", spaceNeeded)); err != nil {
		return Image{}, err
	}
	dir, err := os.MkdirTemp(imagesDir(opts.CacheDir), buildPrefix)
	if err != nil {
		return Image{}, fmt.Errorf("make a directory for the build: %w", err)
	}
	defer os.RemoveAll(dir)
	// apt's download user and the caller of sudo must be able to enter
	if err := os.Chmod(dir, 0o755); err != nil {
		return Image{}, err
	}
	return build(ctx, recipe, opts, dir)
}

// build does the work in an empty directory, holding the lock.
func build(ctx context.Context, recipe Recipe, opts Options, dir string) (Image, error) {
	opts.Progress("downloading and unpacking the packages of " + recipe.Name)
	root, packages, err := bootstrap(ctx, recipe, dir)
	if err != nil {
		return Image{}, err
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	img := Image{Name: recipe.Name, Recipe: recipe.digest(), Packages: packages, Created: now, Resolved: now}
	img.Key = imageKey(img.Recipe, packages)
	final := filepath.Join(imagesDir(opts.CacheDir), img.Name+"-"+img.Key)
	if old, err := load(final); err == nil {
		opts.Progress("the packages have not changed")
		old.Resolved = now
		return old, old.store(final)
	}
	k, err := recipe.kernel(root)
	if err != nil {
		return Image{}, err
	}
	img.KernelRelease, img.Schedulers = k.release, k.schedulers()
	out := filepath.Join(dir, "image")
	if err := os.Mkdir(out, 0o755); err != nil {
		return Image{}, err
	}
	opts.Progress("choosing what runs")
	t, err := rootTree(ctx, recipe, root, k, filepath.Join(dir, "modules"))
	if err != nil {
		return Image{}, err
	}
	opts.Progress("compressing the root")
	if err := writeFiles(ctx, recipe, t, k, out); err != nil {
		return Image{}, full(opts.CacheDir, err)
	}
	if err := errors.Join(img.seal(out), img.store(out)); err != nil {
		return Image{}, full(opts.CacheDir, err)
	}
	if err := publish(out, final); err != nil {
		return Image{}, err
	}
	img.locate(final)
	return img, nil
}

// writeFiles makes the three files of the image.
func writeFiles(ctx context.Context, recipe Recipe, t tree, k *kernelTree, out string) error {
	if err := squash(ctx, t, recipe.Epoch, filepath.Join(out, rootFile)); err != nil {
		return err
	}
	kernel, err := os.ReadFile(k.image)
	if err != nil {
		return fmt.Errorf("read the kernel: %w", err)
	}
	if err := os.WriteFile(filepath.Join(out, kernelFile), kernel, 0o644); err != nil {
		return err
	}
	return writeTo(filepath.Join(out, initrdFile), func(w io.Writer) error {
		if err := recipe.ownInitrd(w); err != nil {
			return err
		}
		return writeInitrd(ctx, w, recipe, t, k)
	})
}

// kernel returns the recipe's own kernel, else the one among the packages.
func (r Recipe) kernel(root string) (*kernelTree, error) {
	if r.Own != nil {
		return r.Own.open()
	}
	return openKernel(root)
}

// ownInitrd writes the user's archive, if any, and what brings the next one to a
// multiple of four.
func (r Recipe) ownInitrd(w io.Writer) error {
	if r.Own == nil || r.Own.initrd == "" {
		return nil
	}
	text, err := os.ReadFile(r.Own.initrd)
	if err != nil {
		return fmt.Errorf("read the initramfs: %w", err)
	}
	for len(text)%4 != 0 {
		text = append(text, 0)
	}
	_, err = w.Write(text)
	return err
}

func writeTo(path string, fill func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(fill(f), f.Close())
}

// publish renames a finished image into place. What stands there is damaged,
// else it would have been used.
func publish(out, final string) error {
	if err := os.RemoveAll(final); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a damaged image: %w", err)
	}
	// The umask of the caller must not hide the image from other users.
	for _, name := range []string{".", kernelFile, initrdFile, rootFile, manifestFile} {
		mode := fs.FileMode(0o644)
		if name == "." {
			mode = 0o755
		}
		if err := os.Chmod(filepath.Join(out, name), mode); err != nil {
			return err
		}
	}
	handOver(out)
	if err := os.Rename(out, final); err != nil {
		return fmt.Errorf("put the image into the cache: %w", err)
	}
	return nil
}

// full makes the error of a full disk one with a remedy.
func full(dir string, err error) error {
	// Whoever could not write a file has often removed it: then only the error
	// tells, and the one of another program only by its text.
	noSpace := errors.Is(err, unix.ENOSPC) || strings.Contains(strings.ToLower(err.Error()), unix.ENOSPC.Error())
	if noSpace || checkSpace(dir, "", 1<<20) != nil {
		return diag.Fail(err, "The disk is full", "Free some space, or set LVSLAB_CACHE to a directory on a larger disk.", "building in %s", dir)
	}
	return err
}
