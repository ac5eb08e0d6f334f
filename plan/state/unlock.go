package state

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/diag"
)

// Unlock removes the name that a holder left when it was killed, and returns
// that holder, nil when there was none. While a process holds the lock it
// refuses, with an error that wraps [*LockedError]: a lock is the kernel's and
// ends with its process, so there is nothing else that could be forced.
func Unlock(dir string) (*Holder, error) {
	path := filepath.Join(dir, "holder.json")
	left := readHolder(path)
	_, err := os.Stat(path)
	named := err == nil
	if _, err := os.Stat(filepath.Join(dir, "lock")); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	l, err := acquire(context.Background(), dir, "lvslab force-unlock", 0, nil)
	var locked *LockedError
	switch {
	case errors.As(err, &locked):
		return nil, stillHeld(locked)
	case err != nil:
		return nil, err
	}
	if err := l.release(); err != nil || !named {
		return nil, err
	}
	return &left, nil
}

// stillHeld says who holds the lock, and how to find out where its name tells
// of a process that is not there.
func stillHeld(e *LockedError) error {
	remedy := "Wait for it to end, or end it: its lock ends with it."
	host, _ := os.Hostname()
	if e.Holder.PID == 0 || e.Holder.Host != host || errors.Is(unix.Kill(e.Holder.PID, 0), unix.ESRCH) {
		remedy = "Find the process that has the file open, for example with fuser " + e.Path + ", and end it: its lock ends with it."
	}
	return diag.Fail(e, "The holder of the lock lives", remedy, "nothing was unlocked")
}
