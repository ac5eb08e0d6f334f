package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/diag"
)

// Holder is the process that holds a lock. It is information for people: what
// counts is the kernel's flock, which ends with the process.
type Holder struct {
	PID     int       `json:"pid"`
	Since   time.Time `json:"since"`
	Command string    `json:"command"`
	Host    string    `json:"host"`
	User    int       `json:"uid"`
}

// String describes the holder in one line.
func (h Holder) String() string {
	if h.PID == 0 {
		return "a process that left no name"
	}
	return fmt.Sprintf("process %d on %s (%s), since %s", h.PID, h.Host, h.Command, h.Since.Format("15:04:05"))
}

// LockedError says that another process works on the lab.
type LockedError struct {
	Path   string // of the lock file
	Holder Holder
	Waited time.Duration
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("%s is held by %s", e.Path, e.Holder)
}

// grace is waited even without a timeout: [Held] takes the lock for an instant.
const grace = 50 * time.Millisecond

// lock is a held lock.
type lock struct {
	f      *os.File
	holder string // path of holder.json
}

// acquire takes the lock of a lab's directory. It waits for at most timeout,
// and for as long as ctx lives; waiting is told once, before the first pause.
// The lock is on a file of its own because renaming a new state over the old
// one would leave a lock on the old one's inode. Go opens files close-on-exec,
// so children do not inherit it.
func acquire(ctx context.Context, dir, command string, timeout time.Duration, waiting func(Holder)) (*lock, error) {
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, lockFailure(path, err)
	}
	inheritOwner(path)
	l := &lock{f: f, holder: filepath.Join(dir, "holder.json")}
	begun := time.Now()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := flock(f)
		if err == nil {
			break
		}
		waited := time.Since(begun)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(lockFailure(path, err), f.Close())
		}
		if waited >= max(timeout, grace) {
			return nil, errors.Join(lockedFailure(path, readHolder(l.holder), waited), f.Close())
		}
		if waiting != nil {
			waiting(readHolder(l.holder))
			waiting = nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), f.Close())
		case <-time.After(min(pause, max(timeout, grace)-waited)):
		}
	}
	if err := l.sign(command); err != nil {
		return nil, errors.Join(lockFailure(path, err), l.release())
	}
	return l, nil
}

func flock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (l *lock) sign(command string) error {
	host, _ := os.Hostname()
	if command == "" {
		command = strings.Join(os.Args, " ")
	}
	b, err := json.Marshal(Holder{PID: os.Getpid(), Since: time.Now().Round(time.Second), Command: command, Host: host, User: os.Getuid()})
	if err != nil {
		return err
	}
	// Renamed into place, as a waiting process may be reading it. Not synced:
	// after a crash of the machine nobody holds the lock.
	tmp := l.holder + ".new"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o600); err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(tmp)))
	}
	inheritOwner(tmp)
	return os.Rename(tmp, l.holder)
}

// release gives the lock back. The lock file stays: removing it would let two
// processes lock two files of the same name.
func (l *lock) release() error {
	return errors.Join(ignoreMissing(os.Remove(l.holder)), l.f.Close())
}

func lockedFailure(path string, h Holder, waited time.Duration) error {
	e := &LockedError{Path: path, Holder: h, Waited: waited}
	remedy := "wait for it to end, or give --lock-timeout to wait here"
	if h.PID > 0 {
		remedy += fmt.Sprintf("; if it hangs, end process %d: its lock ends with it", h.PID)
	}
	return diag.Fail(e, "another process works on this lab", remedy, "waited %s", waited.Round(time.Millisecond))
}

func readHolder(path string) Holder {
	var h Holder
	if b, err := os.ReadFile(path); err == nil {
		_ = json.Unmarshal(b, &h) // an unreadable one names nobody
	}
	return h
}

// Held reports whether some process, this one included, holds the lock of a
// lab's directory, and who. It takes nothing and makes no file.
func Held(dir string) (Holder, bool, error) {
	f, err := os.Open(filepath.Join(dir, "lock"))
	if err != nil {
		return Holder{}, false, ignoreMissing(err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if cerr := f.Close(); err == nil {
		return Holder{}, false, cerr
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return readHolder(filepath.Join(dir, "holder.json")), true, nil
	}
	return Holder{}, false, fmt.Errorf("lock of %s: %w", dir, err)
}
