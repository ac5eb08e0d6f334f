package artifact

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/lvslab/lvslab/internal/diag"
)

// checkSegment refuses names that cannot be one safe path segment.
func checkSegment(what, name string) error {
	if name == "" || name == "." || name == ".." || len(name) > 200 ||
		strings.ContainsAny(name, "/\\\x00\n\r") {
		return fmt.Errorf("%s %q cannot be a file name", what, name)
	}
	return nil
}

// checkRelative refuses paths that leave the directory they are relative to.
func checkRelative(name string) error {
	if !filepath.IsLocal(name) || filepath.ToSlash(filepath.Clean(name)) != name || strings.ContainsAny(name, "\\\x00\n\r") {
		return fmt.Errorf("path %q does not stay inside the result", name)
	}
	return nil
}

// makeDirs creates dir and the missing parents, gives the new ones to the
// owner and syncs the directory that holds each new entry.
func makeDirs(dir string, owner *Owner) error {
	if fi, err := os.Stat(dir); err == nil {
		if !fi.IsDir() {
			return &os.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
		}
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeDirs(parent, owner); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := owner.take(dir); err != nil {
		return err
	}
	return syncDir(parent)
}

// writeFile writes a file that must not exist yet and syncs it. A failure
// leaves no file, so that the same name can be written again.
func writeFile(path string, data []byte, owner *Owner) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			os.Remove(path) // the first error is the one to tell
		}
	}()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := owner.take(path); err != nil {
		return err
	}
	return f.Sync()
}

// newSuffix ends the name of a file that is about to replace another.
const newSuffix = ".new"

// newFile is a file of a directory by name and content.
type newFile struct {
	name string
	data []byte
}

// replaceFiles writes the files under temporary names, syncs them and renames
// them into place one right after the other, so that a reader sees the old or
// the new content of each, never a part. A failure leaves no temporary file.
func replaceFiles(dir string, owner *Owner, files ...newFile) (err error) {
	defer func() {
		for _, f := range files {
			if err != nil {
				os.Remove(filepath.Join(dir, f.name+newSuffix)) // may not be there
			}
		}
	}()
	for _, f := range files {
		tmp := filepath.Join(dir, f.name+newSuffix)
		if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := writeFile(tmp, f.data, owner); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := os.Rename(filepath.Join(dir, f.name+newSuffix), filepath.Join(dir, f.name)); err != nil {
			return err
		}
	}
	return syncDir(dir)
}

// syncDir makes renames and new entries of a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// replaceLink points link at target by rename, so that it exists at all times.
func replaceLink(link, target string, owner *Owner) error {
	tmp := link + newSuffix
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(target, tmp); err != nil {
		return err
	}
	if err := owner.take(tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, link); err != nil {
		return err
	}
	return syncDir(filepath.Dir(link))
}

// explain turns an error of the file system whose cause has a known cure into
// a *diag.Failure; others are wrapped with what was being done.
func explain(err error, doing string, dir string) error {
	if err == nil {
		return nil
	}
	var known *diag.Failure
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, io.ErrShortWrite):
		return diag.Fail(diag.Told(err), "No space left for results",
			"Free some space there or choose another place with --results, then apply again.",
			"While %s in %s the file system was full. What was written stays in the .partial directory.", doing, dir)
	case errors.Is(err, syscall.EDQUOT):
		return diag.Fail(diag.Told(err), "Disk quota used up by results",
			"Remove old results, raise the quota, or choose another place with --results.",
			"While %s in %s the quota was exceeded. What was written stays in the .partial directory.", doing, dir)
	case errors.Is(err, syscall.EROFS), errors.Is(err, os.ErrPermission):
		return diag.Fail(err, "Results cannot be written",
			"Choose a place that you may write to with --results.",
			"While %s in %s writing was refused.", doing, dir)
	case errors.Is(err, syscall.ENOTDIR):
		return diag.Fail(err, "Results cannot be written",
			"Move that file away or choose another place with --results.",
			"While %s in %s a file was found where a directory belongs.", doing, dir)
	}
	return fmt.Errorf("%s in %s: %w", doing, dir, err)
}
