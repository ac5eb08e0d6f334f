package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/lvslab/lvslab/internal/diag"
)

// Names of the files in an image's directory.
const (
	kernelFile   = "vmlinuz"
	initrdFile   = "initramfs.cpio"
	rootFile     = "root.squashfs"
	manifestFile = "image.json"
)

// Image is a built guest image in the cache.
type Image struct {
	// Name is the recipe's name.
	Name string `json:"name"`
	// Key is the content key of the recipe with its package versions, 16
	// hexadecimal digits.
	Key string `json:"key"`
	// Recipe is the digest of the recipe that made it.
	Recipe string `json:"recipe"`
	// Dir, Kernel, Initrd and Root are absolute paths: the directory, the
	// kernel (bzImage), the initramfs without agent (uncompressed cpio) and the
	// root (squashfs). They are not stored: a cache may be moved.
	Dir    string `json:"-"`
	Kernel string `json:"-"`
	Initrd string `json:"-"`
	Root   string `json:"-"`
	// KernelRelease is what `uname -r` says in the guest.
	KernelRelease string `json:"kernel_release"`
	// Schedulers are those of IPVS that the kernel has, sorted; none in the
	// manifest of an image that was built before they were noted.
	Schedulers []string `json:"schedulers,omitempty"`
	// Packages are the versions of what is inside, by package name.
	Packages map[string]string `json:"packages"`
	// Files are the SHA-256 sums of the three files, by file name.
	Files map[string]string `json:"files"`
	// Sizes are the lengths of the three files in bytes, by file name.
	Sizes map[string]int64 `json:"sizes"`
	// Digest identifies the whole: SHA-256 over the sums of the three files.
	Digest string `json:"digest"`
	// Size is the sum of Sizes in bytes.
	Size int64 `json:"size"`
	// Created is when the image was built.
	Created time.Time `json:"created"`
	// Resolved is when the package sources last led to this image. Of several
	// images of one recipe the one with the latest is used.
	Resolved time.Time `json:"resolved"`
}

// locate fills in the paths.
func (img *Image) locate(dir string) {
	img.Dir = dir
	img.Kernel = filepath.Join(dir, kernelFile)
	img.Initrd = filepath.Join(dir, initrdFile)
	img.Root = filepath.Join(dir, rootFile)
}

// seal computes sums, sizes and digest of the files in the directory.
func (img *Image) seal(dir string) error {
	img.Files, img.Sizes, img.Size = map[string]string{}, map[string]int64{}, 0
	all := sha256.New()
	for _, name := range []string{kernelFile, initrdFile, rootFile} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		h := sha256.New()
		n, err := io.Copy(h, f)
		f.Close()
		if err != nil {
			return fmt.Errorf("sum %s: %w", name, err)
		}
		sum := hex.EncodeToString(h.Sum(nil))
		img.Files[name], img.Sizes[name] = sum, n
		img.Size += n
		fmt.Fprintf(all, "%s  %s\n", sum, name)
	}
	img.Digest = hex.EncodeToString(all.Sum(nil))
	return nil
}

// store writes the manifest, by renaming.
func (img *Image) store(dir string) error {
	text, err := json.MarshalIndent(img, "", "  ")
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, manifestFile+".new")
	if err := os.WriteFile(tmp, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the image's manifest: %w", err)
	}
	return os.Rename(tmp, filepath.Join(dir, manifestFile))
}

// load reads an image directory. An image whose files lack or have another
// length than recorded is an error; their sums are checked by [Image.Verify],
// which takes longer than a cached image may.
func load(dir string) (Image, error) {
	var img Image
	text, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err != nil {
		return img, err
	}
	if err := json.Unmarshal(text, &img); err != nil {
		return img, fmt.Errorf("read %s: %w", filepath.Join(dir, manifestFile), err)
	}
	img.locate(dir)
	for _, name := range []string{kernelFile, initrdFile, rootFile} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return img, err
		}
		if info.Size() != img.Sizes[name] {
			return img, damaged(img, fmt.Errorf("%s has %d bytes, recorded are %d", name, info.Size(), img.Sizes[name]))
		}
	}
	return img, nil
}

// KernelVersion is the version of the kernel's package, 6.1.192-3, by which Debian
// tells what the release does not; "" for a kernel that is no package.
func (img Image) KernelVersion() string { return img.Packages["linux-image-"+img.KernelRelease] }

