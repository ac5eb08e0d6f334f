package operation

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/pkg/sftp"
)

// files is what cp needs of either side. Paths have slashes. Errors of what is
// missing are fs.ErrNotExist.
type files interface {
	Stat(path string) (fs.FileInfo, error) // follows links
	ReadDir(path string) ([]fs.FileInfo, error)
	Mkdir(path string) error // one that is there is fine
	Open(path string) (io.ReadCloser, error)
	Create(path string) (io.WriteCloser, error) // a new file
	Chmod(path string, mode fs.FileMode) error
	Rename(from, to string) error // over what is there
	Remove(path string) error
}

// hostFiles are the files of this machine.
type hostFiles struct{}

func (hostFiles) Stat(p string) (fs.FileInfo, error)      { return os.Stat(p) }
func (hostFiles) Open(p string) (io.ReadCloser, error)    { return os.Open(p) }
func (hostFiles) Chmod(p string, mode fs.FileMode) error  { return os.Chmod(p, mode) }
func (hostFiles) Rename(from, to string) error            { return os.Rename(from, to) }
func (hostFiles) Remove(p string) error                   { return os.Remove(p) }
func (hostFiles) Create(p string) (io.WriteCloser, error) { return create(p) }

func create(p string) (*os.File, error) {
	return os.OpenFile(filepath.FromSlash(p), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

func (hostFiles) Mkdir(p string) error { return os.MkdirAll(p, 0o755) }

func (hostFiles) ReadDir(p string) ([]fs.FileInfo, error) {
	list, err := os.ReadDir(p)
	if err != nil {
		return nil, err
	}
	out := make([]fs.FileInfo, len(list))
	for i, e := range list {
		if out[i], err = e.Info(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// nodeFiles are those of a guest.
type nodeFiles struct{ c *sftp.Client }

func (n nodeFiles) Stat(p string) (fs.FileInfo, error)      { return n.c.Stat(p) }
func (n nodeFiles) ReadDir(p string) ([]fs.FileInfo, error) { return n.c.ReadDir(p) }
func (n nodeFiles) Mkdir(p string) error                    { return n.c.MkdirAll(p) }
func (n nodeFiles) Open(p string) (io.ReadCloser, error)    { return n.c.Open(p) }
func (n nodeFiles) Chmod(p string, mode fs.FileMode) error  { return n.c.Chmod(p, mode) }
func (n nodeFiles) Rename(from, to string) error            { return n.c.PosixRename(from, to) }
func (n nodeFiles) Remove(p string) error                   { return n.c.Remove(p) }
func (n nodeFiles) Create(p string) (io.WriteCloser, error) {
	return n.c.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
}

// transfer copies one file under a name of its own beside the target, and renames
// it when it is complete.
func transfer(ctx context.Context, from, to end, mode fs.FileMode) error {
	in, err := from.files.Open(from.path)
	if err != nil {
		return err
	}
	defer in.Close()
	part := path.Join(path.Dir(to.path), ".lvslab-"+rand.Text()[:10])
	out, err := to.files.Create(part)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, untilDone{ctx, in})
	err = errors.Join(err, out.Close())
	if err == nil {
		err = to.files.Chmod(part, mode)
	}
	if err == nil {
		err = to.files.Rename(part, to.path)
	}
	if err != nil {
		_ = to.files.Remove(part)
	}
	return err
}

// untilDone ends a copy between two reads, so that the part can still be removed.
type untilDone struct {
	ctx context.Context
	in  io.Reader
}

// Read implements io.Reader.
func (u untilDone) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.in.Read(b)
}
