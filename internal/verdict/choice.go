package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
)

// decisions: a scheduler shows itself only in the choices that it makes.
// Without one_packet IPVS chooses once per source port, because further packets
// of the port follow its entry (ip_vs_core.c, ip_vs_in_hook).
func decisions(s *study) []Verdict {
	var few, counted []run
	unknown := 0
	for _, r := range s.valid {
		switch {
		case len(r.usable()) < 2:
		case r.Decisions == nil:
			unknown++
		default:
			counted = append(counted, r)
			if !r.spare() {
				few = append(few, r)
			}
		}
	}
	var out []Verdict
	if unknown > 0 {
		out = append(out, Verdict{ID: "decisions-unknown", Level: Caution, Title: "Decisions not counted",
			Text:     fmt.Sprintf("In %s the number of decisions is not known: under persistence entries are made without one.", of(unknown, len(s.valid), "run")),
			Evidence: []Evidence{{artifact.RunsFile, "valid = true", "decisions", fmt.Sprintf("empty in %d of %d", unknown, len(s.valid))}},
			Remedy:   "Take persistence out of the service to study its scheduler."})
	}
	if len(few) == 0 {
		if len(counted) > 0 {
			low, high := span(counted, func(r run) int { return *r.Decisions })
			out = append(out, Verdict{ID: "decisions-enough", Level: OK, Title: "Enough decisions to see a scheduler",
				Text:     fmt.Sprintf("Each of %s made %s decisions, at least as many as there are backends.", some(len(counted), "run"), between(low, high)),
				Evidence: []Evidence{{artifact.RunsFile, "valid = true", "decisions", between(low, high)}}})
		}
		return out
	}
	return append(out, tooFew(s, few, counted))
}

func tooFew(s *study, few, counted []run) Verdict {
	dLow, dHigh := span(few, func(r run) int { return *r.Decisions })
	pLow, pHigh := span(few, func(r run) int { return r.SourcePorts })
	bLow, bHigh := span(few, func(r run) int { return len(r.usable()) })
	cLow, cHigh := span(few, func(r run) int { return len(r.chosen()) })
	kinds := schedulersOf(s, few)
	v := Verdict{ID: "decisions-few", Level: Refusal,
		Title: "No statement about schedulers is possible",
		Evidence: []Evidence{
			{artifact.RunsFile, rowsFor(s, few), "source_ports", between(pLow, pHigh)},
			{artifact.RunsFile, rowsFor(s, few), "decisions", between(dLow, dHigh)},
			{artifact.RunsFile, rowsFor(s, few), "conn_rows_after", between(span(few, func(r run) int { return r.ConnRowsAfter }))},
			{artifact.BackendsFile, rowsFor(s, few), "ipvs_in_packets", fmt.Sprintf("above 0 for %s of %s backends a run", between(cLow, cHigh), between(bLow, bHigh))},
		},
		Remedy: moreDecisions(s.Facts, bHigh),
	}
	whichever := "with scheduler " + names(kinds, "scheduler")
	if len(kinds) > 1 {
		whichever = fmt.Sprintf("whichever of the %s schedulers was set", Count(len(kinds)))
	}
	if pHigh == 1 && dHigh == 1 && dLow == 1 && cHigh == 1 && cLow == 1 {
		v.Text = fmt.Sprintf("In %s all queries came from 1 source port, so IPVS made 1 decision and sent everything to 1 of %s backends, %s.",
			of(len(few), len(counted), "run"), between(bLow, bHigh), whichever)
	} else {
		v.Text = fmt.Sprintf("In %s, with %s, IPVS made only %s, fewer than the %s backends, %s.",
			of(len(few), len(counted), "run"), ports(pLow, pHigh), decided(dLow, dHigh), between(bLow, bHigh), whichever)
	}
	if len(few) < len(counted) {
		v.Level, v.Title = Caution, "Some runs say nothing about their scheduler"
	} else {
		v.Text += fmt.Sprintf(" How a scheduler spreads load shows only from %s on.", decided(bHigh, bHigh))
	}
	return v
}

func ports(low, high int) string   { return between(low, high) + " " + plural(high, "source port") }
func decided(low, high int) string { return between(low, high) + " " + plural(high, "decision") }

