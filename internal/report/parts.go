package report

import (
	"slices"

	"github.com/lvslab/lvslab/internal/artifact"
)

// sharesBy returns the share of the accepted answers of each part of a treatment's
// valid runs: of each backend, or of each place of the list. Runs without an answer
// have no shares; a part that has none is left out.
func sharesBy[P comparable](runs []artifact.Run, rows map[string][]artifact.BackendRow, part func(artifact.BackendRow) P) map[P]Share {
	shares, sums, total := map[P][]float64{}, map[P]int{}, 0
	for _, r := range runs {
		inRun := 0
		for _, b := range rows[r.RunID] {
			inRun += b.AnswersOK
			sums[part(b)] += b.AnswersOK
		}
		total += inRun
		for _, b := range rows[r.RunID] {
			if inRun > 0 {
				shares[part(b)] = append(shares[part(b)], float64(b.AnswersOK)/float64(inRun))
			}
		}
	}
	out := map[P]Share{}
	for p, list := range shares {
		out[p] = Share{Min: slices.Min(list), Mean: float64(sums[p]) / float64(total), Max: slices.Max(list)}
	}
	return out
}

// decisionsBy adds up the decisions of the valid runs through IPVS that have a plan,
// by the index of the part that a row has, for n parts or as many as there are; nil
// when there is no such run.
func decisionsBy(runs []artifact.Run, rows map[string][]artifact.BackendRow, n int, part func(artifact.BackendRow) int) *Decisions {
	d := Decisions{Planned: make([]int64, n), Counted: make([]int64, n)}
	for _, r := range runs {
		if !r.Valid || r.PastLVS() || len(rows[r.RunID]) == 0 || slices.ContainsFunc(rows[r.RunID], func(b artifact.BackendRow) bool { return b.PlannedDecisions == nil }) {
			continue
		}
		d.Runs++
		for _, b := range rows[r.RunID] {
			i := part(b)
			for i >= len(d.Planned) {
				d.Planned, d.Counted = append(d.Planned, 0), append(d.Counted, 0)
			}
			d.Planned[i] += int64(*b.PlannedDecisions)
			d.Counted[i] += b.IPVSConnsDelta
		}
	}
	if d.Runs == 0 {
		return nil
	}
	return &d
}
