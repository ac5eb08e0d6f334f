package artifact

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/lvslab/lvslab/internal/diag"
)

// ErrBusy is the cause when another process writes to a result.
var ErrBusy = errors.New("another process writes to this result")

// lockTries and lockPause bound the wait for a lock: who only looks whether
// somebody writes ([Busy]) holds it for an instant.
const (
	lockTries = 10
	lockPause = 20 * time.Millisecond
)

// lockDir takes a result for its one writer: an flock(2) on the directory itself,
// which leaves no file behind, survives the rename at the seal, and ends with the
// process however that ends.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for n := 1; ; n++ {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			// A file system without such locks on directories (NFS has none) has
			// no second writer that could be kept out.
			return f, nil
		}
		if n == lockTries {
			return nil, errors.Join(f.Close(), diag.Fail(diag.Told(ErrBusy), "Another lvslab writes to this result",
				"Wait until it is done, or leave it alone and start another with --fresh.", "%s is being written.", dir))
		}
		time.Sleep(lockPause)
	}
}

// Busy reports whether somebody writes to a result at this moment.
func Busy(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close() // which gives the lock back
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// unlock ends the writer's hold.
func (w *Writer) unlock() {
	if w.lock != nil {
		w.lock.Close()
		w.lock = nil
	}
}
