package verdict

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
)

// WhyNot says why a run is not valid, in the words of its row and each of them
// once: the flags of what was measured; without a load the preconditions that did
// not hold. nil for a valid run.
func WhyNot(r artifact.Run) []string {
	why := r.OutcomeFlags
	switch {
	case r.Valid:
		return nil
	case len(why) == 0:
		why = r.PreconditionFailures
	}
	if len(why) == 0 {
		return []string{"no reason recorded"}
	}
	why = slices.Clone(why)
	slices.Sort(why)
	return slices.Compact(why)
}

// excluded says how many runs of each treatment are not valid, in the order of
// the treatments.
func (s *study) excluded() string {
	all, bad := map[string]int{}, map[string]int{}
	for _, r := range s.all {
		all[r.TreatmentID]++
		if !r.Valid {
			bad[r.TreatmentID]++
		}
	}
	var list []string
	add := func(id, label string) {
		if bad[id] > 0 {
			list = append(list, fmt.Sprintf("%s %d of %d", label, bad[id], all[id]))
			delete(bad, id)
		}
	}
	for _, t := range s.Treatments {
		add(t.ID, s.label(t))
	}
	for _, id := range sortedKeys(bad) { // controls, and what was not planned
		add(id, id)
	}
	return strings.Join(list, ", ")
}

// validity: runs that must not be used, and why.
func validity(s *study) []Verdict {
	var bad []run
	why := map[string]int{}
	for _, r := range s.all {
		if r.Valid {
			continue
		}
		bad = append(bad, r)
		for _, w := range WhyNot(r.Run) {
			why[w]++
		}
	}
	if len(bad) == 0 {
		return []Verdict{{ID: "valid-runs", Level: OK, Title: "Every run is valid",
			Text:     fmt.Sprintf("%s kept the run contract.", of(len(s.all), len(s.all), "run")),
			Evidence: []Evidence{{artifact.RunsFile, "all", "valid", fmt.Sprintf("true in %d of %d", len(s.all), len(s.all))}}}}
	}
	var reasons []string
	for _, w := range sortedKeys(why) {
		reasons = append(reasons, fmt.Sprintf("%s (%s)", w, some(why[w], "run")))
	}
	return []Verdict{{ID: "invalid-runs", Level: Refusal, Title: fmt.Sprintf("%s not valid", of(len(bad), len(s.all), "run")),
		Text: fmt.Sprintf("%s must not be used: %s. By treatment: %s. %s left out of everything below.", of(len(bad), len(s.all), "run"),
			strings.Join(reasons, "; "), s.excluded(), verb(len(bad), "It is", "They are")),
		Evidence: []Evidence{{artifact.RunsFile, firstIDs(bad), "valid, precondition_failures, outcome_flags", "false"}},
		Remedy:   "Look into raw/" + bad[0].RunID + "/ for what was found, then repeat with lvslab apply --fresh."}}
}

// completeness: every treatment must have a run in every block, because blocks
// are compared as wholes.
func completeness(s *study) []Verdict {
	if s.Blocks == 0 || len(s.Treatments) == 0 {
		return nil
	}
	have := map[string]int{}
	for _, r := range slices.Concat(s.valid, s.direct) {
		have[r.TreatmentID]++
	}
	var missing []string
	lost := 0
	for _, t := range s.Treatments {
		if n := have[t.ID]; n < s.Blocks {
			missing = append(missing, fmt.Sprintf("%s (%d of %d)", s.label(t), n, s.Blocks))
			lost += s.Blocks - n
		}
	}
	if lost == 0 {
		return nil
	}
	planned := s.Blocks * len(s.Treatments)
	return []Verdict{{ID: "incomplete", Level: Caution, Title: "Runs are missing",
		Text: fmt.Sprintf("%s %s no valid row: %s.", of(lost, planned, "planned run"), verb(lost, "has", "have"),
			names(missing, "treatment")),
		Evidence: []Evidence{{artifact.RunsFile, "valid = true", "treatment_id", fmt.Sprintf("%d rows of %d planned", planned-lost, planned)}},
		Remedy:   "Repeat with lvslab apply --fresh."}}
}

