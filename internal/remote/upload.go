package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/pkg/sftp"

	"github.com/lvslab/lvslab/internal/diag"
)

// File is a file of this machine by what is in it.
type File struct {
	Path   string
	SHA256 string // hexadecimal
	Size   int64  // bytes
}

// Measure reads a file and returns its sum and size.
func Measure(name string) (File, error) {
	f, err := os.Open(name)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	if err != nil {
		return File{}, fmt.Errorf("read %s: %w", name, err)
	}
	return File{name, hex.EncodeToString(sum.Sum(nil)), n}, nil
}

// slowest is the least speed at which an upload is waited for, bytes a second;
// every one has uploadLeast in any case.
const (
	slowest     = 256 << 10
	uploadLeast = time.Minute
)

// partMark begins the end of the name of a file that is not whole yet; who
// uploads it follows.
const partMark = ".part-"

// Put uploads a file unless it is there, and says whether it did. to must be a
// name that stands for the content (its digest is a part of it): a file of that
// name and size was checked when it was put there. It is written beside, read
// back, and renamed when its digest is right. by names the uploader; an upload
// that was interrupted is overwritten by his next one, and removed by
// [Host.RemoveParts].
func (h *Host) Put(ctx context.Context, f File, to, by string) (uploaded bool, err error) {
	switch info, err := h.Stat(ctx, to); {
	case err == nil && info.Size() == f.Size && info.Mode().IsRegular():
		return false, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	if err := h.MkdirAll(ctx, path.Dir(to)); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, uploadLeast+2*time.Duration(f.Size/slowest)*time.Second)
	defer cancel()
	part := to + partMark + by
	err = h.do(ctx, func(c *sftp.Client) error {
		if err := write(c, f.Path, part); err != nil {
			return err
		}
		if err := same(c, part, f); err != nil {
			return err
		}
		// One of the wrong size may be in its place: rename(2) replaces it.
		return named(c.PosixRename(part, to), to)
	})
	return err == nil, err
}

func write(c *sftp.Client, from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := c.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return named(err, to)
	}
	_, err = dst.ReadFromWithConcurrency(src, 0)
	if err == nil {
		err = dst.Chmod(0o644)
	}
	return named(errors.Join(err, dst.Close()), to)
}

// same reads a file back.
func same(c *sftp.Client, name string, want File) error {
	f, err := c.Open(name)
	if err != nil {
		return named(err, name)
	}
	defer f.Close()
	sum := sha256.New()
	n, err := f.WriteTo(sum)
	if err != nil {
		return named(err, name)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); n != want.Size || got != want.SHA256 {
		return diag.Fail(nil, "An upload arrived damaged", "Apply again; when it stays so, look at the host's disk and at the file here.",
			"%s has %d bytes and the digest %s, %s here has %d and %s", name, n, got[:12], want.Path, want.Size, want.SHA256[:12])
	}
	return nil
}

// RemoveParts removes what an interrupted upload of that uploader has left in a
// directory.
func (h *Host) RemoveParts(ctx context.Context, dir, by string) error {
	list, err := h.ReadDir(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, f := range list {
		if !strings.HasSuffix(f.Name(), partMark+by) {
			continue
		}
		if err := h.Remove(ctx, path.Join(dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
