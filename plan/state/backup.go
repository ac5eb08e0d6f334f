package state

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// keptBackups is how many earlier states are kept. Each is the one that an
// operation found when it began to write: an apply writes dozens of versions,
// so keeping the last ten of those would keep only its own last steps.
const keptBackups = 10

// backUp keeps the state that is on the disk now. A hard link costs no copying
// and cannot be half done, and the file that it names is never written again.
func (s *Store) backUp(path string) error {
	dir := filepath.Join(s.dir, "backups")
	if err := s.fsys.makeDir(dir, 0o755); err != nil {
		return err
	}
	to := filepath.Join(dir, fmt.Sprintf("state.%012d.json", s.serialOnDisk()))
	err := s.fsys.link(path, to)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		if err := writeFile(s.fsys, to, s.onDisk, 0o600); err != nil { // a file system without links
			return err
		}
	}
	if err := s.fsys.syncDir(dir); err != nil {
		return err
	}
	return s.prune(dir)
}

func (s *Store) serialOnDisk() uint64 {
	st, err := decode(s.onDisk)
	if err != nil {
		return 0 // cannot be: it was decoded when it was read
	}
	return st.Serial
}

func (s *Store) prune(dir string) error {
	names, err := s.fsys.list(dir)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(n string) bool {
		return !strings.HasPrefix(n, "state.") || !strings.HasSuffix(n, ".json")
	})
	for len(names) > keptBackups {
		if err := ignoreMissing(s.fsys.remove(filepath.Join(dir, names[0]))); err != nil {
			return err
		}
		names = names[1:]
	}
	return nil
}
