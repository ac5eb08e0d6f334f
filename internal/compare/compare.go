// Package compare puts two results side by side: what changed in their inputs,
// which outcomes differ, and what time took where that may be compared at all.
// It is pure but for reading the results.
package compare

import (
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
	// ListTurns: the kernel's list did not begin with the same backend in all runs.
	// What the backends got is then compared by place of the list or by backend,
	// whichever the counts keep to.
	ListTurns bool `json:"list_turns,omitempty"`
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
	declared := sameOrder(a.Manifest(), b.Manifest())
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
		m := match{p[0], p[1], turned(p[0], p[1], declared)}
		c.Treatments = append(c.Treatments, Treatment{Experiment: p[0].experiment, ID: p[0].id, RunsA: len(p[0].runs), RunsB: len(p[1].runs),
			ListTurns: m.turned, Differences: m.outcomes()})
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