// Verify reads the files and compares their sums with the recorded ones.
func (img Image) Verify() error {
	now := img
	if err := now.seal(img.Dir); err != nil {
		return damaged(img, err)
	}
	for _, name := range []string{kernelFile, initrdFile, rootFile} {
		if now.Files[name] != img.Files[name] {
			return damaged(img, fmt.Errorf("%s has the sum %.12s…, recorded is %.12s…", name, now.Files[name], img.Files[name]))
		}
	}
	return nil
}

func damaged(img Image, err error) error {
	return diag.Fail(err, "A cached image is damaged",
		fmt.Sprintf("Remove it with `lvslab image rm %s`; the next apply builds it again.", img.Key), "%s", img.Dir)
}

// List returns the images in a cache, newest first. Directories that hold no
// complete image are passed over. A cache that does not exist is empty.
func List(cacheDir string) ([]Image, error) {
	list, err := whole(imagesDir(cacheDir), load)
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	sort.Slice(list, func(i, j int) bool {
		if !list[i].Resolved.Equal(list[j].Resolved) {
			return list[i].Resolved.After(list[j].Resolved)
		}
		return list[i].Key < list[j].Key
	})
	return list, nil
}

// whole loads every directory below dir that is complete, in the order of their
// names: those that are being built or removed begin with a dot.
func whole[T any](dir string, load func(string) (T, error)) ([]T, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []T
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || !e.IsDir() {
			continue
		}
		if v, err := load(filepath.Join(dir, e.Name())); err == nil {
			list = append(list, v)
		}
	}
	return list, nil
}

// Cached returns the newest image of a recipe in a cache, and whether there is
// one. It builds nothing and asks no network.
func Cached(recipe Recipe, cacheDir string) (Image, bool, error) {
	return find(cacheDir, recipe.digest())
}

// find returns the newest image of a recipe.
func find(cacheDir, recipeDigest string) (Image, bool, error) {
	list, err := List(cacheDir)
	if err != nil {
		return Image{}, false, err
	}
	for _, img := range list {
		if img.Recipe == recipeDigest {
			return img, true, nil
		}
	}
	return Image{}, false, nil
}

// Remove deletes an image, named by its key or the start of it, and the
// initramfs files made from it. A lab that runs on the image keeps its open
// files and goes on, but cannot start another VM from it.
func Remove(ctx context.Context, cacheDir, key string) error {
	dirs, err := matching(cacheDir, key)
	if err != nil {
		return err
	}
	release, err := acquire(ctx, cacheDir, func(string) {})
	if err != nil {
		return err
	}
	defer release()
	for _, name := range dirs {
		dir := filepath.Join(imagesDir(cacheDir), name)
		trash := filepath.Join(imagesDir(cacheDir), buildPrefix+"rm-"+name)
		if err := os.Rename(dir, trash); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove image %s: %w", key, err)
		}
		if err := os.RemoveAll(trash); err != nil {
			return fmt.Errorf("remove image %s: %w", key, err)
		}
		full := name[strings.LastIndex(name, "-")+1:]
		initrds, _ := filepath.Glob(filepath.Join(initrdsDir(cacheDir), full+"-*"))
		for _, path := range initrds {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove an initramfs of image %s: %w", key, err)
			}
		}
		if err := removeTemplates(ctx, cacheDir, full); err != nil {
			return err
		}
	}
	return nil
}

// matching returns the one directory whose key starts with key. Damaged
// images can be removed too, so the names decide and not the manifests.
func matching(cacheDir, key string) ([]string, error) {
	entries, err := os.ReadDir(imagesDir(cacheDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list images: %w", err)
	}
	var found, keys []string
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") {
			continue
		}
		k := name[strings.LastIndex(name, "-")+1:]
		keys = append(keys, k)
		if key != "" && (strings.HasPrefix(k, key) || name == key) {
			found = append(found, name)
		}
	}
	have := "the cache is empty"
	if len(keys) > 0 {
		have = "the cache holds " + strings.Join(keys, ", ")
	}
	switch len(found) {
	case 1:
		return found, nil
	case 0:
		return nil, diag.Fail(fs.ErrNotExist, "No such image", "See `lvslab image list` for the keys.", "no key starts with %q; %s", key, have)
	default:
		return nil, diag.Fail(nil, "More than one image meant", "Give more of the key.", "%q is the start of several keys; %s", key, have)
	}
}
