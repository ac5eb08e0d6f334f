package operation

import (
	"context"
	"errors"
	"fmt"

	"github.com/lvslab/lvslab/plan/state"
)

// LabDir returns the directory, absolute, of the lab that a topology describes.
// Neither need exist yet.
func LabDir(s *Settings, path string) (string, error) {
	st, err := s.parseConfig(path)
	if err != nil {
		return "", err
	}
	return st.dir()
}

// Standing says by what the lab in a directory is up, and "" when it is not: it
// was destroyed, or its hypervisor has ended with all that was in it.
func Standing(ctx context.Context, dir string) (string, error) {
	st, err := state.Read(dir)
	if errors.Is(err, state.ErrNone) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	h, err := findHolder(ctx, st.Lineage)
	if err != nil {
		return "", err
	}
	if uri, foreign := foreignURI(st); foreign && len(st.Resources) > 0 {
		return "on " + uri, nil
	}
	if h != nil {
		return fmt.Sprintf("held by process %d", h.PID), nil
	}
	return "", nil
}
