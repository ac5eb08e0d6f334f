package verdict

import (
	"fmt"
	"slices"

	"github.com/lvslab/lvslab/internal/artifact"
)

// ofGenerator are flags about lvslab's own load generator and not about the way of
// a query.
var ofGenerator = []string{"deadlines_missed", "not_taken"}

// generator says what the load generator says of itself: the capture stays the
// reference for outcomes, so these are no losses.
func generator(s *study) []Verdict {
	hit := func(flag string) (list []run) {
		for _, r := range s.valid {
			if slices.Contains(r.OutcomeFlags, flag) {
				list = append(list, r)
			}
		}
		return list
	}
	var out []Verdict
	add := func(list []run, v Verdict, flag string) {
		if len(list) == 0 {
			return
		}
		v.Level, v.Aside = Caution, true
		v.Text = fmt.Sprintf(v.Text, of(len(list), len(s.valid), "run"))
		v.Evidence = []Evidence{{artifact.RunsFile, firstIDs(list), "outcome_flags", flag}}
		out = append(out, v)
	}
	add(hit("deadlines_missed"), Verdict{ID: "deadlines-missed", Title: "The generator missed deadlines",
		Text:   "In %s queries of the open loop left when the next one was due, or later: the rate asked for is not the rate that was sent at every moment. How late each was is in generator.csv, the quantiles in generator.json.",
		Remedy: "Lower the rate, or use a machine on which guests run on KVM."}, "deadlines_missed")
	add(hit("not_taken"), Verdict{ID: "not-taken", Title: "The generator did not get all answers",
		Text:   "In %s answers reached the client's NIC in time, and the generator got them too late or never. They count as answered: outcomes come from the capture.",
		Remedy: "Compare generator.csv with queries.csv of such a run; a smaller window or rate leaves the client more time."}, "not_taken")
	return out
}
