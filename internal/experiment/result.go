package experiment

import (
	"slices"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/lang"
)

// Result is what an experiment offers to checks and outputs, computed from the
// rows of its runs: numbers over all runs; shares and decisions by treatment,
// summed over the treatment's valid runs (no decisions under persistence).
func Result(runs []artifact.Run, backends []artifact.BackendRow) lang.ExperimentResult {
	res := lang.ExperimentResult{Shares: map[string]map[string]float64{}, Decisions: map[string]float64{}}
	treatment, answers := map[string]string{}, map[string]int{}
	for _, r := range runs {
		res.Runs++
		res.Unanswered += r.Unanswered
		res.AnswersOK += r.AnswersOK
		res.Flags = append(res.Flags, r.OutcomeFlags...)
		if !r.Valid {
			continue
		}
		res.ValidRuns++
		treatment[r.RunID] = r.TreatmentID
		answers[r.TreatmentID] += r.AnswersOK
		if r.Decisions != nil {
			res.Decisions[r.TreatmentID] += float64(*r.Decisions)
		}
	}
	for _, b := range backends {
		id, ok := treatment[b.RunID]
		if !ok || answers[id] == 0 {
			continue
		}
		if res.Shares[id] == nil {
			res.Shares[id] = map[string]float64{}
		}
		res.Shares[id][b.Backend] += float64(b.AnswersOK) / float64(answers[id])
	}
	slices.Sort(res.Flags)
	res.Flags = slices.Compact(res.Flags)
	return res
}