// moreDecisions is what to change to give the scheduler something to decide.
func moreDecisions(f Facts, backends int) string {
	sockets := fmt.Sprintf("Set sockets in the load block to %d or more: each source port is one decision.", 20*max(1, (backends+19)/20))
	if f.Protocol == "udp" && f.Forward != "masquerade" && !f.Persistence {
		return sockets + " Or set one_packet = true: then each packet is one."
	}
	return sockets
}

// pinning is a treatment that sent everything to one backend in all its runs.
type pinning struct {
	group
	backend string
	head    bool // that backend was list head in all of them
}

// pinnedGroups finds the treatments that always used one and the same backend,
// and the others; one with a run that reached nobody is in neither list, nor is
// one that follows the rotating list.
func pinnedGroups(s *study) (list []pinning, others []group) {
	rotating := followers(s)
	for _, g := range s.groups {
		if slices.ContainsFunc(g.runs, func(r run) bool { return len(r.chosen()) == 0 }) {
			continue
		}
		if slices.ContainsFunc(rotating, func(f follower) bool { return f.ID == g.ID }) {
			continue // it keeps to a place of the list and to no backend
		}
		p := pinning{group: g, head: true}
		same := true
		for _, r := range g.runs {
			c := r.chosen()
			if len(c) != 1 || len(r.usable()) < 2 || p.backend != "" && p.backend != c[0].Backend {
				same = false
				break
			}
			p.backend = c[0].Backend
			p.head = p.head && c[0].Position == 0
		}
		if same && p.backend != "" {
			list = append(list, p)
		} else {
			others = append(others, g)
		}
	}
	return list, others
}

// pinned: when a treatment always uses one backend, what is measured is that
// backend. If treatments use different ones, the two cannot be told apart.
func pinned(s *study) []Verdict {
	list, others := pinnedGroups(s)
	if len(list) == 0 {
		return nil
	}
	classes := map[string][]pinning{}
	var order []string
	for _, p := range list {
		if classes[p.backend] == nil {
			order = append(order, p.backend)
		}
		classes[p.backend] = append(classes[p.backend], p)
	}
	// The smallest class first: it is the exception that needs the eye.
	slices.SortStableFunc(order, func(a, b string) int { return len(classes[a]) - len(classes[b]) })
	if len(order) == 1 && len(others) == 0 {
		return []Verdict{sameBackend(s, list)}
	}
	var parts []string
	var ev []Evidence
	for i, b := range order {
		who := ""
		if n := len(classes[b]); i > 0 && i == len(order)-1 && len(others) == 0 && n > 3 {
			who = "the other " + some(n, "treatment")
		}
		parts = append(parts, describeClass(who, classes[b]))
		ev = append(ev, classEvidence(classes[b]))
	}
	what := strings.Join(parts, "; ")
	if len(others) > 0 {
		what += fmt.Sprintf("; %s used several", names(labels(others), "treatment"))
	}
	v := Verdict{ID: "confounded", Level: Caution, Title: "Scheduler and backend are confounded", Evidence: ev,
		Text:   what + ". A difference between them in time may be the backend's and not the scheduler's.",
		Remedy: `Let the list head rotate (controls, or factor "order"), or compare only treatments that used the same backends.`}
	if !hasScheduler(s) {
		v.Title = "Treatment and backend are confounded"
		v.Text = what + ". A difference between them in time may be the backend's and not the treatment's."
	}
	return []Verdict{v}
}

// sameBackend: every treatment did the same thing to the same backend.
func sameBackend(s *study, list []pinning) Verdict {
	v := Verdict{ID: "same-backend", Level: Finding, Title: "All treatments used the same backend", Evidence: []Evidence{classEvidence(list)},
		Text: describeClass("", list) + "."}
	if len(list) > 1 {
		v.Text = describeClass("All "+some(len(list), "treatment"), list) + "."
		v.Text += fmt.Sprintf(" To the backends these %s treatments were one and the same.", Count(len(list)))
		v.Remedy = "Expect no difference between them; use more source ports" + anotherVIP(s, list) + " to make them differ."
	} else {
		v.Title = "One backend got everything"
		v.Remedy = moreDecisions(s.Facts, 1)
	}
	return v
}

// anotherVIP mentions the VIP when a treatment hashes it.
func anotherVIP(s *study, list []pinning) string {
	for _, p := range list {
		if p.Scheduler == "dh" && len(s.VIPs) > 0 {
			return " (and for dh another VIP than " + strings.Join(s.VIPs, ", ") + ", since it hashes the VIP)"
		}
	}
	return ""
}

