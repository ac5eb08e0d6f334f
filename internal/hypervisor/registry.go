package hypervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"golang.org/x/sys/unix"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/lvslab/lvslab/internal/diag"
)

// RegistryDir is the directory in which every holder of this machine (for
// root) or of this user has its entry. LVSLAB_REGISTRY overrides it.
func RegistryDir() string {
	if dir := os.Getenv("LVSLAB_REGISTRY"); dir != "" {
		return dir
	}
	if os.Geteuid() != 0 {
		if run := os.Getenv("XDG_RUNTIME_DIR"); run != "" {
			return filepath.Join(run, "lvslab", "registry")
		}
		return filepath.Join(os.TempDir(), fmt.Sprintf("lvslab-%d", os.Geteuid()), "registry")
	}
	return "/run/lvslab/registry"
}

// Entry is one line of the machine's registry: a holder, and whether anything
// of it is left.
type Entry struct {
	Holder
	// Status is Running when the lock is held or the process lives, and Gone when
	// both are free. Whether libvirtd answers is not asked here: see [Find].
	Status Status
	// Path is the entry's file.
	Path string
}

// ErrBusy is returned when another holder of the same lineage holds the lock.
var ErrBusy = errors.New("the lab's registry entry is locked")

var lineagePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,63}$`)

func entryPath(lineage string) (string, error) {
	if !lineagePattern.MatchString(lineage) {
		return "", fmt.Errorf("lineage %q: want letters, digits and dashes", lineage)
	}
	return filepath.Join(RegistryDir(), lineage+".json"), nil
}

// claim makes the entry's file and takes its lock, or fails with ErrBusy. The
// lock belongs to the open file description (F_OFD_SETLK, fcntl(2)): whoever
// inherits it keeps it, the kernel frees it when the last one has closed it or
// died, and others can ask for its state without taking it.
func claim(lineage string) (*os.File, error) {
	path, err := entryPath(lineage)
	if err != nil {
		return nil, err
	}
	for {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, diag.Fail(err, "No registry of running labs",
				"Make the directory writable or set LVSLAB_REGISTRY to another one on this machine.",
				"lvslab keeps a lock for each lab in %s", filepath.Dir(path))
		}
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		if errors.Is(err, fs.ErrNotExist) {
			continue // forget of the last entry has just removed the directory
		}
		if err != nil {
			return nil, fmt.Errorf("registry entry: %w", err)
		}
		if err := lock(f); err != nil {
			f.Close()
			return nil, err
		}
		// Between open and lock somebody may have removed the file: then this
		// lock guards a file that nobody else will ever see.
		same, err := stillAt(f, path)
		if err == nil && same {
			return f, nil
		}
		f.Close()
		if err != nil {
			return nil, err
		}
	}
}

func lock(f *os.File) error {
	whole := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &whole)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return ErrBusy
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}

func lockHeld(f *os.File) (bool, error) {
	whole := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &whole); err != nil {
		return false, fmt.Errorf("lock of %s: %w", f.Name(), err)
	}
	return whole.Type != unix.F_UNLCK, nil
}

func stillAt(f *os.File, path string) (bool, error) {
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return os.SameFile(mine, there), nil
}

func writeEntry(f *os.File, h *Holder) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt(append(text, '\n'), 0)
	return err
}

// readEntry reads the entry at path. It returns fs.ErrNotExist (wrapped) when
// there is none.
func readEntry(path string) (*Entry, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 1<<16))
	if err != nil {
		return nil, err
	}
	e := &Entry{Path: path, Status: Running}
	e.Lineage = strings.TrimSuffix(filepath.Base(path), ".json")
	written := false
	if err := json.Unmarshal(text, &e.Holder); err == nil {
		written = e.PID > 0
	}
	held, err := lockHeld(f)
	if err != nil {
		return nil, err
	}
	if held {
		return e, nil
	}
	if !written {
		// The starter died before it had a process: nothing was ever inside.
		e.Status = Gone
		return e, nil
	}
	// The kernel closes PID 1's files, and with them the lock, a moment before
	// it has killed the rest of the namespace: only the process's own end proves it.
	lives, err := e.Alive()
	if err != nil {
		return nil, err
	}
	if !lives {
		e.Status = Gone
	}
	return e, nil
}

// List returns all entries of the registry, those of ended holders too, in the
// order of their lineages. Entries that cannot be read are reported by a
// joined error beside the rest of the list.
func List(ctx context.Context) ([]Entry, error) {
	names, err := filepath.Glob(filepath.Join(RegistryDir(), "*.json"))
	if err != nil {
		return nil, err
	}
	var list []Entry
	var errs []error
	for _, path := range names {
		if err := ctx.Err(); err != nil {
			return list, err
		}
		e, err := readEntry(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			errs = append(errs, fmt.Errorf("registry entry %s: %w", path, err))
		default:
			list = append(list, *e)
		}
	}
	return list, errors.Join(errs...)
}

// forget removes an entry of an ended holder. It fails with ErrBusy when a new
// holder has taken it meanwhile.
func forget(lineage string) error {
	path, err := entryPath(lineage)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	f, err := claim(lineage)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := os.Remove(path); err != nil {
		return err
	}
	// The directories are shared; they go when the last lab has gone.
	_ = os.Remove(RegistryDir())
	if filepath.Base(filepath.Dir(RegistryDir())) == "lvslab" {
		_ = os.Remove(filepath.Dir(RegistryDir()))
	}
	return nil
}
