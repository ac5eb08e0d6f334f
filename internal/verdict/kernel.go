package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
)

// neverActive: sed, nq and ovf look at active connections only, and an entry of
// UDP never becomes active (__ip_vs_update_dest in ip_vs_ctl.c sets INACTIVE,
// ip_vs_proto_udp.c never clears it). So each decision finds every backend idle.
func neverActive(s *study) []Verdict {
	var shown, hidden, other []group
	for _, g := range s.groups {
		if !slices.Contains([]string{"sed", "nq", "ovf"}, g.Scheduler) || slices.ContainsFunc(g.runs, func(r run) bool { return r.Protocol != "udp" || len(r.usable()) < 2 }) {
			continue
		}
		switch {
		case slices.ContainsFunc(g.runs, func(r run) bool { return !wentTo(r, idleChoice(g.Scheduler, r)) }):
			other = append(other, g)
		case slices.ContainsFunc(g.runs, func(r run) bool { return !r.spare() }):
			hidden = append(hidden, g)
		default:
			shown = append(shown, g)
		}
	}
	var out []Verdict
	if len(shown) > 0 {
		low, high := spanGroups(shown, func(r run) int { return *r.Decisions })
		out = append(out, Verdict{ID: "never-active", Level: Finding, Title: "For UDP every backend looks idle",
			Text: fmt.Sprintf("%s sent each of %s a run to %s in %s: all that counts there are active connections, and those of UDP are always 0.",
				names(labels(shown), "treatment"), decided(low, high), idleNames(shown), of(runsOf(shown), runsOf(shown), "run")),
			Evidence: []Evidence{{artifact.BackendsFile, names(labels(shown), "treatment"), "ipvs_conns_delta", "above 0 for " + idleNames(shown) + " only"}},
			Remedy:   "Use rr, wrr, lc or wlc for UDP."})
	}
	if len(hidden) > 0 {
		n := runsOf(hidden)
		low, high := spanGroups(hidden, func(r run) int {
			if r.Decisions == nil {
				return 0
			}
			return *r.Decisions
		})
		out = append(out, Verdict{ID: "never-active-hidden", Level: Caution, Aside: true, Title: "Two causes for one picture",
			Text: fmt.Sprintf("%s went to %s in %s. Having %s is reason enough; that active connections are always 0 for UDP would do the same with any number, and these runs cannot tell the two apart.",
				names(labels(hidden), "treatment"), idleNames(hidden), of(n, n, "run"), decided(low, high)),
			Evidence: []Evidence{{artifact.RunsFile, names(labels(hidden), "treatment"), "decisions", between(low, high)}},
			Remedy:   "Run them with many source ports: one that spreads then does not depend on active connections."})
	}
	if len(other) > 0 {
		out = append(out, Verdict{ID: "active-unexpected", Level: Caution, Title: "Not what the kernel's source says",
			Text: fmt.Sprintf("%s did not send everything to the backend that idle counters point to, in at least one of %s. The kernel never counts UDP connections as active, so this needs an explanation.",
				names(labels(other), "treatment"), some(runsOf(other), "run")),
			Evidence: []Evidence{{artifact.BackendsFile, names(labels(other), "treatment"), "ipvs_conns_delta, weight, position", "more than one backend"}},
			Remedy:   "Look at weights, thresholds and raw/<run_id>/conns.csv of those runs."})
	}
	return out
}

// idleChoice is the backend that the scheduler takes when nobody has an active
// connection: nq the first usable one (ip_vs_nq.c), sed and ovf the one with the
// highest weight, ties to the list head (ip_vs_sed.c, ip_vs_ovf.c).
func idleChoice(scheduler string, r run) artifact.BackendRow {
	u := r.usable()
	best := u[0]
	if scheduler == "nq" {
		return best
	}
	for _, b := range u[1:] {
		if b.Weight > best.Weight {
			best = b
		}
	}
	return best
}

func wentTo(r run, want artifact.BackendRow) bool {
	c := r.chosen()
	return len(c) == 1 && c[0].Backend == want.Backend
}

