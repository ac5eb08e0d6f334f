package verdict

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
)

// study is the evidence, put in order for the rules.
type study struct {
	Facts
	all    []run   // order of the file
	valid  []run   // those through LVS that may be used
	direct []run   // those without LVS that may be used
	groups []group // treatments with at least one valid run, declared order
}

// group is one treatment with its valid runs.
type group struct {
	Treatment
	label string
	runs  []run
}

// run is one run with the rows of its backends, list head first.
type run struct {
	artifact.Run
	rows []artifact.BackendRow
}

// controlPrefix begins the ids of control treatments.
const controlPrefix = "control="

func newStudy(in Input) *study {
	s := &study{Facts: in.Facts}
	rows := map[string][]artifact.BackendRow{}
	for _, b := range in.Backends {
		rows[b.RunID] = append(rows[b.RunID], b)
	}
	for _, r := range in.Runs {
		if r.Experiment != in.Facts.Experiment {
			continue
		}
		mine := slices.Clone(rows[r.RunID])
		slices.SortStableFunc(mine, func(a, b artifact.BackendRow) int { return cmp.Compare(a.Position, b.Position) })
		one := run{r, mine}
		s.all = append(s.all, one)
		switch {
		case r.Valid && r.PastLVS():
			s.direct = append(s.direct, one)
		case r.Valid:
			s.valid = append(s.valid, one)
		}
	}
	if s.Protocol == "" && len(s.all) > 0 {
		s.Protocol = s.all[0].Protocol
	}
	s.group()
	return s
}

// group collects the valid runs by treatment: the planned ones in declared
// order, then others in the order of their first run. Controls are left out:
// they are no part of the comparison.
func (s *study) group() {
	at := map[string]int{}
	for _, t := range s.Treatments {
		at[t.ID] = len(s.groups)
		s.groups = append(s.groups, group{Treatment: t})
	}
	for _, r := range s.valid {
		if strings.HasPrefix(r.TreatmentID, controlPrefix) {
			continue
		}
		i, ok := at[r.TreatmentID]
		if !ok {
			i = len(s.groups)
			at[r.TreatmentID] = i
			s.groups = append(s.groups, group{Treatment: s.TreatmentOf(r.Run)})
		}
		s.groups[i].runs = append(s.groups[i].runs, r)
	}
	s.groups = slices.DeleteFunc(s.groups, func(g group) bool { return len(g.runs) == 0 })
	for i := range s.groups {
		s.groups[i].label = s.label(s.groups[i].Treatment)
	}
}

// label is the short name of a treatment: the bare scheduler, followed by the
// other factors; the whole id when there is neither.
func (s *study) label(t Treatment) string { return Label(s.Factors, t) }

// Label is the short name of a treatment for people: its scheduler when that is
// a factor, followed by name=value of the other factors; else its id.
func Label(factors []string, t Treatment) string {
	var parts []string
	for _, f := range factors {
		v, ok := t.Factors[f]
		switch {
		case !ok:
		case f == "scheduler":
			parts = append(parts, v)
		default:
			parts = append(parts, f+"="+v)
		}
	}
	if len(parts) == 0 {
		return t.ID
	}
	return strings.Join(parts, " ")
}

// usable are the backends that a scheduler may choose: weight above 0.
func (r run) usable() []artifact.BackendRow {
	var out []artifact.BackendRow
	for _, b := range r.rows {
		if b.Weight > 0 {
			out = append(out, b)
		}
	}
	return out
}

// chosen are the backends that IPVS sent something to.
func (r run) chosen() []artifact.BackendRow {
	var out []artifact.BackendRow
	for _, b := range r.rows {
		if b.IPVSInPackets > 0 || b.IPVSConnsDelta > 0 {
			out = append(out, b)
		}
	}
	return out
}

// packets is the number of packets that IPVS sent to all backends.
func (r run) packets() int64 {
	var n int64
	for _, b := range r.rows {
		n += b.IPVSInPackets
	}
	return n
}

// shareAt is the share of the run's packets that the backend at a position got.
func (r run) shareAt(position int) (float64, bool) {
	total := r.packets()
	if total == 0 {
		return 0, false
	}
	for _, b := range r.rows {
		if b.Position == position {
			return float64(b.IPVSInPackets) / float64(total), true
		}
	}
	return 0, false
}

// spare reports whether the run made enough decisions for a scheduler to show
// itself: as many as there are usable backends, and at least two of those.
func (r run) spare() bool {
	return r.Decisions != nil && len(r.usable()) > 1 && *r.Decisions >= len(r.usable())
}

// Short is a backend's name without its kind: ns[0].
func Short(backend string) string { return strings.TrimPrefix(backend, "backend.") }
