package images

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// UnfinishedTemplates returns the directories of templates whose making was
// killed. While one is being made there are none: whoever makes one has removed
// what earlier ones had left, under the same lock.
func UnfinishedTemplates(cacheDir string) ([]string, error) {
	var list []string
	err := ifIdle(cacheDir, func() (err error) {
		list, err = filepath.Glob(filepath.Join(templatesDir(cacheDir), buildPrefix+"*"))
		return err
	})
	return list, err
}

// SweepTemplates removes them. abandoned is called with each directory before,
// as by [BuildTemplate].
func SweepTemplates(cacheDir string, abandoned func(dir string) error) error {
	return ifIdle(cacheDir, func() error { return sweepTemplates(templatesDir(cacheDir), abandoned) })
}

// ifIdle runs fn under the lock of the templates, or not at all when somebody
// else has it. It makes no file.
func ifIdle(cacheDir string, fn func() error) error {
	f, err := os.Open(templatesLock(cacheDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no template was ever made here
	}
	if err != nil {
		return err
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return fn()
}

// CacheOf returns the cache that a directory given to Make lies in.
func CacheOf(dir string) string { return filepath.Dir(filepath.Dir(dir)) }