// idleNames names the backends that idle counters point to.
func idleNames(groups []group) string {
	var out []string
	heads := true
	for _, g := range groups {
		for _, r := range g.runs {
			b := idleChoice(g.Scheduler, r)
			heads = heads && b.Position == 0
			name := Short(b.Backend)
			if b.Position == 0 {
				name += " (list head)"
			}
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	if heads && len(out) > 1 {
		return "the list head, whoever that was,"
	}
	return names(out, "backend")
}

// onePacket: with one-packet scheduling each packet is a decision, and nothing
// is left behind for the next one to see.
func onePacket(s *study) []Verdict {
	var on, differ []run
	var collapsed []group
	for _, g := range s.groups {
		if !g.OnePacket {
			continue
		}
		for _, r := range g.runs {
			if r.Decisions != nil && int64(*r.Decisions) == r.packets() && r.ConnRowsAfter == 0 {
				on = append(on, r)
			} else {
				differ = append(differ, r)
			}
		}
		if (g.Scheduler == "lc" || g.Scheduler == "wlc") && leastShare(g) > 0.9 {
			collapsed = append(collapsed, g)
		}
	}
	var out []Verdict
	if len(collapsed) > 0 {
		low, high := headShares(collapsed)
		n := runsOf(collapsed)
		out = append(out, Verdict{ID: "one-packet-collapse", Level: Finding, Title: "With one_packet least-connection has nothing to count",
			Text: fmt.Sprintf("%s gave %s of the packets to the list head in %s: an entry is gone before the next packet is scheduled, so every backend looks empty.",
				names(labels(collapsed), "treatment"), percentBetween(low, high), of(n, n, "run")),
			Evidence: []Evidence{{artifact.BackendsFile, names(labels(collapsed), "treatment"), "share_ipvs at position 0", percentBetween(low, high)}},
			Remedy:   "Use rr or wrr with one_packet."})
	}
	if len(differ) > 0 {
		r := differ[0]
		d := "unknown"
		if r.Decisions != nil {
			d = Count(*r.Decisions)
		}
		out = append(out, Verdict{ID: "one-packet-off", Level: Caution, Title: "one_packet did not act everywhere",
			Text: fmt.Sprintf("In %s with one_packet the decisions are not the packets or rows were left in the table; %s has %s decisions, %s packets and %s.",
				of(len(differ), len(differ)+len(on), "run"), r.RunID, d, Count(r.packets()), some(r.ConnRowsAfter, "row")),
			Evidence: []Evidence{{artifact.RunsFile, firstIDs(differ), "decisions, conn_rows_after", fmt.Sprintf("%s, %d", d, r.ConnRowsAfter)}},
			Remedy:   "Look at raw/" + r.RunID + "/ipvs.json: the flag must be set there."})
	} else if len(on) > 0 {
		out = append(out, Verdict{ID: "one-packet-on", Level: OK, Title: "One packet, one decision",
			Text:     fmt.Sprintf("In %s with one_packet the decisions equal the packets and no row was left in the table.", of(len(on), len(on), "run")),
			Evidence: []Evidence{{artifact.RunsFile, "one_packet treatments", "decisions, conn_rows_after", "equal to ipvs_in_packets of backends.csv, 0"}}})
	}
	return out
}

func leastShare(g group) float64 {
	least := 1.0
	for _, r := range g.runs {
		share, ok := r.shareAt(0)
		if !ok || len(r.usable()) < 2 {
			return 0
		}
		least = min(least, share)
	}
	return least
}

func headShares(groups []group) (low, high float64) {
	low = 1
	for _, g := range groups {
		for _, r := range g.runs {
			if share, ok := r.shareAt(0); ok {
				low, high = min(low, share), max(high, share)
			}
		}
	}
	return low, high
}

// spread: how treatments that used several backends divided the load, measured
// against what whole decisions allow: c decisions over n backends are c/n
// rounded up or down each, and nothing between.
func spread(s *study) []Verdict {
	type key struct{ split, answers string }
	even := map[key][]group{}
	var order []key
	var uneven []string
	var unevenGroups []group
	for _, g := range s.groups {
		if !slices.ContainsFunc(g.runs, func(r run) bool { return len(r.chosen()) > 1 }) {
			continue
		}
		if !slices.ContainsFunc(g.runs, func(r run) bool { return !quantised(g.Scheduler, r) }) {
			k := key{pattern(g, connsOf), pattern(g, answersOf)}
			if even[k] == nil {
				order = append(order, k)
			}
			even[k] = append(even[k], g)
		} else if leastShare(g) <= 0.9 || !g.OnePacket {
			uneven = append(uneven, g.label+" "+sharesOf(g))
			unevenGroups = append(unevenGroups, g)
		}
	}
	var out []Verdict
	for _, k := range order {
		out = append(out, evenly(even[k], k.split, k.answers))
	}
	if len(uneven) > 0 {
		n := runsOf(unevenGroups)
		out = append(out, Verdict{ID: "spread-uneven", Level: Finding, Title: "Uneven spread",
			Text: fmt.Sprintf("In %s the load was not divided as evenly as whole decisions allow: %s (share of accepted answers per backend, over the blocks).",
				some(n, "run"), strings.Join(uneven, "; ")),
			Evidence: []Evidence{{artifact.BackendsFile, names(labels(unevenGroups), "treatment"), "share_answers_ok", strings.Join(uneven, "; ")}}})
	}
	return out
}
