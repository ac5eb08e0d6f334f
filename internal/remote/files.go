package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sync"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/lvslab/lvslab/internal/diag"
)

// fileTimeout bounds one question about files; what is carried is bounded by
// its caller.
const fileTimeout = 20 * time.Second

// files is the SFTP session of one connection, made when it is first needed.
type files struct {
	client *ssh.Client

	mu  sync.Mutex
	cur *sftp.Client
}

func newFiles(c *ssh.Client) *files { return &files{client: c} }

func (f *files) session() (*sftp.Client, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cur != nil {
		return f.cur, nil
	}
	c, err := sftp.NewClient(f.client, sftp.UseConcurrentWrites(true))
	if err != nil {
		return nil, err
	}
	f.cur = c
	return c, nil
}

// drop makes the next call open a session of its own; calls that hang on the
// old one end. Its close may hang as long as the connection does.
func (f *files) drop(c *sftp.Client) {
	f.mu.Lock()
	if f.cur == c {
		f.cur = nil
	}
	f.mu.Unlock()
	if c != nil {
		go c.Close()
	}
}

// settle returns once it is known whether a connection was lost with its session:
// the session ends first, and the next call would take a dead connection for living.
func (h *Host) settle(ctx context.Context, ln *link) {
	if answers(ln.client) {
		return
	}
	ln.client.Close()
	select {
	case <-ln.done:
	case <-ctx.Done():
	}
}

// do makes calls to the host's files, which know no context. An error names the
// host and is the one of the call, so that fs.ErrNotExist is found in it.
func (h *Host) do(ctx context.Context, fn func(*sftp.Client) error) error {
	ln, err := h.link(ctx)
	if err != nil {
		return err
	}
	type session struct {
		c   *sftp.Client
		err error
	}
	opened, done := make(chan session, 1), make(chan error, 1)
	go func() {
		c, err := ln.files.session()
		opened <- session{c, err}
		if err == nil {
			done <- fn(c)
		}
	}()
	var s session
	select {
	case s = <-opened:
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			ln.client.Close() // a host that opens no session is of no use
		}
		return fmt.Errorf("files of %s: %w: %w", h, ErrLost, ctx.Err())
	}
	if s.err != nil {
		h.settle(ctx, ln)
		return diag.Fail(fmt.Errorf("%w: %w", ErrLost, s.err), "The host gives no access to its files",
			"Set Subsystem sftp internal-sftp in its sshd_config.", "SFTP with %s", h)
	}
	select {
	case err = <-done:
	case <-ctx.Done():
		ln.files.drop(s.c)
		return fmt.Errorf("files of %s: %w", h, ctx.Err())
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sftp.ErrSSHFxConnectionLost) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, io.EOF):
		ln.files.drop(s.c)
		h.settle(ctx, ln)
		return fmt.Errorf("files of %s: %w: %w", h, ErrLost, err)
	case errors.Is(err, fs.ErrPermission):
		return diag.Fail(err, "The SSH user may not do it", "Log in as root, or give the user this directory: install -d -o USER DIRECTORY.", "On %s", h)
	}
	return fmt.Errorf("%s: %w", h, err)
}

// short is do with the deadline of a question.
func (h *Host) short(ctx context.Context, fn func(*sftp.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, fileTimeout)
	defer cancel()
	return h.do(ctx, fn)
}

