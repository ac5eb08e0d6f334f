package state

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// files is what durable writing needs from a file system. Tests put a disk in
// its place that loses at a crash whatever was not synced.
type files interface {
	// create makes a new file and fails when there is one.
	create(path string, perm fs.FileMode) (file, error)
	// extend opens a file for appending after its first size bytes; the rest is
	// cut off. A missing one is made.
	extend(path string, size int64, perm fs.FileMode) (file, error)
	read(path string) ([]byte, error)
	rename(from, to string) error
	link(from, to string) error
	remove(path string) error
	// makeDir makes the directory and its missing parents, durably.
	makeDir(path string, perm fs.FileMode) error
	syncDir(dir string) error
	// list returns the names in a directory in order, none when it is missing.
	list(dir string) ([]string, error)
}

type file interface {
	io.WriteCloser
	Sync() error
	// Truncate cuts the file; what is written next follows at its new end.
	Truncate(size int64) error
}

// writeFile replaces path as a whole: after a crash at any point it holds the
// old content or the new one, and once it has returned the new one. The
// temporary file lies beside it because a rename does not cross file systems.
func writeFile(fsys files, path string, data []byte, perm fs.FileMode) (err error) {
	tmp := path + ".new"
	// Left over by a crash: the lock is held, so nobody is writing it now.
	if err := fsys.remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := fsys.create(tmp, perm)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreMissing(fsys.remove(tmp)))
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err := fsys.rename(tmp, path); err != nil {
		return err
	}
	return fsys.syncDir(filepath.Dir(path))
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// disk is the real file system.
type disk struct{}

var _ files = disk{}

func (disk) create(path string, perm fs.FileMode) (file, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err == nil {
		inheritOwner(path)
	}
	return f, err
}

func (disk) extend(path string, size int64, perm fs.FileMode) (file, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, perm)
	if err != nil {
		return nil, err
	}
	inheritOwner(path)
	if err := f.Truncate(size); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (disk) read(path string) ([]byte, error) { return os.ReadFile(path) }
func (disk) rename(from, to string) error     { return os.Rename(from, to) }
func (disk) link(from, to string) error       { return os.Link(from, to) }
func (disk) remove(path string) error         { return os.Remove(path) }

func (disk) syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (disk) list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, ignoreMissing(err)
}

// inheritOwner gives a file that root made to the owner of its directory: what
// is done under sudo in somebody's checkout must stay removable by them. It is
// best effort, a file system without owners is no reason to lose a state.
func inheritOwner(path string) {
	if os.Geteuid() != 0 {
		return
	}
	if info, err := os.Stat(filepath.Dir(path)); err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			_ = os.Lchown(path, int(st.Uid), int(st.Gid))
		}
	}
}

// makeDir gives new directories the owner of the nearest one that exists, and
// syncs the parents, so that what is synced inside can be found after a crash.
func (d disk) makeDir(path string, perm fs.FileMode) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(path)
	if err := d.makeDir(parent, perm); err != nil {
		return err
	}
	if err := os.Mkdir(path, perm); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	inheritOwner(path)
	return d.syncDir(parent)
}
