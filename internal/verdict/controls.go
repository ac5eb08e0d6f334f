package verdict

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/stats"
)

// aaID is the id of the control that is a treatment under another name.
const aaID = controlPrefix + "aa"

// twins are the runs of a treatment and of its A/A control in one block.
type twins struct{ one, other run }

// aaTwins finds the A/A control's treatment, by its factors, and pairs their
// valid runs by block.
func aaTwins(s *study) (g group, pairs []twins) {
	for _, c := range s.valid {
		if c.TreatmentID != aaID {
			continue
		}
		for _, h := range s.groups {
			if !sameFactors(h.Treatment.Factors, c.Factors) {
				continue
			}
			g = h
			for _, r := range h.runs {
				if r.Block == c.Block {
					pairs = append(pairs, twins{r, c})
				}
			}
			break // the first treatment with these factors
		}
	}
	return g, pairs
}

// sameFactors compares settings; a row has an empty cell for a factor that its
// experiment does not have.
func sameFactors(a, b map[string]string) bool {
	for k, v := range a {
		if v != b[k] {
			return false
		}
	}
	for k, v := range b {
		if v != a[k] {
			return false
		}
	}
	return true
}

// twice: the same treatment under two names. How far the two lie apart is what
// this lab makes of nothing, and any other difference is to be held against it.
func twice(s *study) []Verdict {
	g, pairs := aaTwins(s)
	if len(pairs) == 0 {
		return nil
	}
	split := 0
	var d, ratios []float64
	for _, p := range pairs {
		if sameSplit(p.one, p.other) {
			split++
		}
		if a, b := p.one.BatchS, p.other.BatchS; a != nil && b != nil && *a > 0 && *b > 0 {
			d = append(d, math.Log(*b / *a))
			ratios = append(ratios, math.Exp(math.Abs(math.Log(*b / *a))))
		}
	}
	n := len(pairs)
	text := fmt.Sprintf("%s ran twice in each block, under two names: its decisions fell on the backends in the same way in %s", g.label, of(split, n, "block"))
	ev := []Evidence{{artifact.BackendsFile, aaID + " and " + g.ID, "ipvs_conns_delta", fmt.Sprintf("equal in %d of %d blocks", split, n)}}
	trend := 1.0
	if len(ratios) > 0 {
		f := stats.SignFlip(d, resamples, resampleSeed)
		trend = f.P
		text += fmt.Sprintf("; batch_s of the two differed by a factor of %.3f in the median and %.3f at most (p = %s for one being slower throughout)",
			stats.Quantile(ratios, 0.5), slices.Max(ratios), probability(f.P))
		ev = append(ev, Evidence{artifact.RunsFile, aaID + " and " + g.ID, "batch_s", fmt.Sprintf("factors of up to %.3f in %d blocks", slices.Max(ratios), len(ratios))})
	}
	v := Verdict{ID: "aa", Level: OK, Title: "What nothing looks like", Text: text + ".", Evidence: ev}
	switch {
	case split < n && deterministic(g):
		v.Level, v.Title = Caution, "The same treatment did two different things"
		v.Text += " This scheduler does the same to the same packets, so something else decided."
		v.Remedy = "Compare raw/<run_id>/queries.csv and ipvs.json of the two runs of a block."
	case trend <= level:
		v.Level, v.Title = Caution, "Two names, two times"
		v.Text += " The order of runs, or what one leaves to the next, is in the times: other differences of this size mean nothing."
		v.Remedy = "Let the blocks be a multiple of the treatments, or write isolation = \"restore\"."
	}
	return []Verdict{v}
}

// deterministic reports whether the treatment's scheduler makes the same of the
// same sequence of ports: not where it hashes random ports, and not twos.
func deterministic(g group) bool {
	return g.Scheduler != "twos" && !slices.Contains(g.Flags, g.Scheduler+"-port")
}

// sameSplit compares how two runs' decisions fell on the backends.
func sameSplit(a, b run) bool {
	return slices.EqualFunc(a.rows, b.rows, func(x, y artifact.BackendRow) bool {
		return x.Backend == y.Backend && x.IPVSConnsDelta == y.IPVSConnsDelta
	})
}

// rotates reports whether the list head was another one in each block.
func (s *study) rotates() bool { return s.Controls != nil && s.Controls.Rotate }

// follower is a treatment that always used one place of the list, whichever
// backend stood there.
type follower struct {
	group
	place int
	used  []string // backends, in the order of their first run
}

// followers finds them: each run used one backend, always at the same place of
// the list, and not always the same backend. There are none without rotation.
func followers(s *study) []follower {
	if !s.rotates() {
		return nil
	}
	var out []follower
	for _, g := range s.groups {
		f := follower{group: g, place: -1}
		for _, r := range g.runs {
			c := r.chosen()
			if len(c) != 1 || len(r.usable()) < 2 || f.place >= 0 && c[0].Position != f.place {
				f.place = -1
				break
			}
			f.place = c[0].Position
			if !slices.Contains(f.used, c[0].Backend) {
				f.used = append(f.used, c[0].Backend)
			}
		}
		if f.place >= 0 && len(f.used) > 1 {
			out = append(out, f)
		}
	}
	return out
}

// rotation says what rotating the list has told apart.
func rotation(s *study) []Verdict {
	list := followers(s)
	if len(list) == 0 {
		return nil
	}
	byPlace := map[int][]group{}
	var places []int
	for _, f := range list {
		if byPlace[f.place] == nil {
			places = append(places, f.place)
		}
		byPlace[f.place] = append(byPlace[f.place], f.group)
	}
	slices.Sort(places)
	var parts []string
	var ev []Evidence
	lists := s.lists()
	for i, p := range places {
		n := runsOf(byPlace[p])
		part := fmt.Sprintf("%s sent everything to %s in %s", names(labels(byPlace[p]), "treatment"), wherePlace(p), of(n, n, "run"))
		if i == 0 { // said once; the other places follow from the lists
			part += ", whoever that was: " + standing(lists, p)
		}
		parts = append(parts, part)
		ev = append(ev, Evidence{artifact.BackendsFile, names(labels(byPlace[p]), "treatment"), "ipvs_in_packets, position", fmt.Sprintf("above 0 at position %d only", p)})
	}
	return []Verdict{{ID: "follows-list", Level: Finding, Title: "The place in the list decides, not the backend", Evidence: ev,
		Text:   strings.Join(parts, ". ") + ".",
		Remedy: "Read a difference in time between treatments at different places over whole rotations only."}}
}

// uneven reports whether some backend was list head in more blocks than another:
// then what keeps to a place of the list leans to that backend's speed.
func (s *study) unevenHeads(blocks []int) bool {
	heads, backends := map[string]int{}, 0
	seen := map[int]bool{}
	for _, r := range s.valid {
		if seen[r.Block] || !slices.Contains(blocks, r.Block) || len(r.rows) == 0 {
			continue
		}
		seen[r.Block] = true
		backends = max(backends, len(r.rows))
		heads[r.rows[0].Backend]++
	}
	first := -1
	for _, n := range heads {
		if first >= 0 && n != first {
			return true
		}
		first = n
	}
	return len(heads) != backends
}
