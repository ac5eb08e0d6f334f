package verdict

import (
	"fmt"
	"math"
	"strings"

	"github.com/lvslab/lvslab/internal/stats"
)

// equality says which pairs are shown to be equal within the factor that the user
// stated: two one-sided tests each, after Holm's correction over the pairs.
func equality(s *study, blocks int, pairs []pair) string {
	if !(s.EqualWithin > 1) {
		return ""
	}
	var ps []float64
	for _, p := range pairs {
		r, err := stats.TOST(p.d, math.Log(s.EqualWithin), level)
		if err != nil {
			return "" // fewer than two blocks, which no claim is made from
		}
		ps = append(ps, r.P)
	}
	var equal []string
	for i, adjusted := range stats.Holm(ps) {
		if adjusted <= level {
			equal = append(equal, fmt.Sprintf("%s and %s (p = %s)", pairs[i].a, pairs[i].b, probability(adjusted)))
		}
	}
	text := fmt.Sprintf("Within the factor of %.4g that was stated before, %s are shown to be equal by paired equivalence tests over %s",
		s.EqualWithin, of(len(equal), len(pairs), "pair"), some(blocks, "block"))
	if n := len(equal); n > 0 && n <= maxNames {
		text += ": " + strings.Join(equal, "; ")
	}
	return text + ". "
}
