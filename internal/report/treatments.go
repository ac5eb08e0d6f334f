package report

import (
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/verdict"
)

// Treatment is one line of the table. Everything but Runs is over valid runs.
type Treatment struct {
	ID             string  `json:"treatment_id"`
	Label          string  `json:"label"`
	Control        bool    `json:"control,omitempty"`
	Runs           int     `json:"runs"`
	ValidRuns      int     `json:"valid_runs"`
	QueriesPlanned int     `json:"queries_planned"`
	AnswersOK      int     `json:"answers_ok"`
	Unanswered     int     `json:"unanswered"`
	Shares         []Share `json:"shares"` // of the accepted answers, in the order of Backends
	// Places are the same shares by place of the list, head first; only where the
	// list turned, and never without LVS, where none is used.
	Places      []PlaceShare `json:"places,omitempty"`
	SourcePorts *Range       `json:"source_ports"`
	Decisions   *Range       `json:"decisions"` // nil when unknown
	Jain        *Range       `json:"jain_weighted"`
	// ByBackend is nil where the model of IPVS planned nothing.
	ByBackend *Decisions `json:"decisions_by_backend,omitempty"`
	// ByPlace is the same by place where the list turned; head first.
	ByPlace     *Decisions `json:"decisions_by_place,omitempty"`
	BatchS      *Dist      `json:"batch_s"`
	LatencyP50S *Dist      `json:"latency_p50_s"`
	Flags       []Flag     `json:"outcome_flags,omitempty"`
	// Excluded are the reasons for which runs are not valid, each with the number
	// of runs; a run may have several.
	Excluded []Flag  `json:"excluded,omitempty"`
	Points   []Point `json:"points"`
}

// Share is one backend's part of the accepted answers over the runs.
type Share struct {
	Backend string  `json:"backend"`
	Min     float64 `json:"min"`
	Mean    float64 `json:"mean"` // of all answers of the treatment together
	Max     float64 `json:"max"`
}

// Flag is an outcome flag and the number of runs that carry it.
type Flag struct {
	Name string `json:"name"`
	Runs int    `json:"runs"`
}

// Point is one run as the charts show it.
type Point struct {
	RunID   string   `json:"run_id"`
	Block   int      `json:"block"`
	Order   int      `json:"order"`
	Valid   bool     `json:"valid"`
	BatchS  *float64 `json:"batch_s"`
	Backend string   `json:"backend"` // the only one used, "" when several
}

// treatments makes the lines of the table: the planned treatments in declared
// order, then those that only the rows know, then controls.
func treatments(f verdict.Facts, backends []string, runs []artifact.Run, rows map[string][]artifact.BackendRow) []Treatment {
	at := map[string]int{}
	var list []verdict.Treatment
	for _, t := range f.Treatments {
		at[t.ID] = len(list)
		list = append(list, t)
	}
	byID := map[string][]artifact.Run{}
	for _, r := range runs {
		if _, ok := at[r.TreatmentID]; !ok {
			at[r.TreatmentID] = len(list)
			list = append(list, f.TreatmentOf(r))
		}
		byID[r.TreatmentID] = append(byID[r.TreatmentID], r)
	}
	var out, controls []Treatment
	for _, t := range list {
		line := treatment(t.ID, backends, byID[t.ID], rows)
		line.Label = verdict.Label(f.Factors, t)
		if line.Control = strings.HasPrefix(t.ID, "control="); line.Control {
			line.Label = controlLabel(f.Factors, t)
			controls = append(controls, line)
		} else {
			out = append(out, line)
		}
	}
	return append(out, controls...)
}

// controlLabel names a control for people: the treatment that is made twice, or
// the backend that is asked without LVS.
func controlLabel(factors []string, t verdict.Treatment) string {
	if b, ok := artifact.Direct(t.ID); ok {
		return verdict.Short(b) + " without LVS"
	}
	if label := verdict.Label(factors, t); t.ID == "control=aa" && label != t.ID {
		return label + " again (A/A)"
	}
	return t.ID
}

func treatment(id string, backends []string, runs []artifact.Run, rows map[string][]artifact.BackendRow) Treatment {
	t := Treatment{ID: id, Runs: len(runs), Points: []Point{}, Shares: []Share{}}
	var ports, decisions, jain, batch, p50 []float64
	flags, excluded := map[string]int{}, map[string]int{}
	var valid []artifact.Run
	for _, r := range runs {
		t.Points = append(t.Points, pointOf(r, rows[r.RunID]))
		if !r.Valid {
			for _, why := range verdict.WhyNot(r) {
				excluded[why]++
			}
			continue
		}
		t.ValidRuns++
		valid = append(valid, r)
		t.QueriesPlanned += r.QueriesPlanned
		t.AnswersOK += r.AnswersOK
		t.Unanswered += r.Unanswered
		ports = append(ports, float64(r.SourcePorts))
		if r.Decisions != nil {
			decisions = append(decisions, float64(*r.Decisions))
		}
		jain = appendIf(jain, r.JainWeighted)
		batch = appendIf(batch, r.BatchS)
		p50 = appendIf(p50, r.LatencyP50)
		for _, f := range r.OutcomeFlags {
			flags[f]++
		}
	}
	t.SourcePorts, t.Decisions, t.Jain = rangeOf(ports), rangeOf(decisions), rangeOf(jain)
	if len(decisions) != t.ValidRuns {
		t.Decisions = nil // not known in some run
	}
	t.ByBackend = decisionsBy(valid, rows, len(backends), func(b artifact.BackendRow) int { return slices.Index(backends, b.Backend) })
	t.BatchS, t.LatencyP50S = distOf(batch), distOf(p50)
	shares := sharesBy(valid, rows, func(b artifact.BackendRow) string { return b.Backend })
	for _, b := range backends {
		if s, ok := shares[b]; ok {
			s.Backend = b
			t.Shares = append(t.Shares, s)
		}
	}
	t.Flags, t.Excluded = flagsOf(flags), flagsOf(excluded)
	return t
}

func flagsOf(counts map[string]int) (out []Flag) {
	for _, name := range sortedKeys(counts) {
		out = append(out, Flag{name, counts[name]})
	}
	return out
}

func pointOf(r artifact.Run, rows []artifact.BackendRow) Point {
	p := Point{RunID: r.RunID, Block: r.Block, Order: r.Order, Valid: r.Valid, BatchS: r.BatchS}
	used := 0
	for _, b := range rows {
		if b.AnswersOK > 0 {
			used++
			p.Backend = b.Backend
		}
	}
	if used != 1 {
		p.Backend = ""
	}
	return p
}

func appendIf(list []float64, v *float64) []float64 {
	if v == nil {
		return list
	}
	return append(list, *v)
}
