package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/stats"
)

// alone is one backend with the runs that were sent to it without LVS.
type alone struct {
	backend       string
	runs          []run
	planned, good int
}

// alones puts the runs without LVS in order: backends in the order of their first run.
func (s *study) alones() []alone {
	var out []alone
	for _, r := range s.direct {
		name, _ := artifact.Direct(r.TreatmentID)
		i := slices.IndexFunc(out, func(a alone) bool { return a.backend == name })
		if i < 0 {
			i = len(out)
			out = append(out, alone{backend: name})
		}
		out[i].runs = append(out[i].runs, r)
		out[i].planned, out[i].good = out[i].planned+r.QueriesPlanned, out[i].good+r.AnswersOK
	}
	slices.SortFunc(out, func(a, b alone) int { return strings.Compare(a.backend, b.backend) })
	return out
}

// straight: what the backends do without LVS. A loss that is there as well is not
// the balancer's; one that is not is on the way through it.
func straight(s *study) []Verdict {
	list := s.alones()
	if len(list) == 0 {
		return nil
	}
	planned, good, through, throughGood := 0, 0, 0, 0
	var lossy []string
	var flagged []run
	for _, a := range list {
		planned, good = planned+a.planned, good+a.good
		if a.good < a.planned {
			lossy = append(lossy, fmt.Sprintf("%s %s of %s", Short(a.backend), Count(a.good), Count(a.planned)))
		}
		for _, r := range a.runs {
			if len(r.OutcomeFlags) > 0 || r.AnswersOK < r.QueriesPlanned {
				flagged = append(flagged, r)
			}
		}
	}
	for _, r := range s.valid {
		through, throughGood = through+r.QueriesPlanned, throughGood+r.AnswersOK
	}
	ev := []Evidence{{artifact.RunsFile, artifact.DirectPrefix + "…", "queries_planned, answers_ok", fmt.Sprintf("sums %d, %d in %s", planned, good, some(len(s.direct), "run"))}}
	if through > 0 {
		ev = append(ev, Evidence{artifact.RunsFile, "valid = true, through LVS", "queries_planned, answers_ok", fmt.Sprintf("sums %d, %d", through, throughGood)})
	}
	v := Verdict{ID: "direct", Level: OK, Title: "Each backend alone answers everything", Evidence: ev,
		Text: fmt.Sprintf("Without LVS %s of %s queries got an accepted answer, in %s to %s.", Count(good), Count(planned), some(len(s.direct), "run"), some(len(list), "backend"))}
	switch {
	case len(lossy) > 0:
		v.ID, v.Level, v.Title = "direct-loses", Caution, "Backends lose queries without LVS as well"
		v.Text += fmt.Sprintf(" Accepted were of %s: so not every loss in this study is the balancer's.", names(lossy, "backend"))
		v.Remedy = "Begin with raw/" + flagged[0].RunID + "/queries.csv: nothing but client, network and backend takes part there."
	case throughGood < through:
		v.ID, v.Level, v.Title = "lost-through-lvs", Finding, "Queries were lost only on the way through LVS"
		v.Text += fmt.Sprintf(" Through LVS it was %s of %s.", Count(throughGood), Count(through))
	case len(flagged) > 0:
		v.ID, v.Level, v.Title = "direct-flags", Caution, "Not every run without LVS went as it should"
		v.Text += fmt.Sprintf(" %s an outcome flag.", of(len(flagged), len(s.direct), "run")+verb(len(flagged), " carries", " carry"))
		v.Remedy = "Look into raw/" + flagged[0].RunID + "/notes.txt."
	}
	return append([]Verdict{v}, s.pace(list)...)
}

// pace compares how long the backends alone take: only where times may be
// compared at all, and only in blocks that have a time of each.
func (s *study) pace(list []alone) []Verdict {
	if s.Accelerator != "kvm" || len(list) < 2 {
		return nil
	}
	times := map[int][]float64{}
	for i, a := range list {
		for _, r := range a.runs {
			if r.BatchS != nil && *r.BatchS > 0 && len(times[r.Block]) == i {
				times[r.Block] = append(times[r.Block], *r.BatchS)
			}
		}
	}
	var matrix [][]float64
	for block := 1; block <= s.Blocks; block++ {
		if len(times[block]) == len(list) {
			matrix = append(matrix, times[block])
		}
	}
	if len(matrix) < 5 {
		return nil
	}
	f, err := stats.Friedman(matrix, resamples, resampleSeed)
	if err != nil {
		return nil // the matrix is rectangular
	}
	v := Verdict{ID: "backends-alike", Level: OK, Title: "No backend is shown to be slower",
		Text:     fmt.Sprintf("Without LVS batch_s of %s does not differ beyond chance in %s (Friedman, p = %s by permuting inside blocks).", some(len(list), "backend"), some(len(matrix), "block"), probability(f.P)),
		Evidence: []Evidence{{artifact.RunsFile, artifact.DirectPrefix + "…", "batch_s, block", fmt.Sprintf("Q = %.2f", f.Q)}}}
	if f.P <= level {
		v.ID, v.Level, v.Title = "backends-differ", Caution, "The backends themselves are not equally fast"
		v.Text = fmt.Sprintf("Without LVS batch_s differs between %s in %s (Friedman, p = %s by permuting inside blocks): a treatment that keeps to one of them has its speed.",
			some(len(list), "backend"), some(len(matrix), "block"), probability(f.P))
		v.Remedy = "Compare treatments that used the same backends, or rotate the list head."
	}
	return []Verdict{v}
}
