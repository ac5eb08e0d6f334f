package verdict

import (
	"fmt"
	"math"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/stats"
)

// equivalence says which pairs are shown to be equal within the factor that the
// user stated: two one-sided tests each on the log ratios inside blocks, after
// Holm's correction over the pairs. That a difference was not found shows nothing
// of the kind. Where times may not be compared there is no word here: timing
// refuses both.
func equivalence(s *study) []Verdict {
	matrix, blocks := s.matrix(s.measure())
	n, k := len(matrix), len(s.groups)
	if !s.wantsEquality() || k < 2 {
		return nil
	}
	if why, _ := obstacles(s, n, k, blocks); len(why) > 0 {
		return nil
	}
	pairs := pairsOf(s, matrix)
	results := make([]stats.TOSTResult, len(pairs))
	ps := make([]float64, len(pairs))
	for i, p := range pairs {
		r, err := stats.TOST(p.d, math.Log(s.EqualWithin), level)
		if err != nil {
			return nil // fewer than two blocks, which obstacles does not let through
		}
		results[i], ps[i] = r, r.P
	}
	var equal, open []string
	worst := 0.0
	for i, adjusted := range stats.Holm(ps) {
		text := fmt.Sprintf("%s and %s (%.0f %% interval %.3f to %.3f, p = %s)", pairs[i].a, pairs[i].b, 100*(1-2*level),
			math.Exp(results[i].Low), math.Exp(results[i].High), probability(adjusted))
		worst = max(worst, results[i].SD)
		if adjusted <= level {
			equal = append(equal, text)
		} else {
			open = append(open, text)
		}
	}
	return []Verdict{equalityVerdict(s, n, blocks, equal, open, stats.EquivalenceRatio(n, worst, level, planPower))}
}

// wantsEquality reports whether the user has stated what counts as equal.
func (s *study) wantsEquality() bool { return s.EqualWithin > 1 }

func equalityVerdict(s *study, n int, blocks []int, equal, open []string, reach float64) Verdict {
	all := len(equal) + len(open)
	v := Verdict{ID: "equivalent", Level: Finding, Title: "Equal within the factor that was stated",
		Text: fmt.Sprintf("Within the factor of %.4g that was stated before, %s are shown to be equal by paired equivalence tests over %s",
			s.EqualWithin, of(len(equal), all, "pair"), some(n, "block")),
		Evidence: []Evidence{{artifact.RunsFile, fmt.Sprintf("blocks %d to %d", blocks[0], blocks[n-1]), s.measure().column, fmt.Sprintf("%d × %d values", n, len(s.groups))}}}
	if k := len(equal); k > 0 && k <= maxNames {
		v.Text += ": " + strings.Join(equal, "; ")
	}
	v.Text += "."
	if len(open) == 0 {
		v.Remedy = "Name the factor with the claim: that they are equal within a smaller one was not asked."
		return v
	}
	if len(equal) == 0 {
		v.ID, v.Level, v.Title = "not-equivalent", Refusal, "Not shown to be equal"
	}
	if len(open) <= maxNames {
		v.Text += " Not shown is it of " + strings.Join(open, "; ") + "."
	}
	v.Text += " Not shown to be equal is not shown to be different."
	v.Remedy = fmt.Sprintf("With the widest spread seen, %s can show two equal treatments to be equal within %.3f; more blocks reach a smaller factor.", some(n, "block"), reach)
	return v
}
