// Package binary finds the guest agent's executable: a static Linux program
// that the build puts into lvslab itself.
package binary

import (
	"embed"
	"errors"
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
	if b, err := embedded.ReadFile(Name); err == nil {
		return b, nil
	}
	var tried error
	for _, path := range candidates() {
		b, err := os.ReadFile(path)
		if err == nil {
			return b, nil
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