// answer is short for a question that brings something. It comes by a channel, since
// the call goes on when its context has ended and nobody waits any more.
func answer[T any](ctx context.Context, h *Host, fn func(*sftp.Client) (T, error)) (T, error) {
	got := make(chan T, 1)
	err := h.short(ctx, func(c *sftp.Client) error {
		v, err := fn(c)
		got <- v
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return <-got, nil
}

// Stat looks at a file. Its Sys is a *sftp.FileStat.
func (h *Host) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return answer(ctx, h, func(c *sftp.Client) (fs.FileInfo, error) {
		info, err := c.Lstat(name)
		return info, named(err, name)
	})
}

// Exists returns nil when there is a file of that name.
func (h *Host) Exists(ctx context.Context, name string) error {
	_, err := h.Stat(ctx, name)
	return err
}

// ReadDir lists a directory.
func (h *Host) ReadDir(ctx context.Context, dir string) ([]fs.FileInfo, error) {
	return answer(ctx, h, func(c *sftp.Client) ([]fs.FileInfo, error) {
		list, err := c.ReadDir(dir)
		return list, named(err, dir)
	})
}

// MkdirAll makes a directory and those above it; all can be entered by all.
func (h *Host) MkdirAll(ctx context.Context, dir string) error {
	return h.short(ctx, func(c *sftp.Client) error { return makeDirs(c, dir) })
}

func makeDirs(c *sftp.Client, dir string) error {
	info, err := c.Stat(dir)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return fmt.Errorf("%s is not a directory", dir)
	case !errors.Is(err, fs.ErrNotExist):
		return named(err, dir)
	}
	if up := path.Dir(dir); up != dir {
		if err := makeDirs(c, up); err != nil {
			return err
		}
	}
	if err := c.Mkdir(dir); err != nil {
		if info, serr := c.Stat(dir); serr == nil && info.IsDir() {
			return nil // made meanwhile
		}
		return named(err, dir)
	}
	return named(c.Chmod(dir, 0o755), dir)
}

// Remove removes a file, a socket or an empty directory.
func (h *Host) Remove(ctx context.Context, name string) error {
	return h.short(ctx, func(c *sftp.Client) error { return named(c.Remove(name), name) })
}

// RemoveAll removes a directory with all that is in it; one that is not there is
// no error. Links are not followed.
func (h *Host) RemoveAll(ctx context.Context, dir string) error {
	return h.short(ctx, func(c *sftp.Client) error { return removeAll(c, dir) })
}

func removeAll(c *sftp.Client, dir string) error {
	list, err := c.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return named(err, dir)
	}
	for _, f := range list {
		name := path.Join(dir, f.Name())
		if f.IsDir() {
			err = removeAll(c, name)
		} else {
			err = named(c.Remove(name), name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := c.RemoveDirectory(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return named(err, dir)
	}
	return nil
}

// Create makes an empty file in place of one that may be there, with its
// directory. The host's user owns it, whatever uid and gid are.
func (h *Host) Create(ctx context.Context, name string, _, _ int) error {
	return h.short(ctx, func(c *sftp.Client) error {
		if err := c.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return named(err, name)
		}
		f, err := c.Create(name)
		// The directory goes with the last file in it, at any time.
		for try := 0; errors.Is(err, fs.ErrNotExist) && try < 3; try++ {
			if err := makeDirs(c, path.Dir(name)); err != nil {
				return err
			}
			f, err = c.Create(name)
		}
		if err != nil {
			return named(err, name)
		}
		return errors.Join(named(f.Chmod(0o644), name), f.Close())
	})
}

// Tail returns at most the last most bytes of a file.
func (h *Host) Tail(ctx context.Context, name string, most int64) (text []byte, err error) {
	info, err := h.Stat(ctx, name)
	if err != nil {
		return nil, err
	}
	return h.ReadFrom(ctx, name, max(0, info.Size()-most), most)
}

// ReadFrom returns at most most bytes of a file from an offset on.
func (h *Host) ReadFrom(ctx context.Context, name string, offset, most int64) ([]byte, error) {
	return answer(ctx, h, func(c *sftp.Client) ([]byte, error) {
		f, err := c.Open(name)
		if err != nil {
			return nil, named(err, name)
		}
		defer f.Close()
		text, err := io.ReadAll(io.NewSectionReader(f, offset, most))
		return text, named(err, name)
	})
}

// named puts the path into errors that lack it; nil stays nil.
func named(err error, name string) error {
	var at *fs.PathError
	if err == nil || errors.As(err, &at) {
		return err
	}
	return &fs.PathError{Op: "file", Path: name, Err: err}
}
