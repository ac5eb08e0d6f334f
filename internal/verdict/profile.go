package verdict

import (
	"fmt"
	"math"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
)

// A timing profile is what a study must be for its times to be compared. Short
// runs measure what happens once (first packets, empty caches, timers of the
// estimator); few repetitions hide how far a treatment's own runs lie apart; and a
// closed loop asks less often the slower the answers are, so that it leaves out
// just the queries that would have waited (coordinated omission).
const (
	profileSeconds = 60 // of the shortest run
	profileBlocks  = 20 // complete ones
)

// openLoop is LoadMode of runs whose queries are sent by the clock.
const openLoop = "lvslab-open"

// measure is the column that times are compared by.
type measure struct {
	column string
	of     func(artifact.Run) *float64
}

// measure is latency_p50_s where the load keeps to the clock: batch_s is then what
// the rate makes it. Else it is batch_s.
func (s *study) measure() measure {
	if s.allOpen() {
		return measure{"latency_p50_s", func(r artifact.Run) *float64 { return r.LatencyP50 }}
	}
	return measure{"batch_s", func(r artifact.Run) *float64 { return r.BatchS }}
}

// allOpen reports whether every run of a treatment was an open loop.
func (s *study) allOpen() bool {
	for _, g := range s.groups {
		for _, r := range g.runs {
			if r.LoadMode != openLoop {
				return false
			}
		}
	}
	return len(s.groups) > 0
}

// shortest is how long the shortest run lasted, seconds; 0 without a figure.
func (s *study) shortest() float64 {
	least := math.Inf(1)
	for _, g := range s.groups {
		for _, r := range g.runs {
			if r.ResolvedS == nil {
				return 0
			}
			least = min(least, *r.ResolvedS)
		}
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}

// noProfile says what a study of n complete blocks and k treatments lacks to be a timing profile,
// in one clause; "" when it lacks nothing.
func noProfile(s *study, n, k int) (string, []Evidence) {
	var has []string
	var ev []Evidence
	if !s.allOpen() {
		has = append(has, "a closed loop")
		ev = append(ev, Evidence{artifact.RunsFile, "valid = true", "load_mode", "not " + openLoop + " in all"})
	}
	if short := s.shortest(); short < profileSeconds {
		has = append(has, fmt.Sprintf("runs from %.3g s", short))
		ev = append(ev, Evidence{artifact.RunsFile, "valid = true", "resolved_s", fmt.Sprintf("%.3f at least", short)})
	}
	if n < profileBlocks {
		has = append(has, some(n, "complete block"))
		ev = append(ev, s.completeBlocks(n, k))
	}
	if len(has) == 0 {
		return "", nil
	}
	return fmt.Sprintf("times are compared only in an open loop, over runs of %d s or more, in %d blocks or more (here: %s)",
		profileSeconds, profileBlocks, strings.Join(has, ", ")), ev
}

// completeBlocks is the evidence that n blocks have the measure of all k treatments.
func (s *study) completeBlocks(n, k int) Evidence {
	return Evidence{artifact.RunsFile, "valid = true", "block", fmt.Sprintf("%d blocks with %s of all %d treatments", n, s.measure().column, k)}
}
