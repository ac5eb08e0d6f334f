package images

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/diag"
)

// DefaultCacheDir is where images are kept when nobody says otherwise:
// $LVSLAB_CACHE, else lvslab in the user's cache directory. Under sudo that is
// the directory of the user who called it, so that root and user share images.
func DefaultCacheDir() (string, error) {
	if dir := os.Getenv("LVSLAB_CACHE"); dir != "" {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return "", fmt.Errorf("resolve LVSLAB_CACHE=%s: %w", dir, err)
		}
		return abs, nil
	}
	if uid, _, ok := sudoCaller(); ok {
		u, err := user.LookupId(strconv.Itoa(uid))
		if err == nil && u.HomeDir != "" {
			return filepath.Join(u.HomeDir, ".cache", "lvslab"), nil
		}
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", diag.Fail(err, "No cache directory", "Set LVSLAB_CACHE to a directory with 1 GB of free space.",
			"neither LVSLAB_CACHE nor HOME says where images may be kept")
	}
	return filepath.Join(dir, "lvslab"), nil
}

// sudoCaller returns the user and group that called sudo.
func sudoCaller() (uid, gid int, ok bool) {
	if os.Geteuid() != 0 {
		return 0, 0, false
	}
	uid, err := strconv.Atoi(os.Getenv("SUDO_UID"))
	if err != nil || uid == 0 {
		return 0, 0, false
	}
	gid, err = strconv.Atoi(os.Getenv("SUDO_GID"))
	return uid, gid, err == nil
}

// handOver gives what was made below path to the user who called sudo. Errors
// are dropped: the image works all the same, only its removal needs root.
func handOver(path string) {
	uid, gid, ok := sudoCaller()
	if !ok {
		return
	}
	_ = filepath.WalkDir(path, func(p string, _ fs.DirEntry, err error) error {
		if err == nil {
			_ = os.Lchown(p, uid, gid)
		}
		return nil
	})
}

// makeDir creates a directory of the cache with its parents; the new ones
// belong to the caller of sudo.
func makeDir(dir string) error {
	var missing []string
	for p := dir; ; p = filepath.Dir(p) {
		if _, err := os.Lstat(p); err == nil || filepath.Dir(p) == p {
			break
		}
		missing = append(missing, p)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return diag.Fail(err, "Cannot create the image cache", "Set LVSLAB_CACHE to a directory that you may write to.", "%s", dir)
	}
	if uid, gid, ok := sudoCaller(); ok {
		for _, p := range missing {
			_ = os.Lchown(p, uid, gid)
		}
	}
	return nil
}

// imagesDir is where complete images stand, one directory each.
func imagesDir(cacheDir string) string { return filepath.Join(cacheDir, "images") }

// initrdsDir is where initramfs files with an agent stand.
func initrdsDir(cacheDir string) string { return filepath.Join(cacheDir, "initrds") }

// buildPrefix starts the names of unfinished directories in the cache. They
// are removed by whoever holds the lock next.
const buildPrefix = ".build-"

// spaceNeeded is what a build of the Debian recipe takes at its peak: 372 MB
// for the unpacked packages, package lists and archives, 55 MB for modules and
// image, and half as much again for recipes that ask for more.
const spaceNeeded = 640 << 20

// checkSpace refuses to start making something that would fill the disk.
func checkSpace(dir, what string, needed uint64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("ask for the free space of %s: %w", dir, err)
	}
	free := st.Bavail * uint64(st.Bsize)
	if free >= needed {
		return nil
	}
	return diag.Fail(unix.ENOSPC, "Not enough disk space for "+what,
		"Free some space, remove old images with `lvslab image rm`, or set LVSLAB_CACHE to a directory on a larger disk.",
		"%s has %d MiB free, making one takes up to %d MiB", dir, free>>20, needed>>20)
}

// sweepBuilds removes what interrupted builds left behind.
func sweepBuilds(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for unfinished builds: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), buildPrefix) {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return fmt.Errorf("remove an unfinished build: %w", err)
			}
		}
	}
	return nil
}
