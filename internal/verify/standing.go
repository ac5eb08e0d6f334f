package verify

import (
	"encoding/json"
	"slices"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/report"
)

// checkStanding compares which treatments the summary takes as represented by
// another one with the plan: more would be results of runs that nobody planned
// to leave out. A summary that cannot be read is said elsewhere.
func checkStanding(c *Check, a *artifact.Artifact, planned map[string]trial) {
	data, err := a.ReadFile(artifact.SummaryJSONFile)
	if err != nil {
		return
	}
	var told report.Summary
	if json.Unmarshal(data, &told) != nil {
		return
	}
	of := map[string][]string{}
	for _, t := range planned {
		of[t.Experiment+" "+t.Treatment.ID] = t.Treatment.StandsFor
	}
	for _, e := range told.Experiments {
		for _, t := range e.Facts.Treatments {
			want, ok := of[e.Facts.Experiment+" "+t.ID]
			if ok && !slices.Equal(want, t.StandsFor) {
				c.fail(artifact.SummaryJSONFile, t.ID, "stands for %q, planned was %q", t.StandsFor, want)
			}
		}
	}
}
