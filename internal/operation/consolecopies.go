package operation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/remote"
)

// consoleCopies keeps the consoles of machines on another machine in the lab's
// directory here: whoever watches or shows a console reads a file. The length of
// a copy says how far it goes, so several processes may go on with it, each
// under the file's lock.
type consoleCopies struct {
	host        *remote.Host
	there, here string // directories
	uid, gid    int
	stop        context.CancelFunc
	stopped     chan struct{}
}

const (
	// copyEvery is the pause between two looks, which are three round trips each.
	copyEvery = 200 * time.Millisecond
	// copyStep is how much is read at once, bytes.
	copyStep = 256 << 10
	// lastCopyWithin bounds the look at what was written last.
	lastCopyWithin = 5 * time.Second
)

func newConsoleCopies(h *remote.Host, there, here string) *consoleCopies {
	c := &consoleCopies{host: h, there: there, here: here}
	c.uid, c.gid = ownerIDs()
	return c
}

// start copies until close. A look that fails is not told: the connection's loss
// is, by all else that uses it.
func (c *consoleCopies) start() {
	ctx, cancel := context.WithCancel(context.Background())
	c.stop, c.stopped = cancel, make(chan struct{})
	go func() {
		defer close(c.stopped)
		for {
			_ = c.pull(ctx)
			select {
			case <-ctx.Done():
				return
			case <-time.After(copyEvery):
			}
		}
	}()
}

func (c *consoleCopies) close() {
	c.stop()
	<-c.stopped
	ctx, cancel := context.WithTimeout(context.Background(), lastCopyWithin)
	defer cancel()
	_ = c.pull(ctx) // as above
}

// pull brings all copies up to date.
func (c *consoleCopies) pull(ctx context.Context) error {
	list, err := c.host.ReadDir(ctx, c.there)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	var errs []error
	for _, f := range list {
		if strings.HasSuffix(f.Name(), ".log") && f.Name() == path.Base(f.Name()) {
			errs = append(errs, c.pullOne(ctx, f.Name(), f.Size()))
		}
	}
	return errors.Join(errs...)
}

// pullOne goes on with one copy; size is that of the original at the last look.
func (c *consoleCopies) pullOne(ctx context.Context, name string, size int64) error {
	if info, err := os.Stat(filepath.Join(c.here, name)); err == nil && info.Size() == size {
		return nil
	}
	f, err := c.open(name)
	if err != nil {
		return err
	}
	defer f.Close() // and with it the lock
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil // another process is at it
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	have := info.Size()
	if size < have { // or somebody has gone on since that look
		now, err := c.host.Stat(ctx, path.Join(c.there, name))
		if err != nil {
			return err
		}
		if now.Size() < have {
			have = 0
			if err := f.Truncate(0); err != nil {
				return err
			}
		}
	}
	for {
		text, err := c.host.ReadFrom(ctx, path.Join(c.there, name), have, copyStep)
		if err != nil || len(text) == 0 {
			return err
		}
		n, err := f.WriteAt(text, have)
		if have += int64(n); err != nil {
			return err
		}
	}
}

func (c *consoleCopies) open(name string) (*os.File, error) {
	if err := os.MkdirAll(c.here, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(c.here, name), os.O_RDWR|os.O_CREATE, 0o644)
	if err == nil && c.uid != os.Getuid() {
		err = errors.Join(os.Lchown(c.here, c.uid, c.gid), f.Chown(c.uid, c.gid))
	}
	return f, err
}

// renew empties a copy while make makes its original anew.
func (c *consoleCopies) renew(ctx context.Context, name string, make func() error) error {
	f, err := c.open(name)
	if err != nil {
		return fmt.Errorf("copy of a console: %w", err)
	}
	defer f.Close()
	for unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("copy of a console: %w", ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
	if err := make(); err != nil {
		return err
	}
	return f.Truncate(0)
}
