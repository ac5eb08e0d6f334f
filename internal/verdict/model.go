package verdict

import (
	"fmt"

	"github.com/lvslab/lvslab/internal/artifact"
)

// asPlanned holds the kernel's decisions against those that the model of IPVS
// planned before the first run. Where it is certain the comparison is of whole
// numbers, without tolerance. A run in which IPVS did not get every query that
// was planned has other events than the model and is left out.
func asPlanned(s *study) []Verdict {
	var compared, differ []run
	var text string
	for _, r := range s.valid {
		if !r.planned() || r.QueriesSent != r.QueriesPlanned || r.packets() != int64(r.QueriesSent) {
			continue
		}
		compared = append(compared, r)
		for _, b := range r.rows {
			if int64(*b.PlannedDecisions) == b.IPVSConnsDelta {
				continue
			}
			if len(differ) == 0 {
				text = fmt.Sprintf("in %s, %s got %d where %d were planned", r.RunID, Short(b.Backend), b.IPVSConnsDelta, *b.PlannedDecisions)
			}
			differ = append(differ, r)
			break
		}
	}
	switch {
	case len(compared) == 0:
		return nil
	case len(differ) == 0:
		return []Verdict{{ID: "as-planned", Level: OK, Title: "The kernel decided as its rules say",
			Text:     fmt.Sprintf("In %s each backend got exactly the decisions that the model of IPVS had planned.", of(len(compared), len(compared), "run")),
			Evidence: []Evidence{{artifact.BackendsFile, "valid runs", "ipvs_conns_delta, planned_decisions", fmt.Sprintf("equal in %d of %d runs", len(compared), len(compared))}}}}
	}
	return []Verdict{{ID: "kernel-differs", Level: Caution, Title: "The kernel decided otherwise than the model",
		Text: fmt.Sprintf("%s %s from the decisions that the model of IPVS had planned; %s. Either the kernel has another rule or bug, or something else asked the service.",
			of(len(differ), len(compared), "run"), verb(len(differ), "parts", "part"), text),
		Evidence: []Evidence{{artifact.BackendsFile, firstIDs(differ), "ipvs_conns_delta, planned_decisions", "not equal"}},
		Remedy:   "Look at raw/" + differ[0].RunID + "/conns.csv and at the capture for packets that are not the load's; docs/model.md says what the model leaves out."}}
}

// planned reports whether the model was certain of the run.
func (r run) planned() bool {
	for _, b := range r.rows {
		if b.PlannedDecisions == nil {
			return false
		}
	}
	return len(r.rows) > 0
}
