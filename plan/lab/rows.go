package lab

import (
	"slices"

	"github.com/lvslab/lvslab/internal/artifact"
)

// runOf is a row of runs.csv with its rows of backends.csv.
func runOf(r artifact.Run, rows []artifact.BackendRow) Run {
	out := Run{
		ID: r.RunID, Experiment: r.Experiment, Treatment: r.TreatmentID, Block: r.Block,
		Valid: r.Valid, Flags: append(slices.Clone(r.PreconditionFailures), r.OutcomeFlags...),
		Sent: r.QueriesSent, Answered: r.AnswersOK, Decisions: -1,
	}
	if r.Decisions != nil {
		out.Decisions = *r.Decisions
	}
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b artifact.BackendRow) int { return a.Position - b.Position })
	for _, b := range rows {
		out.Backends = append(out.Backends, Backend{Name: b.Backend, Answered: b.AnswersOK, Conns: b.IPVSConnsDelta})
	}
	return out
}
