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
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Template is a machine of an image that was booted once and saved before it
// was given an identity; machines of labs are clones of it. This package keeps
// it and does not know what is in the file.
type Template struct {
	// Key is the digest of all that the saved machine depends on, 16
	// hexadecimal digits.
	Key string `json:"key"`
	// Image is the key of the image.
	Image string `json:"image"`
	// Initramfs is the name of the initramfs that it was booted with, "" in one that
	// was made before this was noted.
	Initramfs string `json:"initramfs,omitempty"`
	// Memory is the machine's, bytes. Accelerator is kvm or tcg.
	Memory      int64  `json:"memory"`
	Accelerator string `json:"accelerator"`
	// Running is what was started in it, "" for a machine that has only booted.
	Running string `json:"running,omitempty"`
	// Size is the length of the file in bytes, Sum its SHA-256.
	Size int64  `json:"size"`
	Sum  string `json:"sha256"`
	// Seen is what stat(2) said of the file when its sum was last found right.
	Seen string `json:"seen"`
	// Created is when it was saved; Used, not stored, when it was last asked for.
	Created time.Time `json:"created"`
	Used    time.Time `json:"-"`
	// Dir and Path are the directory and the file, absolute; not stored.
	Dir  string `json:"-"`
	Path string `json:"-"`
}

// Names of the files in a template's directory.
const (
	memoryFile       = "memory"
	templateManifest = "template.json"
)

// How long a template stays without being asked for, and how many stay: each
// build of lvslab brings an agent of its own and so templates of its own, of
// 95 MB each.
const (
	templateAge  = 7 * 24 * time.Hour
	templateMost = 6
)

// templateSpare is the disk space wanted beyond twice the machine's memory,
// which is what saving takes at most: it is written whole, then without zeros.
const templateSpare = 64 << 20

func templatesDir(cacheDir string) string { return filepath.Join(cacheDir, "templates") }

func (t *Template) locate(cacheDir string) {
	t.Dir = filepath.Join(templatesDir(cacheDir), t.Image+"-"+t.Key)
	t.Path = filepath.Join(t.Dir, memoryFile)
}