// losses: what happened to the queries, with the gaps named.
func losses(s *study) []Verdict {
	if len(s.valid) == 0 {
		return nil
	}
	var sent, planned, ok, unanswered, wrong, late, duplicate int
	var hit []run
	flags := map[string]int{}
	for _, r := range s.valid {
		sent, planned, ok = sent+r.QueriesSent, planned+r.QueriesPlanned, ok+r.AnswersOK
		unanswered += r.Unanswered
		wrong += r.AnswersBadRcode + r.AnswersTruncated + r.AnswersWrongSource
		late += r.AnswersLate
		duplicate += r.AnswersDuplicate
		lost := 0
		for _, f := range r.OutcomeFlags {
			if !slices.Contains(ofGenerator, f) {
				flags[f]++
				lost++
			}
		}
		if r.AnswersOK != r.QueriesPlanned || r.AnswersDuplicate > 0 || lost > 0 {
			hit = append(hit, r)
		}
	}
	columns := "queries_planned, queries_sent, answers_ok, unanswered"
	if len(hit) == 0 {
		return append(dnsperfDiffers(s), Verdict{ID: "nothing-lost", Level: OK, Title: "Nothing lost",
			Text:     fmt.Sprintf("%s of %s queries got an accepted answer.", Count(ok), Count(planned)),
			Evidence: []Evidence{{artifact.RunsFile, "valid = true", columns, fmt.Sprintf("sums %d, %d, %d, %d", planned, sent, ok, unanswered)}}})
	}
	parts := []string{}
	for _, p := range []struct {
		n    int
		what string
	}{{unanswered, "unanswered"}, {planned - sent, "of all never left the client's NIC"}, {wrong, "answered wrongly"}, {late, "answered too late"}, {duplicate, "answered more than once"}} {
		if p.n != 0 {
			parts = append(parts, Count(p.n)+" "+p.what)
		}
	}
	var gaps []string
	for _, f := range sortedKeys(flags) {
		gaps = append(gaps, fmt.Sprintf("%s in %s", f, some(flags[f], "run")))
	}
	text := fmt.Sprintf("%s of %s queries got an accepted answer; in %s something went another way", Count(ok), Count(planned), of(len(hit), len(s.valid), "run"))
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	text += "."
	if len(gaps) > 0 {
		text += " Where it happened: " + strings.Join(gaps, ", ") + "."
	}
	return append(dnsperfDiffers(s), Verdict{ID: "losses", Level: Caution, Title: "Not every query was answered as it should be", Text: text,
		Evidence: []Evidence{
			{artifact.RunsFile, "valid = true", columns, fmt.Sprintf("sums %d, %d, %d, %d", planned, sent, ok, unanswered)},
			{artifact.RunsFile, firstIDs(hit), "outcome_flags", strings.Join(sortedKeys(flags), ";")},
		},
		Remedy: "Each query is in raw/<run_id>/queries.csv; begin with raw/" + hit[0].RunID + "/queries.csv."})
}

// dnsperfDiffers: dnsperf counts any rcode from any source as completed, so its
// figure can be larger than what was right.
func dnsperfDiffers(s *study) []Verdict {
	var differ []run
	seen := 0
	for _, r := range s.valid {
		if r.DNSPerfCompleted == nil {
			continue
		}
		seen++
		if *r.DNSPerfCompleted != r.AnswersOK {
			differ = append(differ, r)
		}
	}
	if len(differ) == 0 {
		return nil
	}
	r := differ[0]
	return []Verdict{{ID: "dnsperf-differs", Level: Caution, Aside: true, Title: "dnsperf counts differently",
		Text: fmt.Sprintf("In %s dnsperf's completed queries are not the accepted answers of the capture; in %s it says %s and the capture %s.",
			of(len(differ), seen, "run"), r.RunID, Count(*r.DNSPerfCompleted), Count(r.AnswersOK)),
		Evidence: []Evidence{{artifact.RunsFile, firstIDs(differ), "dnsperf_completed, answers_ok", fmt.Sprintf("%d, %d", *r.DNSPerfCompleted, r.AnswersOK)}},
		Remedy:   "Use answers_ok: dnsperf takes any rcode from any address as completed."}}
}

