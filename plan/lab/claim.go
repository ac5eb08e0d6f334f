package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/operation"
)

// claimName is the file in a lab's directory that says which test has the lab. It
// is locked for as long as that test lives, and empty when it has taken its lab
// down: one with a name in it that nobody locks is the word of a test that was
// killed, or wanted its lab kept.
const claimName = "test.json"

// owner is who claims a lab.
type owner struct {
	Test  string    `json:"test"`
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
}

func (o owner) String() string {
	return fmt.Sprintf("%s (process %d, since %s)", o.Test, o.PID, o.Since.Format(time.DateTime))
}

// claim is a lab's file, locked by this test.
type claim struct{ file *os.File }

// take claims the lab in a directory for a test. It waits for up to wait while
// another test has it. left is who had it before and did not take it down, nil when
// nobody.
func take(ctx context.Context, dir, test string, wait time.Duration) (c *claim, left *owner, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, fmt.Errorf("directory of the lab: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, claimName), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, nil, fmt.Errorf("claim of the lab: %w", err)
	}
	if err := locked(ctx, f, dir, wait); err != nil {
		f.Close()
		return nil, nil, err
	}
	left = readOwner(f)
	text, err := json.Marshal(owner{test, os.Getpid(), time.Now().Truncate(time.Second)})
	if err == nil {
		err = rewrite(f, append(text, '\n'))
	}
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("claim of the lab: %w", err)
	}
	return &claim{f}, left, nil
}

// locked takes the lock of an open file. It belongs to the open file description
// (F_OFD_SETLK, fcntl(2)): two tests of one process are two, the end of the process
// frees it, and others can look at it without taking it.
func locked(ctx context.Context, f *os.File, dir string, wait time.Duration) error {
	for end := time.Now().Add(wait); ; {
		whole := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
		err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &whole)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		if !time.Now().Before(end) {
			who := "another test"
			if o := readOwner(f); o != nil {
				who = o.String()
			}
			return diag.Fail(nil, "The lab belongs to a test that is running",
				"Wait for it with lab.LockTimeout, or give the lab of each test a name of its own in its lab block.",
				"%s has lab %s", who, filepath.Base(dir))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// readOwner returns who claims a lab, nil when nobody does or that cannot be read.
func readOwner(f *os.File) *owner {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<12))
	var o owner
	if err != nil || json.Unmarshal(text, &o) != nil || o.Test == "" {
		return nil
	}
	return &o
}

func rewrite(f *os.File, text []byte) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(text, 0)
	return err
}

// release gives the lab back: it was taken down, or the next one is to know that it
// was not.
func (c *claim) release(wasTakenDown bool) error {
	var err error
	if wasTakenDown {
		err = c.file.Truncate(0)
	}
	return errors.Join(err, c.file.Close())
}

// strays names the labs beside dir that tests have left up: their tests have ended.
func strays(ctx context.Context, dir string) []string {
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), "*", claimName)) // the pattern is right
	var out []string
	for _, path := range files {
		other := filepath.Dir(path)
		o := abandoned(path)
		if other == dir || o == nil {
			continue
		}
		if how, err := operation.Standing(ctx, other); err == nil && how != "" {
			out = append(out, fmt.Sprintf("lab %s of %s is still up, %s: lvslab destroy --auto-approve %s", filepath.Base(other), o, how, other))
		}
	}
	return out
}

// abandoned returns the owner in a claim that nobody locks.
func abandoned(path string) *owner {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	whole := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &whole) != nil || whole.Type != unix.F_UNLCK {
		return nil
	}
	return readOwner(f)
}
