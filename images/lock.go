package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/diag"
)

// lockPoll is how often a waiting builder looks again. A flock cannot be
// waited for together with a context.
const lockPoll = 100 * time.Millisecond

// acquire takes the cache's lock, which is held while images are made or
// removed. It is a flock: it falls with its process, whatever way that dies.
// While another process holds it, progress hears of it once and the call waits
// until ctx ends.
func acquire(ctx context.Context, cacheDir string, progress func(string)) (release func(), err error) {
	return acquireFile(ctx, filepath.Join(cacheDir, "images.lock"), "image", progress)
}

// acquireFile is acquire for the lock of one part of the cache.
func acquireFile(ctx context.Context, path, what string, progress func(string)) (release func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, diag.Fail(err, "Cannot lock the "+what+" cache", "Set LVSLAB_CACHE to a directory that you may write to.", "%s", path)
	}
	handOver(path)
	told := false
	for looks := 0; ; looks++ {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		// Who has just taken it may not have written his number down yet: look again.
		if who, known := holder(path); !told && (known || looks > 0) {
			told = true
			progress("waiting for " + who + ", which is using the " + what + " cache")
		}
		select {
		case <-ctx.Done():
			who, _ := holder(path)
			err := diag.Fail(ctx.Err(), "The "+what+" cache stayed locked",
				"Wait for the other process to finish, or end it, and try again.", "%s holds %s", who, path)
			f.Close()
			return nil, err
		case <-time.After(lockPoll):
		}
	}
	_ = f.Truncate(0)
	_, _ = f.WriteAt([]byte(fmt.Sprintf("%d\n", os.Getpid())), 0)
	return func() {
		_ = f.Truncate(0)
		f.Close()
	}, nil
}

// holder names the process that wrote itself into the lock file, and says whether
// one has.
func holder(path string) (name string, known bool) {
	text, _ := os.ReadFile(path)
	if pid := strings.TrimSpace(string(text)); pid != "" {
		return "process " + pid, true
	}
	return "another process", false
}