// describeClass says who used a backend: "dh sent everything to ns[2] in 5 of
// 5 runs". who replaces the list of names when it is not empty.
func describeClass(who string, class []pinning) string {
	var gs []group
	head := true
	for _, p := range class {
		gs = append(gs, p.group)
		head = head && p.head
	}
	n := runsOf(gs)
	where := Short(class[0].backend)
	if head {
		where += ", the list head,"
	}
	if who == "" {
		who = names(labels(gs), "treatment")
	}
	return fmt.Sprintf("%s sent everything to %s in %s", who, where, of(n, n, "run"))
}

func classEvidence(class []pinning) Evidence {
	var ids []string
	for _, p := range class {
		ids = append(ids, p.ID)
	}
	who := some(len(ids), "treatment")
	if len(ids) <= 4 {
		who = names(ids, "treatment")
	}
	return Evidence{artifact.BackendsFile, who, "ipvs_in_packets", "above 0 for " + class[0].backend + " only"}
}

// backendsDiffer reports whether treatments that always used one backend are
// compared with such as used another, or several.
func backendsDiffer(s *study) (list []pinning, used int, differ bool) {
	list, others := pinnedGroups(s)
	seen := map[string]bool{}
	for _, p := range list {
		seen[p.backend] = true
	}
	return list, len(seen), len(list) > 0 && (len(seen) > 1 || len(others) > 0)
}

// oneKey: schedulers that choose by an address need more than one of it.
func oneKey(s *study) []Verdict {
	var byVIP, bySource []group
	for _, g := range s.groups {
		if !slices.ContainsFunc(g.runs, run.spare) || slices.ContainsFunc(g.runs, func(r run) bool { return len(r.chosen()) != 1 }) {
			continue
		}
		switch g.Scheduler {
		case "dh", "lblc", "lblcr":
			if g.VIPs == 1 {
				byVIP = append(byVIP, g)
			}
		case "sh", "mh":
			if g.ClientAddresses == 1 && !slices.Contains(g.Flags, g.Scheduler+"-port") {
				bySource = append(bySource, g)
			}
		}
	}
	var parts []string
	if n := len(byVIP); n > 0 {
		parts = append(parts, fmt.Sprintf("%s %s by the destination address, and there was 1 VIP", names(labels(byVIP), "treatment"), verb(n, "chooses", "choose")))
	}
	if n := len(bySource); n > 0 {
		parts = append(parts, fmt.Sprintf("%s %s by the source address, and there was 1 client address", names(labels(bySource), "treatment"), verb(n, "chooses", "choose")))
	}
	if len(parts) == 0 {
		return nil
	}
	both := slices.Concat(byVIP, bySource)
	n := runsOf(both)
	low, high := spanGroups(both, func(r run) int { return *r.Decisions })
	return []Verdict{{ID: "one-key", Level: Finding, Title: "Hashing one address gives one backend",
		Text:     fmt.Sprintf("%s. In %s all of the %s went to one backend, as any number would have.", strings.Join(parts, "; "), of(n, n, "run"), decided(low, high)),
		Evidence: []Evidence{{artifact.BackendsFile, names(labels(both), "treatment"), "ipvs_conns_delta", "above 0 for 1 backend a run"}},
		Remedy:   "Use more VIPs (factor vips) for dh, lblc and lblcr, more client addresses or the flag sh-port or mh-port for sh and mh."}}
}

func schedulersOf(s *study, runs []run) []string {
	var out []string
	for _, g := range s.groups {
		if g.Scheduler != "" && !slices.Contains(out, g.Scheduler) && slices.ContainsFunc(runs, func(r run) bool { return r.TreatmentID == g.ID }) {
			out = append(out, g.Scheduler)
		}
	}
	return out
}

func hasScheduler(s *study) bool { return slices.Contains(s.Factors, "scheduler") }

func rowsFor(s *study, some []run) string {
	if len(some) == len(s.valid) {
		return "valid = true (" + Count(len(some)) + ")"
	}
	return firstIDs(some)
}

// span returns the smallest and the largest value over the runs.
func span(runs []run, value func(run) int) (low, high int) {
	for i, r := range runs {
		v := value(r)
		if i == 0 || v < low {
			low = v
		}
		if i == 0 || v > high {
			high = v
		}
	}
	return low, high
}

func spanGroups(groups []group, value func(run) int) (low, high int) {
	var all []run
	for _, g := range groups {
		all = append(all, g.runs...)
	}
	return span(all, value)
}
