package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/lvslab/lvslab/internal/diag"
)

// keysPath holds the lab's private keys apart from the state: people mail
// states to each other.
func keysPath(dir string) string { return filepath.Join(dir, "keys.json") }

// ReadKeys returns the private keys of a lab's directory by their names, an
// empty map when it has none. It takes no lock.
func ReadKeys(dir string) (map[string][]byte, error) {
	keys := map[string][]byte{}
	b, err := disk{}.read(keysPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return keys, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &keys)
	}
	if err != nil {
		return nil, diag.Fail(err, "the lab's keys are unreadable",
			"rename the file and run lvslab destroy: guests whose key is lost cannot be reached, and the next apply makes new ones",
			"%s", keysPath(dir))
	}
	return keys, nil
}

// WriteKeys replaces the lab's private keys; no keys remove the file.
func (s *Store) WriteKeys(keys map[string][]byte) error {
	s.io.Lock()
	defer s.io.Unlock()
	if s.isClosed() {
		return ErrClosed
	}
	path := keysPath(s.dir)
	if len(keys) == 0 {
		return ignoreMissing(s.fsys.remove(path))
	}
	b, err := json.MarshalIndent(keys, "", "  ")
	if err != nil {
		return err
	}
	if err := writeFile(s.fsys, path, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("keys of the lab: %w", err)
	}
	return nil
}
