package report

import (
	"maps"
	"slices"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/verdict"
)

// Where the list turns from block to block a backend's share over the blocks says
// nothing: what keeps to the head of the list has given each backend everything
// once and nothing else. So tables and pictures go by place, and say once who was
// where.

// PlaceShare is the part of the accepted answers that came from whoever stood at
// a place of the list.
type PlaceShare struct {
	Place int     `json:"place"` // 0 = head
	Min   float64 `json:"min"`
	Mean  float64 `json:"mean"` // of all answers of the treatment together
	Max   float64 `json:"max"`
}

// byPlace reports whether shares are read by place of the list: where it turned,
// and they keep to places more closely than to backends. What follows a backend,
// as one that is slow, is read by name all the same.
func (e Experiment) byPlace() bool {
	if len(e.Lists) == 0 {
		return false
	}
	var place, name float64
	for _, t := range e.Treatments {
		if len(t.Places) == 0 {
			continue
		}
		for _, p := range t.Places {
			place += p.Max - p.Min
		}
		for _, s := range t.Shares {
			name += s.Max - s.Min
		}
	}
	return place < name
}

// columns are the names over the shares: backends, or places of the list.
func (e Experiment) columns() []string {
	out := make([]string, len(e.Backends))
	for i, b := range e.Backends {
		if out[i] = verdict.Short(b); e.byPlace() {
			out[i] = verdict.Place(i)
		}
	}
	return out
}

// parts are a treatment's shares under these names; a dash where there is none.
func (e Experiment) parts(t Treatment) []string {
	out := make([]string, len(e.Backends))
	for i, b := range e.Backends {
		out[i] = "–"
		if e.byPlace() {
			if i < len(t.Places) {
				out[i] = shareText(t.Places[i].share())
			}
		} else if j := slices.IndexFunc(t.Shares, func(s Share) bool { return s.Backend == b }); j >= 0 {
			out[i] = shareText(t.Shares[j])
		}
	}
	return out
}

// extent stands in for the shares where there are too many: how many were used,
// and the largest.
func (e Experiment) extent(t Treatment) []string {
	list := t.Shares
	if e.byPlace() && len(t.Places) > 0 {
		list = nil
		for _, p := range t.Places {
			list = append(list, p.share())
		}
	}
	used, largest := 0, Share{}
	for _, s := range list {
		if s.Max > 0 {
			used++
		}
		if s.Mean > largest.Mean {
			largest = s
		}
	}
	return []string{verdict.Count(used), shareText(largest)}
}

func (p PlaceShare) share() Share { return Share{Min: p.Min, Mean: p.Mean, Max: p.Max} }

// whoWasWhere tells whose places they are, "" unless the list turned.
func (e Experiment) whoWasWhere() string {
	if !e.byPlace() {
		return ""
	}
	text := "The list, head first, was " + verdict.ListsText(e.Lists) + "."
	if slices.ContainsFunc(e.Treatments, func(t Treatment) bool { return t.Control && len(t.Places) == 0 && t.ValidRuns > 0 }) {
		text += " Without LVS there is no list."
	}
	return text
}

// places fills the shares and decisions by place of the list.
func places(list []Treatment, runs []artifact.Run, rows map[string][]artifact.BackendRow) {
	for i := range list {
		t := &list[i]
		var mine []artifact.Run
		for _, r := range runs {
			if r.TreatmentID == t.ID && r.Valid && !r.PastLVS() {
				mine = append(mine, r)
			}
		}
		t.Places = placeShares(mine, rows)
		t.ByPlace = decisionsBy(mine, rows, 0, placeOf)
	}
}

// placeOf is the part that a row has in what goes by place of the list.
func placeOf(b artifact.BackendRow) int { return b.Position }

func placeShares(runs []artifact.Run, rows map[string][]artifact.BackendRow) []PlaceShare {
	var out []PlaceShare
	shares := sharesBy(runs, rows, placeOf)
	for _, p := range slices.Sorted(maps.Keys(shares)) {
		s := shares[p]
		out = append(out, PlaceShare{p, s.Min, s.Mean, s.Max})
	}
	return out
}

// listed are the treatments that used the list, where shares go by place; else all.
func (e Experiment) listed() []Treatment {
	if !e.byPlace() {
		return e.Treatments
	}
	return slices.DeleteFunc(slices.Clone(e.Treatments), func(t Treatment) bool { return t.Control && len(t.Places) == 0 })
}

// slice is one part of a treatment's bar.
type slice struct {
	at   int // of the columns
	name string
	Share
}

// slices are a treatment's shares in the order of the columns.
func (e Experiment) slices(t Treatment) []slice {
	var out []slice
	if e.byPlace() {
		for _, p := range t.Places {
			out = append(out, slice{p.Place, verdict.Place(p.Place), p.share()})
		}
		return out
	}
	for _, s := range t.Shares {
		out = append(out, slice{indexOf(e.Backends, s.Backend), verdict.Short(s.Backend), s})
	}
	return out
}

// spaced puts a space before a sentence that follows another.
func spaced(s string) string {
	if s == "" {
		return ""
	}
	return " " + s
}
