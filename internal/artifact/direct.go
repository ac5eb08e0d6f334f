package artifact

import (
	"errors"
	"strings"
)

// DirectPrefix begins the id of a control treatment whose load goes to a backend
// without LVS; the backend follows.
const DirectPrefix = "control=direct:"

// Direct returns the backend that a treatment of that id asks without LVS.
func Direct(treatment string) (backend string, ok bool) {
	return strings.CutPrefix(treatment, DirectPrefix)
}

// PastLVS reports whether the run's load went straight to a backend: then the
// columns of IPVS are empty.
func (r *Run) PastLVS() bool {
	_, ok := Direct(r.TreatmentID)
	return ok
}

// passing is a row that can be that of a run without LVS.
type passing interface {
	PastLVS() bool
	setPastLVS() error
}

var errNotDirect = errors.New("empty, but only a run without LVS leaves it so")

func (r *Run) setPastLVS() error {
	if !r.PastLVS() {
		return errNotDirect
	}
	return nil
}

// PastLVS reports whether the row's run went straight to a backend.
func (b *BackendRow) PastLVS() bool { return b.WithoutLVS }

func (b *BackendRow) setPastLVS() error { b.WithoutLVS = true; return nil }

// throughLVS makes a column empty in the rows of runs without LVS: a 0 there
// would be a count, and nothing was counted.
func throughLVS[T any](c column[T]) column[T] {
	get, set := c.get, c.set
	c.required = false
	c.description += "; empty without LVS"
	c.get = func(row *T) (string, error) {
		if any(row).(passing).PastLVS() {
			return "", nil
		}
		return get(row)
	}
	c.set = func(row *T, s string) error {
		switch r := any(row).(passing); {
		case s == "":
			return r.setPastLVS()
		case r.PastLVS():
			return errors.New("has a value, and the row's load went past IPVS")
		}
		return set(row, s)
	}
	return c
}
