package advise

import (
	"fmt"
	"math"
	"slices"
	"strings"

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
		"without the list head rotating over the blocks, scheduler and backend cannot be told apart where a scheduler keeps to one backend; " +
		"and without each backend alone, past LVS, nobody knows what of a loss or a difference is the backend's own.",
	find: func(s *study) []Advice {
		var missing []string
		if c := s.exp.Controls; c == nil || !c.AA {
			missing = append(missing, "aa = true")
		}
		if c := s.exp.Controls; (c == nil || !c.Rotate) && !s.varies("order") && s.onePlace() {
			missing = append(missing, "rotate = true")
			if c == nil || !c.Direct { // with rotation each backend has its turn
				missing = append(missing, "direct = true")
			}
		}
		if len(s.treatments) < 2 || len(missing) == 0 {
			return nil
		}
		text := "scheduler and backend cannot be told apart"
		if missing[0] == "aa = true" {
			text = "how far two equal treatments lie apart is not measured"
		}
		return []Advice{{Text: text, Fix: "controls with " + and(missing), Range: s.exp.Range}}
	},
}

// and lists arguments in a sentence: a, b and c.
func and(list []string) string {
	if len(list) < 3 {
		return strings.Join(list, " and ")
	}
	return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
}

// onePlace reports whether a treatment may keep to one place of the list: its
// scheduler does, or its ports are too few.
func (s *study) onePlace() bool {
	return len(s.which(func(t treatment) bool {
		return t.usable > 1 && (t.ports < t.usable || !slices.Contains([]string{"rr", "wrr", "lc", "wlc"}, t.Setting.Scheduler))
	})) > 0
}

var partRotation = Rule{
	ID:    "part-rotation",
	Title: "A rotation that does not come round",
	Why: "With rotate each block has another list head. When the number of blocks is no multiple of the number of real servers, " +
		"some of them are the head more often, and what keeps to the head leans to their speed.",
	find: func(s *study) []Advice {
		n := len(s.service.RealServers)
		if s.exp.Controls == nil || !s.exp.Controls.Rotate || n < 2 || s.exp.Iterations%n == 0 {
			return nil
		}
		return []Advice{{Text: fmt.Sprintf("%s over %d list heads", count(s.exp.Iterations, "block"), n),
			Fix: fmt.Sprintf("iterations = %d", (s.exp.Iterations/n+1)*n), Range: s.topology.Place(s.exp.Noun, "iterations", s.exp.Range)}}
	},
}
