package verify

import (
	"slices"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/artifact"
)

// countedDirect checks a run without LVS: IPVS stood still, no other backend was
// asked, and nothing in the rows says otherwise.
func countedDirect(c *Check, r artifact.Run, rows []artifact.BackendRow, s setting, data *raw) {
	if asked, _ := artifact.Direct(r.TreatmentID); asked != s.Direct {
		c.fail(artifact.RunsFile, r.RunID, "is a run of %s, planned was a load sent to %s", r.TreatmentID, s.Direct)
	}
	accepted := map[string]int{}
	for _, q := range data.queries {
		if q.Outcome == "ok" {
			accepted[q.Backend]++
		}
	}
	if !slices.ContainsFunc(rows, func(b artifact.BackendRow) bool { return b.Backend == s.Direct }) {
		c.fail(artifact.BackendsFile, r.RunID, "has no row of %s, which was asked", s.Direct)
	}
	for _, b := range rows {
		w := backendRow(c, b)
		if !b.PastLVS() {
			c.fail(w.file, w.name, "has counts of IPVS in a run without LVS")
		}
		w.whole("answers_ok", int64(b.AnswersOK), int64(accepted[b.Backend]))
		w.real("share_answers_ok", b.ShareAnswersOK, ratio(float64(accepted[b.Backend]), float64(r.AnswersOK)))
		named(w, b, data)
		if b.Backend != s.Direct && b.NamedRequests > 0 && r.Valid {
			c.fail(w.file, w.name, "had %d requests in a run that was sent to %s", b.NamedRequests, s.Direct)
		}
	}
	if n := data.ipvsTook(s); n > 0 && r.Valid {
		c.fail(artifact.RunsFile, r.RunID, "IPVS took %d packets in a run without it", n)
	}
	w := runRow(c, r)
	w.maybe("decisions", r.Decisions, nil)
	w.real("jain_weighted", r.JainWeighted, nil)
	w.real("jain_bound", r.JainBound, nil)
}

// ipvsTook is what the services of the run's protocol and port counted.
func (data *raw) ipvsTook(s setting) (n int64) {
	_, port := data.target(s)
	before := map[proto.IPVSKey]uint64{}
	for _, svc := range data.fresh.Services {
		before[svc.IPVSKey] = svc.Stats.InPackets
	}
	for _, svc := range data.settled.Services {
		if b, known := before[svc.IPVSKey]; known && svc.Protocol == s.Protocol && svc.Port == port {
			n += increase(b, svc.Stats.InPackets)
		}
	}
	return n
}
