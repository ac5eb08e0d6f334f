package operation

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lvslab/lvslab/internal/lang"
)

// Format rewrites the topology files of a path ("" = the working directory) in
// the canonical layout and returns the names of those that differ. With write
// false it changes nothing.
func Format(s *Settings, path string, write bool) ([]string, error) {
	if path == "" {
		path = "."
	}
	files := []string{path}
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if info.IsDir() {
		if files, err = filepath.Glob(filepath.Join(path, "*"+lang.Extension)); err != nil {
			return nil, err
		}
	}
	var changed []string
	var errs []error
	for _, f := range files {
		src, err := os.ReadFile(f)
		if err == nil {
			var out []byte
			if out, err = FormatSource(s, f, src); err == nil && !bytes.Equal(src, out) {
				changed = append(changed, f)
				if write {
					err = replaceFile(f, out, 0o644)
				}
			}
		}
		errs = append(errs, err)
	}
	return changed, errors.Join(errs...)
}

// FormatSource returns the canonical layout of one file's text.
func FormatSource(s *Settings, name string, src []byte) ([]byte, error) {
	s.remember(map[string][]byte{name: src})
	out, ds := lang.Format(src, name)
	return out, ds.Err()
}

// replaceFile puts new text into a file by rename, so that a crash leaves the old
// or the new one, with the old one's mode; mode is that of a file that is new.
func replaceFile(path string, text []byte, mode fs.FileMode) error {
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".")
	if err != nil {
		return fmt.Errorf("rewrite %s: %w", path, err)
	}
	defer os.Remove(tmp.Name()) // gone after the rename
	_, err = tmp.Write(text)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("rewrite %s: %w", path, err)
	}
	return nil
}
