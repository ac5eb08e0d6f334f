// Package planfile keeps a plan for later: what was shown is what apply does,
// or it refuses. The file is one JSON object. It pins the state that the plan
// was made from, the resolved topology, the trials, the images and the policy.
package planfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/plan"
)

// Format is the version of the file's layout. A plan is read only by the
// lvslab that wrote it, so there is no other.
const Format = 1

// File is a saved plan.
type File struct {
	// Lvslab is the version that made the plan; another one refuses it, since it
	// might lower the same topology differently.
	Lvslab string
	Made   time.Time
	Lab    string
	// Lineage and Serial are those of the state that the plan was made from. The
	// serial is 0 when the lab had no state; the lineage is then the one that its
	// names and identities derive from, and apply creates the state with it.
	Lineage string
	Serial  uint64
	// Topology is the hash of the resolved topology.
	Topology string
	Plan     plan.Plan
	// Trials are the pending trials as their room wrote them.
	Trials json.RawMessage
	// Images maps the names of the images to their digests.
	Images   map[string]string
	Teardown string
	// Inputs belong to the operation: sources, variables, options.
	Inputs json.RawMessage
}

// Errors of reading and checking, wrapped in a [*diag.Failure].
var (
	// ErrNoPlan: the file is not a saved plan.
	ErrNoPlan = errors.New("not a saved plan")
	// ErrVersion: another lvslab made it.
	ErrVersion = errors.New("plan was made by another version")
	// ErrOtherLab: it belongs to another lab, or to an earlier life of this one.
	ErrOtherLab = errors.New("plan is for another lab")
)

// StaleError says that the state has changed since the plan was made.
type StaleError struct{ Planned, Now uint64 }

func (e *StaleError) Error() string {
	if e.Now == 0 {
		return fmt.Sprintf("the state is gone; the plan was made at serial %d", e.Planned)
	}
	if e.Planned == 0 {
		return fmt.Sprintf("the lab has a state by now, serial %d; the plan was made without one", e.Now)
	}
	return fmt.Sprintf("state changed since: serial %d, plan was made at %d", e.Now, e.Planned)
}

// Is reports whether a file looks like a saved plan, to tell it from a topology.
func Is(path string) bool {
	b, err := os.ReadFile(path)
	return err == nil && bytes.HasPrefix(bytes.TrimSpace(b), []byte(`{"lvslab_plan":`))
}

// Write replaces path as a whole.
func Write(path string, f File) (err error) {
	text, err := encode(f)
	if err != nil {
		return fmt.Errorf("saved plan: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".plan-*")
	if err != nil {
		return unwritable(path, err)
	}
	defer func() {
		if err != nil {
			err = unwritable(path, errors.Join(err, os.Remove(tmp.Name())))
		}
	}()
	_, err = tmp.Write(text)
	if err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	return err
}

func unwritable(path string, err error) error {
	return diag.Fail(err, "plan was not saved", "give --out a path that can be written to", "%s", path)
}

// Read reads a saved plan. The error wraps [ErrNoPlan] or [ErrVersion].
func Read(path string) (File, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return File{}, diag.Fail(err, "saved plan cannot be read", "make one with lvslab plan --out FILE", "")
	}
	f, err := decode(b)
	switch {
	case errors.Is(err, ErrVersion):
		return File{}, diag.Fail(err, "plan was made by another lvslab", "make it again with lvslab plan --out "+path, "")
	case err != nil:
		return File{}, diag.Fail(err, "not a saved plan", "make one with lvslab plan --out FILE", "%s", path)
	}
	return f, nil
}

// Check refuses a plan that does not fit any more: lvslab is the version that
// runs; lineage and serial are the state's, zero values when there is none.
// The error wraps [ErrVersion], [ErrOtherLab] or [*StaleError].
func (f File) Check(lvslab, lineage string, serial uint64) error {
	again := "make the plan again: lvslab plan --out FILE"
	switch {
	case f.Lvslab != lvslab:
		return diag.Fail(ErrVersion, "plan was made by another lvslab", again, "version %s made it, this is %s", f.Lvslab, lvslab)
	case lineage != "" && f.Serial != 0 && f.Lineage != lineage:
		return diag.Fail(ErrOtherLab, "plan is for another lab", again, "the plan's lineage is %s, the state's is %s", f.Lineage, lineage)
	case f.Serial != serial:
		return diag.Fail(&StaleError{f.Serial, serial}, "plan is out of date", again, "")
	}
	return nil
}