// agreement: four counters that know nothing of each other.
func agreement(s *study) []Verdict {
	type miss struct {
		run
		row artifact.BackendRow
	}
	var misses []miss
	rows, okRuns := 0, 0
	tunnels := false
	for _, r := range s.valid {
		before := len(misses)
		for _, b := range r.rows {
			rows++
			tunnels = tunnels || b.TunnelRxPackets != nil
			if !rowAgrees(r.Protocol, b) {
				misses = append(misses, miss{r, b})
			}
		}
		if before == len(misses) && (r.Protocol == "tcp" || int64(r.QueriesSent) == r.packets()) {
			okRuns++
		}
	}
	if rows == 0 {
		return nil
	}
	who := "IPVS, the backends' name servers and the client's capture"
	columns := "ipvs_in_packets, named_requests, answers_ok"
	if tunnels {
		who = "IPVS, the tunnel devices, the backends' name servers and the client's capture"
		columns = "ipvs_in_packets, tunnel_rx_packets, named_requests, answers_ok"
	}
	if len(misses) == 0 && okRuns == len(s.valid) {
		return []Verdict{{ID: "counts-agree", Level: OK, Title: "Independent counts agree",
			Text:     fmt.Sprintf("%s counted the same for each backend in %s (%s).", who, of(okRuns, len(s.valid), "run"), of(rows, rows, "row")),
			Evidence: []Evidence{{artifact.BackendsFile, "valid runs", columns, fmt.Sprintf("equal in %d of %d rows", rows, rows)}}}}
	}
	v := Verdict{ID: "counts-differ", Level: Caution, Title: "Independent counts differ",
		Text:   fmt.Sprintf("%s counted the same in %s and %s.", who, of(okRuns, len(s.valid), "run"), of(rows-len(misses), rows, "backend row")),
		Remedy: "A named gap in outcome_flags says on which step they part; the steps are in docs/outcomes.md."}
	for i, m := range misses {
		if i == 3 {
			break
		}
		values := []string{fmt.Sprint(m.row.IPVSInPackets)}
		if tunnels {
			t := "–"
			if m.row.TunnelRxPackets != nil {
				t = fmt.Sprint(*m.row.TunnelRxPackets)
			}
			values = append(values, t)
		}
		values = append(values, fmt.Sprint(m.row.NamedRequests), fmt.Sprint(m.row.AnswersOK))
		v.Evidence = append(v.Evidence, Evidence{artifact.BackendsFile, m.RunID + ", " + m.row.Backend, columns, strings.Join(values, ", ")})
	}
	if len(misses) == 0 {
		i := slices.IndexFunc(s.valid, func(r run) bool { return r.Protocol != "tcp" && int64(r.QueriesSent) != r.packets() })
		r := s.valid[i]
		v.Evidence = append(v.Evidence, Evidence{artifact.RunsFile, r.RunID, "queries_sent", fmt.Sprintf("%d, but IPVS counted %d packets", r.QueriesSent, r.packets())})
	}
	return []Verdict{v}
}

// rowAgrees compares the counts of one backend. With TCP a query is not one
// packet, so only the two that count queries are compared.
func rowAgrees(protocol string, b artifact.BackendRow) bool {
	if b.NamedRequests != int64(b.AnswersOK) {
		return false
	}
	if protocol == "tcp" {
		return true
	}
	return b.IPVSInPackets == b.NamedRequests && (b.TunnelRxPackets == nil || *b.TunnelRxPackets == b.IPVSInPackets)
}

func sortedKeys(m map[string]int) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
