package ipvsmodel

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lvslab/lvslab/internal/stats"
)

// unlikely is below which chance an outcome is held for another rule's. One
// replay in ten thousand is, of a kernel that keeps its rules.
const unlikely = 1e-4

// chances holds what has been sent since the last tally against the chances that
// the line gives each backend, in parts: 1=1 2=3 is a quarter and three quarters.
// The test is exact, and independent choices are what it takes for granted, such
// as those of twos over one-packet entries.
func (r *runner) chances(s Step) error {
	var counts []int
	var parts []float64
	var seen []string
	asked := map[string]int{}
	for k, v := range s.Options {
		n, err := strconv.Atoi(v)
		if err != nil {
			return s.errorf("%s=%s", k, v)
		}
		asked[k] = n
	}
	for _, k := range sortedKeys(asked, r.tally) {
		counts, parts = append(counts, r.tally[k]), append(parts, float64(asked[k]))
		seen = append(seen, fmt.Sprintf("%s %d times", k, r.tally[k]))
	}
	clear(r.tally)
	test, err := stats.Multinomial(counts, parts, 0, 0)
	if err != nil {
		return s.errorf("%w", err)
	}
	if test.P < unlikely {
		r.differ(s, "%s: by these chances one case in %.0g", strings.Join(seen, ", "), 1/max(test.P, 1e-300))
	}
	return nil
}
