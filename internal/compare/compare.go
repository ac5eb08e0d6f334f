// Package compare puts two results side by side: what changed in their inputs,
// which outcomes differ, and what time took where that may be compared at all.
// It is pure but for reading the results.
package compare

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/report"
)

// Change is one thing that is not the same in both results.
type Change struct {
	Name string `json:"name"`
	A    string `json:"a"` // "" = not there
	B    string `json:"b"`
}

// Side is one of the two results.
type Side struct {
	Dir         string `json:"dir"`
	Study       string `json:"study"`
	Lvslab      string `json:"lvslab"`
	GuestKernel string `json:"guest_kernel"`
	Accelerator string `json:"accelerator"`
	Runs        int    `json:"runs"`
	ValidRuns   int    `json:"valid_runs"`
}

// Treatment is a treatment that both results have.
type Treatment struct {
	Experiment string `json:"experiment"`
	ID         string `json:"treatment_id"`
	RunsA      int    `json:"runs_a"` // valid ones
	RunsB      int    `json:"runs_b"`
	// Differences are the outcomes whose values over the runs of one result do
	// not meet those of the other; empty = alike.
	Differences []Change `json:"differences"`
}

// Comparison is what [Results] found.
type Comparison struct {
	A          Side        `json:"a"`
	B          Side        `json:"b"`
	Inputs     []Change    `json:"inputs"`
	OnlyA      []string    `json:"only_a"` // treatments, experiment: id
	OnlyB      []string    `json:"only_b"`
	Treatments []Treatment `json:"treatments"`
	Verdicts   []Change    `json:"verdicts"` // by experiment and id; levels
	Time       Time        `json:"time"`
}

// Alike counts the treatments without a difference.
func (c Comparison) Alike() int {
	n := 0
	for _, t := range c.Treatments {
		if len(t.Differences) == 0 {
			n++
		}
	}
	return n
}

// Results compares two results.
func Results(a, b *artifact.Artifact) (Comparison, error) {
	c := Comparison{A: side(a), B: side(b), Inputs: inputs(a, b), OnlyA: []string{}, OnlyB: []string{}, Treatments: []Treatment{}, Verdicts: []Change{}}
	ga, gb := groups(a), groups(b)
	var both [][2]group
	for _, g := range ga {
		if i := slices.IndexFunc(gb, g.same); i >= 0 {
			both = append(both, [2]group{g, gb[i]})
		} else {
			c.OnlyA = append(c.OnlyA, g.name())
		}
	}
	for _, g := range gb {
		if !slices.ContainsFunc(ga, g.same) {
			c.OnlyB = append(c.OnlyB, g.name())
		}
	}
	for _, p := range both {
		c.Treatments = append(c.Treatments, Treatment{Experiment: p[0].experiment, ID: p[0].id, RunsA: len(p[0].runs), RunsB: len(p[1].runs),
			Differences: outcomes(p[0], p[1])})
	}
	var err error
	if c.Verdicts, err = verdicts(a, b); err != nil {
		return c, err
	}
	c.Time = times(a.Manifest(), b.Manifest(), both)
	return c, nil
}

func side(a *artifact.Artifact) Side {
	m := a.Manifest()
	s := Side{Dir: a.Dir(), Study: m.Study, Lvslab: m.Versions.Lvslab, GuestKernel: m.Versions.GuestKernel, Accelerator: m.Accelerator, Runs: len(a.Runs())}
	for _, r := range a.Runs() {
		if r.Valid {
			s.ValidRuns++
		}
	}
	return s
}

// run is a valid run with the rows of its backends.
type run struct {
	artifact.Run
	rows []artifact.BackendRow
}

// group is one treatment with its valid runs.
type group struct {
	experiment, id string
	runs           []run
}

func (g group) name() string { return g.experiment + ": " + g.id }

func (g group) same(o group) bool { return g.experiment == o.experiment && g.id == o.id }

func groups(a *artifact.Artifact) []group {
	rows := map[string][]artifact.BackendRow{}
	for _, b := range a.Backends() {
		rows[b.RunID] = append(rows[b.RunID], b)
	}
	var out []group
	for _, r := range a.Runs() {
		i := slices.IndexFunc(out, func(g group) bool { return g.experiment == r.Experiment && g.id == r.TreatmentID })
		if i < 0 {
			i = len(out)
			out = append(out, group{experiment: r.Experiment, id: r.TreatmentID})
		}
		if r.Valid {
			out[i].runs = append(out[i].runs, run{r, rows[r.RunID]})
		}
	}
	slices.SortStableFunc(out, func(a, b group) int { return strings.Compare(a.name(), b.name()) })
	return out
}

