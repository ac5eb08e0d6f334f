package libvirt

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
)

// Place is the machine that a libvirt and its QEMUs live on: its sockets and its
// files, by the paths that QEMU sees. Errors of its methods wrap fs.ErrNotExist
// when that is the cause.
type Place interface {
	// Dial connects to a Unix socket.
	Dial(ctx context.Context, path string) (net.Conn, error)
	// MkdirAll makes a directory that all may enter, and those above it.
	MkdirAll(ctx context.Context, dir string) error
	// Create makes an empty file that all may read, with its directory, in place of
	// one that may be there. -1 leaves it to the process's user.
	Create(ctx context.Context, path string, uid, gid int) error
	// Remove removes a file or an empty directory.
	Remove(ctx context.Context, path string) error
	// Exists returns nil when there is something of that name.
	Exists(ctx context.Context, path string) error
	// Tail returns at most the last most bytes of a file.
	Tail(ctx context.Context, path string, most int64) ([]byte, error)
}

// Here is this machine.
type Here struct{}

var _ Place = Here{}

// Dial implements [Place].
func (Here) Dial(ctx context.Context, path string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", path)
}

// MkdirAll implements [Place].
func (Here) MkdirAll(_ context.Context, dir string) error { return os.MkdirAll(dir, 0o755) }

// Create implements [Place]. uid and gid own the directory, too.
func (Here) Create(_ context.Context, path string, uid, gid int) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, p := range []string{path, filepath.Dir(path)} {
		if err := os.Lchown(p, uid, gid); err != nil {
			return err
		}
	}
	return nil
}

// Remove implements [Place].
func (Here) Remove(_ context.Context, path string) error { return os.Remove(path) }

// Exists implements [Place].
func (Here) Exists(_ context.Context, path string) error {
	_, err := os.Stat(path)
	return err
}

// Tail implements [Place].
func (Here) Tail(_ context.Context, path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-most), most))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return text, nil
}
