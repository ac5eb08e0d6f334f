// Package binary finds the guest agent's executable: a static Linux program
// that the build puts into lvslab itself.
package binary

import (
	"crypto/sha256"
	"embed"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lvslab/lvslab/internal/diag"
)

// The pattern matches the built agent, which is not in version control, and a
// placeholder, with which lvslab compiles without it.
//
//go:embed lvslab-agent*
var embedded embed.FS

// Name is the executable's file name.
const Name = "lvslab-agent"

// Variable names a file to use when the agent is neither embedded nor beside lvslab.
const Variable = "LVSLAB_AGENT"

// Bytes returns the agent: the embedded one, else the file lvslab-agent beside
// the running program, else the file that $LVSLAB_AGENT names.
func Bytes() ([]byte, error) {
	f, err := open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// Sum returns the agent's SHA-256. It reads the agent piece by piece: a copy of
// it in memory would cost more than the sum.
func Sum() (sum [sha256.Size]byte, err error) {
	f, err := open()
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return sum, err
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

func open() (fs.File, error) {
	if f, err := embedded.Open(Name); err == nil {
		return f, nil
	}
	var tried error
	for _, path := range candidates() {
		f, err := os.Open(path)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			tried = errors.Join(tried, err)
		}
	}
	return nil, diag.Fail(tried, "This lvslab has no guest agent in it", "Build it with `make build`.",
		"it is neither embedded, nor beside the program, nor named by $%s", Variable)
}

func candidates() []string {
	var paths []string
	if self, err := os.Executable(); err == nil {
		paths = append(paths, filepath.Join(filepath.Dir(self), Name))
	}
	if path := os.Getenv(Variable); path != "" {
		paths = append(paths, path)
	}
	return paths
}