// FindTemplate returns a template of the cache, and whether there is one. One
// whose file is not what was stored is an error that wraps [ErrDamaged]. The
// sum is computed (0.3 s for 95 MB) only when the file's size, times or inode
// are others than when it was last found right; nothing can write to a file
// and leave its change time as it was.
func FindTemplate(cacheDir, image, key string) (Template, bool, error) {
	t := Template{Image: image, Key: key}
	t.locate(cacheDir)
	t, err := loadTemplate(t.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Template{}, false, nil
	}
	if err != nil {
		return Template{}, false, err
	}
	seen, err := statLine(t.Path)
	if err != nil {
		return Template{}, false, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if seen != t.Seen {
		sum, size, err := sumFile(t.Path)
		if err != nil {
			return Template{}, false, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		if sum != t.Sum {
			return Template{}, false, fmt.Errorf("%w: %s has %d bytes with the sum %.12s…, recorded are %d with %.12s…", ErrDamaged, t.Path, size, sum, t.Size, t.Sum)
		}
		t.Seen = seen
		_ = t.store(t.Dir) // else it is computed again
	}
	now := time.Now()
	_ = os.Chtimes(filepath.Join(t.Dir, templateManifest), now, now)
	return t, true, nil
}

// ErrDamaged is wrapped when a file of the cache is not what was stored there.
var ErrDamaged = errors.New("damaged")

func loadTemplate(dir string) (Template, error) {
	var t Template
	path := filepath.Join(dir, templateManifest)
	text, err := os.ReadFile(path)
	if err != nil {
		return t, err
	}
	if err := json.Unmarshal(text, &t); err != nil {
		return t, fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	t.Dir, t.Path = dir, filepath.Join(dir, memoryFile)
	if info, err := os.Stat(path); err == nil {
		t.Used = info.ModTime()
	}
	return t, nil
}

func (t Template) store(dir string) error {
	text, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(dir, templateManifest), append(text, '\n'))
}

// statLine is what changes when a file is written to or replaced.
func statLine(path string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return "", &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return fmt.Sprintf("%d %d %d.%09d %d.%09d", st.Ino, st.Size, st.Mtim.Sec, st.Mtim.Nsec, st.Ctim.Sec, st.Ctim.Nsec), nil
}

func sumFile(path string) (string, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), n, err
}

// TemplateOptions say how [BuildTemplate] makes one.
type TemplateOptions struct {
	CacheDir string
	// Progress hears a few words at the start of each step; nil is silence.
	Progress func(step string)
	// Make boots the machine and saves it to path. It may use the directory as
	// it likes; all else in it is thrown away.
	Make func(ctx context.Context, dir, path string) error
	// Abandoned is called with the directory of a Make that was killed, before
	// it is removed.
	Abandoned func(dir string) error
}

// BuildTemplate returns the template t (Key, Image, Memory and Accelerator are
// given), from the cache or made. It is made under a lock, and others see it
// complete or not at all; whoever waited for the lock finds it in the cache. A
// damaged one is replaced.
func BuildTemplate(ctx context.Context, t Template, o TemplateOptions) (Template, error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	root := templatesDir(o.CacheDir)
	if err := makeDir(root); err != nil {
		return Template{}, err
	}
	release, err := lockTemplates(ctx, o.CacheDir, o.Progress)
	if err != nil {
		return Template{}, err
	}
	defer release()
	if old, ok, err := FindTemplate(o.CacheDir, t.Image, t.Key); ok && err == nil {
		return old, nil
	}
	if err := sweepTemplates(root, o.Abandoned); err != nil {
		// It stays until it can be ended, for example when its libvirt runs again.
		o.Progress("an earlier template is left unfinished: " + err.Error())
	}
	pruneTemplates(o.CacheDir, time.Now())
	if err := checkSpace(root, "a template", 2*uint64(t.Memory)+templateSpare); err != nil {
		return Template{}, err
	}
	dir, err := os.MkdirTemp(root, buildPrefix)
	if err != nil {
		return Template{}, fmt.Errorf("make a directory for the template: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // QEMU may run as another user
		return Template{}, err
	}
	path := filepath.Join(dir, memoryFile)
	if err := o.Make(ctx, dir, path); err != nil {
		return Template{}, full(o.CacheDir, err)
	}
	return t, t.publish(o.CacheDir, dir, path)
}

// publish syncs the file and what is known about it and renames them into place.
func (t *Template) publish(cacheDir, dir, path string) error {
	out := filepath.Join(dir, "out")
	if err := os.Mkdir(out, 0o755); err != nil {
		return err
	}
	if err := os.Rename(path, filepath.Join(out, memoryFile)); err != nil {
		return fmt.Errorf("put the template into the cache: %w", err)
	}
	handOver(out)
	err := errors.Join(os.Chmod(filepath.Join(out, memoryFile), 0o644), syncPath(filepath.Join(out, memoryFile)))
	if err != nil {
		return err
	}
	t.Created = time.Now().UTC().Truncate(time.Millisecond)
	if t.Sum, t.Size, err = sumFile(filepath.Join(out, memoryFile)); err != nil {
		return err
	}
	if t.Seen, err = statLine(filepath.Join(out, memoryFile)); err != nil {
		return err
	}
	if err := errors.Join(t.store(out), syncPath(filepath.Join(out, templateManifest)), syncPath(out)); err != nil {
		return err
	}
	t.locate(cacheDir)
	if err := dropTemplate(t.Dir); err != nil {
		return fmt.Errorf("remove a damaged template: %w", err)
	}
	if err := os.Rename(out, t.Dir); err != nil {
		return fmt.Errorf("put the template into the cache: %w", err)
	}
	return syncPath(templatesDir(cacheDir))
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// sweepTemplates removes what interrupted builds left behind, but not under
// those that cannot be ended.
func sweepTemplates(root string, abandoned func(dir string) error) error {
	left, err := filepath.Glob(filepath.Join(root, buildPrefix+"*"))
	if err != nil {
		return err
	}
	var failed []error
	for _, dir := range left {
		if abandoned != nil {
			if err := abandoned(dir); err != nil {
				failed = append(failed, fmt.Errorf("end an interrupted build: %w", err))
				continue
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			failed = append(failed, fmt.Errorf("remove an unfinished template: %w", err))
		}
	}
	return errors.Join(failed...)
}

// pruneTemplates makes room for one more. A clone that is being made keeps the
// file open, and one that was just looked up is among the last used.
func pruneTemplates(cacheDir string, now time.Time) {
	list, err := Templates(cacheDir)
	if err != nil {
		return
	}
	slices.SortFunc(list, func(a, b Template) int { return b.Used.Compare(a.Used) })
	for i, t := range list {
		if i >= templateMost-1 || now.Sub(t.Used) > templateAge {
			_ = dropTemplate(t.Dir) // tried again by the next build
		}
	}
}

// dropTemplate removes a template so that others see it complete or not at
// all. What is there under the name of the trash is from a removal that was
// killed.
func dropTemplate(dir string) error {
	trash := filepath.Join(filepath.Dir(dir), buildPrefix+"rm-"+filepath.Base(dir))
	if err := os.RemoveAll(trash); err != nil {
		return err
	}
	if err := os.Rename(dir, trash); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(trash)
}

// Templates returns the templates in a cache, newest first. A cache that does
// not exist is empty.
func Templates(cacheDir string) ([]Template, error) {
	list, err := whole(templatesDir(cacheDir), loadTemplate)
	if err != nil {
		return nil, fmt.Errorf("list templates: %w", err)
	}
	slices.SortFunc(list, func(a, b Template) int { return b.Created.Compare(a.Created) })
	return list, nil
}

// removeTemplates removes the templates of an image.
func removeTemplates(ctx context.Context, cacheDir, image string) error {
	dirs, err := filepath.Glob(filepath.Join(templatesDir(cacheDir), image+"-*"))
	if err != nil || len(dirs) == 0 {
		return err
	}
	release, err := lockTemplates(ctx, cacheDir, func(string) {})
	if err != nil {
		return err
	}
	defer release()
	for _, dir := range dirs {
		if err := dropTemplate(dir); err != nil {
			return fmt.Errorf("remove a template of image %s: %w", image, err)
		}
	}
	return nil
}

func lockTemplates(ctx context.Context, cacheDir string, progress func(string)) (func(), error) {
	return acquireFile(ctx, templatesLock(cacheDir), "template", progress)
}

func templatesLock(cacheDir string) string { return filepath.Join(cacheDir, "templates.lock") }

// TemplateKey digests what a saved machine depends on.
func TemplateKey(parts ...string) string {
	sum := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(sum, "%d\n%s\n", len(p), p)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}
