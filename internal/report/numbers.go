package report

import (
	"fmt"
	"slices"
	"sort"

	"github.com/lvslab/lvslab/internal/verdict"
)

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// seconds writes a time with three significant places and more, never fewer
// than milliseconds: what is shown is shorter than what the tables hold.
func seconds(v float64) string {
	switch {
	case v < 0.01:
		return fmt.Sprintf("%.5f", v)
	case v < 0.1:
		return fmt.Sprintf("%.4f", v)
	case v < 100:
		return fmt.Sprintf("%.3f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

// distText writes "0.814 (0.639–1.016)", a dash when there is nothing.
func distText(d *Dist) string {
	if d == nil {
		return "–"
	}
	return fmt.Sprintf("%s (%s–%s)", seconds(d.Median), seconds(d.Min), seconds(d.Max))
}

// wholeText writes a range of whole numbers.
func wholeText(r *Range) string {
	switch {
	case r == nil:
		return "–"
	case r.Min == r.Max:
		return verdict.Count(int64(r.Min))
	}
	return verdict.Count(int64(r.Min)) + "–" + verdict.Count(int64(r.Max))
}

// indexText writes a range of indexes between 0 and 1.
func indexText(r *Range) string {
	if r == nil {
		return "–"
	}
	low, high := fmt.Sprintf("%.3f", r.Min), fmt.Sprintf("%.3f", r.Max)
	if low == high {
		return low
	}
	return low + "–" + high
}

// shareText writes a backend's share over the blocks.
func shareText(s Share) string {
	low, high := verdict.Percent(s.Min), verdict.Percent(s.Max)
	if low == high {
		return low
	}
	return low + "–" + high
}

// runsText writes the number of runs, "4 of 5" when some are not valid.
func runsText(t Treatment) string {
	if t.ValidRuns == t.Runs {
		return verdict.Count(t.Runs)
	}
	return fmt.Sprintf("%s of %s", verdict.Count(t.ValidRuns), verdict.Count(t.Runs))
}

// okText writes "5,000/5,000".
func okText(t Treatment) string {
	return verdict.Count(t.AnswersOK) + "/" + verdict.Count(t.QueriesPlanned)
}

// firstColumn names the column of the treatments' labels.
func (e Experiment) firstColumn() string {
	if len(e.Facts.Factors) == 1 {
		return e.Facts.Factors[0]
	}
	return "treatment"
}

// count returns the number of verdicts of a level.
func (e Experiment) count(l verdict.Level) int {
	n := 0
	for _, v := range e.Verdicts {
		if v.Level == l {
			n++
		}
	}
	return n
}

// failedChecks returns the checks that did not pass.
func (s Summary) failedChecks() []Check {
	return slices.DeleteFunc(slices.Clone(s.Checks), func(c Check) bool { return c.Passed })
}
