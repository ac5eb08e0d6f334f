package compare

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/verdict"
)

// sameOrder reports whether both results declare their lists alike. A list that
// begins elsewhere was then turned, and not written otherwise.
func sameOrder(a, b artifact.Manifest) bool {
	return maps.EqualFunc(a.DestinationOrder, b.DestinationOrder, slices.Equal)
}

// list are the backends of a run in the order of the kernel's list, as one word;
// "" without LVS.
func (r run) list() string {
	if r.PastLVS() {
		return ""
	}
	return strings.Join(verdict.ListOf(r.rows), " ")
}

func (g group) lists() []string {
	var out []string
	for _, r := range g.runs {
		if l := r.list(); l != "" && !slices.Contains(out, l) {
			out = append(out, l)
		}
	}
	slices.Sort(out)
	return out
}

// turned reports whether the list began elsewhere in some runs of a treatment: in
// one result, or between two that declare the same one (as with a share of the
// blocks each).
func turned(a, b group, sameOrder bool) bool {
	la, lb := a.lists(), b.lists()
	if len(la) == 0 || len(lb) == 0 {
		return false
	}
	return len(la) > 1 || len(lb) > 1 || sameOrder && la[0] != lb[0]
}

// tally is a count that each backend has in a run.
type tally struct {
	name string
	of   func(artifact.BackendRow) int64
}

var (
	conns    = tally{"ipvs_conns_delta", func(b artifact.BackendRow) int64 { return b.IPVSConnsDelta }}
	answered = tally{"answers_ok", func(b artifact.BackendRow) int64 { return int64(b.AnswersOK) }}
)

func (t tally) total(r run) int64 {
	var n int64
	for _, b := range r.rows {
		n += t.of(b)
	}
	return n
}

// view is what the rows of several runs belong together by.
type view struct {
	name func(artifact.BackendRow) string
	less func(a, b artifact.BackendRow) int
}

var (
	byBackend = view{
		func(b artifact.BackendRow) string { return short(b.Backend) },
		func(a, b artifact.BackendRow) int { return strings.Compare(a.Backend, b.Backend) },
	}
	byPlace = view{
		func(b artifact.BackendRow) string {
			if b.Position == 0 {
				return "the head"
			}
			return "the " + verdict.Place(b.Position) + " place"
		},
		func(a, b artifact.BackendRow) int { return cmp.Compare(a.Position, b.Position) },
	}
)

// spots are the names of a view that the runs have, in its order.
func (v view) spots(runs []run) []string {
	var rows []artifact.BackendRow
	for _, r := range runs {
		rows = append(rows, r.rows...)
	}
	slices.SortStableFunc(rows, v.less)
	var out []string
	for _, b := range rows {
		out = append(out, v.name(b))
	}
	return slices.Compact(out)
}

// at is a spot's count of a run; with parts of the run's total, and then one round
// of the weights more or less is the same: a load may end anywhere in a round.
func (v view) at(spot string, t tally, parts bool) func(run) (value, bool) {
	return func(r run) (value, bool) {
		for _, b := range r.rows {
			if v.name(b) != spot {
				continue
			}
			if !parts {
				return count(t.of(b)), true
			}
			total := t.total(r)
			return value{number{t.of(b), total}, int64(max(1, b.Weight/round(r.rows))), true}, total > 0
		}
		return value{}, false
	}
}

// round is the greatest common divisor of the weights, at least 1.
func round(rows []artifact.BackendRow) int {
	d := 0
	for _, b := range rows {
		for a := b.Weight; a != 0; {
			d, a = a, d%a
		}
	}
	return max(d, 1)
}

// spread compares what each backend got, or each place of a list that turned.
func (m match) spread() []Change {
	v := byBackend
	if m.turned {
		v = m.keptTo()
	}
	out := m.tallied(v, conns, !m.one(conns.total))
	if len(out) == 0 {
		out = m.listByList()
	}
	lost := len(m.differs("", whole(answers))) > 0
	switch {
	case m.one(func(r run) int64 { return int64(answers(r)) }), lost && m.one(func(r run) int64 { return int64(planned(r)) }):
		out = append(out, m.tallied(v, answered, false)...) // where they were lost, too
	case !slices.ContainsFunc(m.runs(), func(r run) bool { return r.Decisions == nil }):
		// As many as the load happened to have; the decisions say how it was spread.
	default:
		out = append(out, m.tallied(v, answered, true)...)
	}
	return out
}

// one reports whether a number is the same in all runs of both results.
func (m match) one(of func(run) int64) bool {
	return m.all(func(r run) (value, bool) { return count(of(r)), true }).one()
}

func (m match) tallied(v view, t tally, parts bool) []Change {
	var out []Change
	name := t.name
	if parts {
		name = "part of " + name
	}
	for _, spot := range v.spots(m.runs()) {
		out = append(out, m.differs(name+" of "+spot, v.at(spot, t, parts))...)
	}
	return out
}

// keptTo is by what the decisions of a treatment range the least over the turns of
// the list: a scheduler keeps to places, or to weights and hashes of backends.
func (m match) keptTo() view {
	wide := func(v view) (sum int64) {
		for _, spot := range v.spots(m.runs()) {
			if s := m.all(v.at(spot, conns, true)); s.some {
				sum += s.high.millionths() - s.low.millionths()
			}
		}
		return sum
	}
	if wide(byBackend) < wide(byPlace) {
		return byBackend
	}
	return byPlace
}

// listByList compares runs that had the very same list, where the list turned and
// the model is certain of each decision: nothing may differ there.
func (m match) listByList() []Change {
	if !m.turned || !m.one(conns.total) || slices.ContainsFunc(m.runs(), func(r run) bool { return !certain(r) }) {
		return nil
	}
	var out []Change
	of := func(g group, list string) group {
		g.runs = slices.DeleteFunc(slices.Clone(g.runs), func(r run) bool { return r.list() != list })
		return g
	}
	for _, list := range m.a.lists() {
		same := match{a: of(m.a, list), b: of(m.b, list)}
		if len(same.b.runs) == 0 {
			continue
		}
		for _, c := range same.tallied(byBackend, conns, false) {
			c.Name += " where " + short(verdict.ListOf(same.a.runs[0].rows)[0]) + " is the head"
			out = append(out, c)
		}
	}
	return out
}

// certain reports whether the model planned the run's decisions.
func certain(r run) bool {
	return len(r.rows) > 0 && !slices.ContainsFunc(r.rows, func(b artifact.BackendRow) bool { return b.PlannedDecisions == nil })
}

func short(backend string) string { return strings.TrimPrefix(backend, "backend.") }
