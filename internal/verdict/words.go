package verdict

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Count writes a whole number with a comma between thousands.
func Count[T ~int | ~int64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// of writes "n of m things", with the thing in the right number.
func of(n, m int, thing string) string {
	return Count(n) + " of " + Count(m) + " " + plural(m, thing)
}

// some writes "n things".
func some[T ~int | ~int64](n T, thing string) string { return Count(n) + " " + plural(int(n), thing) }

func plural(n int, thing string) string {
	switch {
	case n == 1:
		return thing
	case strings.HasSuffix(thing, "y"):
		return thing[:len(thing)-1] + "ies"
	}
	return thing + "s"
}

// verb picks the form of a verb that goes with n things.
func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// maxNames is how many names a sentence lists before it gives their number.
const maxNames = 12

// names lists things: "rr", "rr and dh", "rr, lc and dh", or their number.
func names(list []string, thing string) string {
	switch n := len(list); {
	case n == 0:
		return "no " + thing
	case n == 1:
		return list[0]
	case n > maxNames:
		return some(n, thing)
	default:
		return strings.Join(list[:n-1], ", ") + " and " + list[n-1]
	}
}

// between writes "a" or "a to b" of numbers that were counted.
func between(low, high int) string {
	if low == high {
		return Count(low)
	}
	return Count(low) + " to " + Count(high)
}

// Percent writes a share with as many places as tell it from 0 and 1.
func Percent(v float64) string {
	p := 100 * v
	switch {
	case p == math.Trunc(p):
		return fmt.Sprintf("%.0f %%", p)
	case p < 0.1 || p > 99.9:
		return fmt.Sprintf("%.3f %%", p)
	}
	return fmt.Sprintf("%.1f %%", p)
}

// percentBetween writes "97.9 % to 100 %", or one of them.
func percentBetween(low, high float64) string {
	if Percent(low) == Percent(high) {
		return Percent(low)
	}
	return Percent(low) + " to " + Percent(high)
}

// labels are the short names of groups.
func labels(groups []group) []string {
	out := make([]string, len(groups))
	for i, g := range groups {
		out[i] = g.label
	}
	return out
}

// runsOf counts the runs of groups.
func runsOf(groups []group) int {
	n := 0
	for _, g := range groups {
		n += len(g.runs)
	}
	return n
}

// firstIDs lists up to three run ids and how many follow.
func firstIDs(runs []run) string {
	var ids []string
	for i, r := range runs {
		if i == 3 {
			ids = append(ids, fmt.Sprintf("and %s more", Count(len(runs)-3)))
			break
		}
		ids = append(ids, r.RunID)
	}
	return strings.Join(ids, ", ")
}