// span is the smallest and the largest of some whole numbers.
type span struct {
	low, high int64
	some      bool
}

func (s *span) add(v int64) {
	if !s.some || v < s.low {
		s.low = v
	}
	if !s.some || v > s.high {
		s.high = v
	}
	s.some = true
}

func (s span) String() string {
	switch {
	case !s.some:
		return ""
	case s.low == s.high:
		return fmt.Sprint(s.low)
	}
	return fmt.Sprintf("%d to %d", s.low, s.high)
}

// meets reports whether two spans have a number in common.
func (s span) meets(o span) bool {
	if !s.some || !o.some {
		return s.some == o.some
	}
	return s.low <= o.high && o.low <= s.high
}

// outcomes compares the counts of two treatments: whole numbers, the same in
// every run where the kernel is deterministic. They differ when the range of one
// result does not meet that of the other.
func outcomes(a, b group) []Change {
	out := []Change{}
	if len(a.runs) == 0 || len(b.runs) == 0 {
		return out
	}
	compare := func(name string, value func(run) (int64, bool)) {
		if sa, sb := a.span(value), b.span(value); !sa.meets(sb) {
			out = append(out, Change{name, sa.String(), sb.String()})
		}
	}
	whole := func(value func(run) int) func(run) (int64, bool) {
		return func(r run) (int64, bool) { return int64(value(r)), true }
	}
	compare("decisions", func(r run) (int64, bool) {
		if r.Decisions == nil {
			return 0, false
		}
		return int64(*r.Decisions), true
	})
	compare("source_ports", whole(func(r run) int { return r.SourcePorts }))
	compare("queries_sent", whole(func(r run) int { return r.QueriesSent }))
	compare("answers_ok", whole(func(r run) int { return r.AnswersOK }))
	compare("unanswered", whole(func(r run) int { return r.Unanswered }))
	compare("conn_rows_after", whole(func(r run) int { return r.ConnRowsAfter }))
	for _, name := range backendNames(a, b) {
		compare("ipvs_conns_delta of "+short(name), func(r run) (int64, bool) {
			for _, row := range r.rows {
				if row.Backend == name {
					return row.IPVSConnsDelta, true
				}
			}
			return 0, false
		})
		compare("answers_ok of "+short(name), func(r run) (int64, bool) {
			for _, row := range r.rows {
				if row.Backend == name {
					return int64(row.AnswersOK), true
				}
			}
			return 0, false
		})
	}
	if fa, fb := a.flags(), b.flags(); fa != fb {
		out = append(out, Change{"outcome_flags", fa, fb})
	}
	return out
}

func (g group) span(value func(run) (int64, bool)) span {
	var s span
	for _, r := range g.runs {
		if v, ok := value(r); ok {
			s.add(v)
		}
	}
	return s
}

func (g group) flags() string {
	var all []string
	for _, r := range g.runs {
		all = append(all, r.OutcomeFlags...)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

func backendNames(a, b group) []string {
	var out []string
	for _, g := range []group{a, b} {
		for _, r := range g.runs {
			for _, row := range r.rows {
				out = append(out, row.Backend)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func short(backend string) string { return strings.TrimPrefix(backend, "backend.") }

// verdicts derives the verdicts of both results with the rules of this version
// and names those that only one has, or that have another level.
func verdicts(a, b *artifact.Artifact) ([]Change, error) {
	levels := [2]map[string]string{{}, {}}
	var order []string
	for i, r := range []*artifact.Artifact{a, b} {
		in, err := report.FromArtifact(r)
		if err != nil {
			return nil, err
		}
		for _, e := range report.Build(in).Experiments {
			for _, v := range e.Verdicts {
				key := e.Facts.Experiment + ": " + v.ID
				levels[i][key] = string(v.Level)
				if !slices.Contains(order, key) {
					order = append(order, key)
				}
			}
		}
	}
	out := []Change{}
	for _, key := range order {
		if levels[0][key] != levels[1][key] {
			out = append(out, Change{key, levels[0][key], levels[1][key]})
		}
	}
	return out, nil
}
