package compare

import (
	"slices"
	"strings"
)

// match is one treatment in both results.
type match struct {
	a, b   group
	turned bool
}

// runs are the valid ones of both results.
func (m match) runs() []run { return slices.Concat(m.a.runs, m.b.runs) }

// all is the span of a value over the runs of both results.
func (m match) all(of func(run) (value, bool)) span { return group{runs: m.runs()}.span(of) }

// differs is the change of a value, nil when the ranges of both results meet.
func (m match) differs(name string, of func(run) (value, bool)) []Change {
	a, b := m.a.span(of), m.b.span(of)
	if a.meets(b) {
		return nil
	}
	return []Change{{name, a.String(), b.String()}}
}

// outcomes compares the counts of a treatment: whole numbers, the same in every
// run where the kernel is deterministic. They differ when the range of one result
// does not meet that of the other.
func (m match) outcomes() []Change {
	out := []Change{}
	if len(m.a.runs) == 0 || len(m.b.runs) == 0 {
		return out
	}
	out = append(out, m.differs("decisions", decisions)...)
	out = append(out, m.differs("source_ports", whole(func(r run) int { return r.SourcePorts }))...)
	out = append(out, m.asked()...)
	out = append(out, m.differs("conn_rows_after", whole(func(r run) int { return r.ConnRowsAfter }))...)
	out = append(out, m.spread()...)
	if fa, fb := m.a.flags(), m.b.flags(); fa != fb {
		out = append(out, Change{"outcome_flags", fa, fb})
	}
	return out
}

// asked compares what became of the queries: their numbers, or where the loads
// were not equally long their parts of what was planned.
func (m match) asked() []Change {
	out := m.differs("queries_planned", whole(planned))
	longer := len(out) > 0
	for _, c := range []struct {
		name  string
		count func(run) int
	}{
		{"queries_sent", func(r run) int { return r.QueriesSent }},
		{"answers_ok", answers},
		{"unanswered", func(r run) int { return r.Unanswered }},
	} {
		of := whole(c.count)
		if longer {
			of = part(c.count, planned)
		}
		out = append(out, m.differs(c.name, of)...)
	}
	return out
}

func planned(r run) int { return r.QueriesPlanned }
func answers(r run) int { return r.AnswersOK }

func decisions(r run) (value, bool) {
	if r.Decisions == nil {
		return value{}, false
	}
	return count(*r.Decisions), true
}

func whole(of func(run) int) func(run) (value, bool) {
	return func(r run) (value, bool) { return count(of(r)), true }
}

// part is a count as a part of another one, for runs that have any of that.
func part(n, of func(run) int) func(run) (value, bool) {
	return func(r run) (value, bool) {
		return value{number: number{int64(n(r)), int64(of(r))}, part: true}, of(r) > 0
	}
}

func (g group) span(of func(run) (value, bool)) span {
	var s span
	for _, r := range g.runs {
		if v, ok := of(r); ok {
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
