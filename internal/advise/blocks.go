package advise

import (
	"fmt"
	"math"

	"github.com/lvslab/lvslab/internal/stats"
)

// level and power are what claims are held to and planned for.
const (
	level = 0.05
	power = 0.8
)

// fewBlocks is the arithmetic of exact paired tests: n blocks cannot give a
// smaller two-sided p than 2/2ⁿ, and Holm's first step divides the level by the
// number of pairs.
var fewBlocks = Rule{
	ID:    "few-blocks",
	Title: "Too few blocks to tell treatments apart in time",
	Why: "The smallest two-sided p of an exact paired test with n blocks is 2/2ⁿ: 0.0625 with five, so not even one pair can be told apart at 5 %. " +
		"Holm's correction over all pairs needs more. Counts and shares are not concerned: they are compared exactly.",
	find: func(s *study) []Advice {
		k := len(s.treatments)
		if k < 2 {
			return nil
		}
		pairs := k * (k - 1) / 2
		need, n := stats.PairsNeeded(pairs, level), s.exp.Iterations
		if n >= need {
			return nil
		}
		text := fmt.Sprintf("%s give p ≥ %.4g; %s needs %d", count(n, "block"), stats.SmallestP(n), pairsText(pairs), need)
		if k > 2 {
			text += fmt.Sprintf(", %d against one %d", k-1, stats.PairsNeeded(k-1, level))
		}
		return []Advice{{Text: text, Fix: fmt.Sprintf("iterations = %d", need), Range: s.topology.Place(s.exp.Noun, "iterations", s.exp.Range)}}
	},
}

// Detectable says how small a difference in time so many blocks of so many
// treatments find, in standard deviations of the ln ratio of two treatments in
// one block; "" when they find none, which is advice of its own.
func Detectable(treatments, blocks int) string {
	pairs := treatments * (treatments - 1) / 2
	if pairs < 1 {
		return ""
	}
	e := stats.DetectableEffect(blocks, pairs, level, power)
	if math.IsInf(e, 1) {
		return ""
	}
	return fmt.Sprintf("%s and %s: a difference in time shows from %.2f standard deviations of ln ratios on (power %.0f %%, Holm at %.0f %%)",
		count(blocks, "block"), count(pairs, "pair"), e, 100*power, 100*level)
}

func pairsText(pairs int) string {
	if pairs == 1 {
		return "a pair"
	}
	return fmt.Sprintf("Holm over %d pairs", pairs)
}

var noControls = Rule{
	ID:    "no-controls",
	Title: "No control runs",
	Why: "Without one treatment twice under two names (A/A) nobody knows how far two equal things lie apart; " +
		"without the list head rotating over the blocks, scheduler and backend cannot be told apart where a scheduler keeps to one backend.",
	find: func(s *study) []Advice {
		if len(s.treatments) < 2 || s.exp.Controls != nil || s.varies("order") {
			return nil
		}
		return []Advice{{Text: "how far two equal treatments lie apart is not measured", Fix: `factor "order" { values = ["declared", "reversed"] }`, Range: s.exp.Range}}
	},
}
