package verify

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/lvslab/lvslab/internal/artifact"
)

// checkPlan compares the rows of runs.csv with the trials of plan.json: same
// runs, same order, same treatments.
func checkPlan(a *artifact.Artifact) (Check, map[string]trial, sourcePorts) {
	c := Check{Name: "plan", What: "runs and treatments against plan.json", Unit: "runs"}
	var p struct {
		Study struct {
			Study  string  `json:"study"`
			Trials []trial `json:"trials"`
		} `json:"study"`
		Decisions map[string]map[string]int `json:"planned_decisions"`
		Ports     sourcePorts               `json:"source_ports"`
	}
	planned := map[string]trial{}
	data, err := a.ReadFile(artifact.PlanFile)
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err != nil {
		c.fail(artifact.PlanFile, "", "cannot be read: %v", err)
		return c, planned, p.Ports
	}
	for _, t := range p.Study.Trials {
		planned[t.RunID] = t
	}
	if m := a.Manifest(); m.Study != "" && p.Study.Study != m.Study {
		c.fail(artifact.PlanFile, "", "is of study %.12s, the manifest of %.12s", p.Study.Study, m.Study)
	}
	share, err := artifact.ParseShare(a.Manifest().Shard)
	if err != nil {
		c.fail(artifact.ManifestFile, "", "shard: %v", err)
	}
	mine := 0
	for _, t := range planned {
		if share.Has(t.Block) {
			mine++
		}
	}
	last, sessions := 0, max(1, len(a.Manifest().Sessions))
	for _, r := range a.Runs() {
		c.Compared++
		t, ok := planned[r.RunID]
		if !ok {
			c.fail(artifact.RunsFile, r.RunID, "was not planned")
			continue
		}
		differ := func(what string, got, want any) {
			if got != want {
				c.fail(artifact.RunsFile, r.RunID, "%s is %v, planned was %v", what, got, want)
			}
		}
		differ("experiment", r.Experiment, t.Experiment)
		differ("treatment_id", r.TreatmentID, t.Treatment.ID)
		differ("block", r.Block, t.Block)
		if !share.Has(r.Block) {
			c.fail(artifact.RunsFile, r.RunID, "block %d is not of share %s", r.Block, share)
		}
		differ("order", r.Order, t.Order)
		differ("prev_treatment", r.PrevTreatment, t.PrevTreatment)
		differ("protocol", r.Protocol, t.Treatment.Setting.Protocol)
		differ("queries_planned", r.QueriesPlanned, t.Treatment.Setting.Queries*t.Treatment.Setting.Clients)
		for _, f := range slices.Sorted(maps.Keys(t.Treatment.Factors)) {
			differ("factor_"+f, r.Factors[f], t.Treatment.Factors[f])
		}
		if r.Order <= last {
			sessions-- // a later session has made a run again that was not whole
		}
		if r.Order <= last && sessions < 1 {
			c.fail(artifact.RunsFile, r.RunID, "order %d comes after %d", r.Order, last)
		}
		last = r.Order
	}
	checkStanding(&c, a, planned)
	for _, b := range a.Backends() {
		n, certain := p.Decisions[b.RunID][b.Backend]
		if got := b.PlannedDecisions; (got != nil) != certain || certain && *got != n {
			c.fail(artifact.BackendsFile, b.RunID, "planned_decisions of %s are not those of %s", b.Backend, artifact.PlanFile)
		}
	}
	if missing := mine - len(a.Runs()); missing > 0 && a.Manifest().Partial == "" {
		c.Notes = append(c.Notes, fmt.Sprintf("%d planned runs have no row", missing))
	}
	return c, planned, p.Ports
}
