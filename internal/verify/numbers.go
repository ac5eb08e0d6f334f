package verify

import (
	"math"

	"github.com/lvslab/lvslab/internal/artifact"
)

// row compares the cells of one row with what follows from the raw data.
type row struct {
	check *Check
	file  string
	name  string
}

func (w row) whole(column string, got, want int64) {
	w.check.Compared++
	if got != want {
		w.check.fail(w.file, w.name, "%s is %d, the raw data gives %d", column, got, want)
	}
}

// real compares numbers that the tables keep with six places.
func (w row) real(column string, got, want *float64) { w.places(column, 6, got, want) }

// places compares numbers that the tables keep with so many places.
func (w row) places(column string, places int, got, want *float64) {
	w.check.Compared++
	switch {
	case got == nil && want == nil:
	case got == nil:
		w.check.fail(w.file, w.name, "%s is empty, the raw data gives %.6f", column, *want)
	case want == nil:
		w.check.fail(w.file, w.name, "%s is %.6f, the raw data gives none", column, *got)
	case math.Abs(*got-*want) > 0.501*math.Pow10(-places):
		w.check.fail(w.file, w.name, "%s is %.6f, the raw data gives %.6f", column, *got, *want)
	}
}

func (w row) maybe(column string, got, want *int) {
	w.check.Compared++
	switch {
	case got == nil && want == nil:
	case got == nil:
		w.check.fail(w.file, w.name, "%s is empty, the raw data gives %d", column, *want)
	case want == nil:
		w.check.fail(w.file, w.name, "%s is %d, the raw data gives none", column, *got)
	case *got != *want:
		w.check.fail(w.file, w.name, "%s is %d, the raw data gives %d", column, *got, *want)
	}
}

func (w row) text(column, got, want string) {
	w.check.Compared++
	if got != want {
		w.check.fail(w.file, w.name, "%s is %q, the raw data gives %q", column, got, want)
	}
}

func runRow(c *Check, r artifact.Run) row { return row{c, artifact.RunsFile, r.RunID} }

func backendRow(c *Check, b artifact.BackendRow) row {
	return row{c, artifact.BackendsFile, b.RunID + " " + b.Backend}
}

// ratio is a/b, nil where b is 0.
func ratio(a, b float64) *float64 {
	if b == 0 {
		return nil
	}
	v := a / b
	return &v
}
