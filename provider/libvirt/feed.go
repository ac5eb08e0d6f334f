package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A clone is fed to libvirt through a FIFO: the rewritten head, then the
// template's stream by splice(2), which moves pages from the page cache into
// the pipe and copies nothing. libvirt opens a path like any other and hands
// the descriptor to QEMU.

const (
	// feedPoll is how often a FIFO without a reader is tried again.
	feedPoll = 2 * time.Millisecond
	// feedPipe is the size asked for, bytes: with the default of 64 KiB, feeder
	// and QEMU take turns 1,500 times for one clone.
	feedPipe = 1 << 20
	feedStep = 1 << 20
)

// makePipe makes a FIFO. One that is there is of a process that died.
func makePipe(path string) error {
	err := unix.Mkfifo(path, 0o600)
	if errors.Is(err, fs.ErrExist) {
		if err = dropPipe(path); err == nil {
			err = unix.Mkfifo(path, 0o600)
		}
	}
	if err != nil {
		return fmt.Errorf("pipe %s: %w", path, err)
	}
	return nil
}

// feed writes head and the rest of the template to the FIFO's reader. It waits
// for one to come, and ends when it has gone or ctx has ended.
func feed(ctx context.Context, pipe string, head []byte, template *os.File, offset int64) error {
	out, err := openFeed(ctx, pipe)
	if err != nil {
		return err
	}
	defer out.Close()
	stop := context.AfterFunc(ctx, func() { _ = out.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	raw, err := out.SyscallConn()
	if err != nil {
		return err
	}
	_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, feedPipe) }) // a small one works too
	if _, err := out.Write(head); err != nil {
		return fmt.Errorf("write the definition: %w", err)
	}
	if err := splice(raw.Write, template, offset); err != nil {
		return fmt.Errorf("write the memory: %w", err)
	}
	return nil
}

// openFeed opens the writing end. Without O_NONBLOCK that would wait for a
// reader without regard to ctx; with it there is ENXIO until there is one (fifo(7)).
func openFeed(ctx context.Context, pipe string) (*os.File, error) {
	for {
		out, err := os.OpenFile(pipe, os.O_WRONLY|unix.O_NONBLOCK, 0)
		if err == nil {
			return out, nil
		}
		if !errors.Is(err, unix.ENXIO) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("nobody read it: %w", ctx.Err())
		case <-time.After(feedPoll):
		}
	}
}

// splice moves a file's rest into a pipe through the poller of the pipe.
func splice(wait func(func(fd uintptr) bool) error, from *os.File, offset int64) error {
	for {
		var n int64
		var err error
		werr := wait(func(fd uintptr) bool {
			for {
				n, err = unix.Splice(int(from.Fd()), &offset, int(fd), nil, feedStep, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
				if !errors.Is(err, unix.EINTR) {
					return !errors.Is(err, unix.EAGAIN)
				}
			}
		})
		switch {
		case werr != nil:
			return werr
		case err != nil:
			return err
		case n == 0:
			return nil
		}
	}
}

// openTemplate reads a template's beginning and leaves it open for its stream.
func openTemplate(path string) (*os.File, saveHead, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, saveHead{}, err
	}
	h, err := readSaveHead(io.LimitReader(f, saveHeaderSize+saveHeadMost))
	if err != nil {
		f.Close()
		return nil, saveHead{}, fmt.Errorf("%s: %w", path, err)
	}
	return f, h, nil
}
