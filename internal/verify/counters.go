package verify

import (
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/stats"
)

// increase is after − before; 0 when the counter went back: these have 64 bits
// (see [load.Rise]), so that it began anew, which the run's flags must say.
func increase(before, after uint64) int64 {
	if after < before {
		return 0
	}
	return int64(after - before)
}

// destination is what IPVS counted for one backend's address.
type destination struct {
	address                netip.Addr
	position, weight       int
	conns, packets, octets int64
}

// destinations subtracts the counters before from those after, by address,
// summed over the run's VIPs.
func (data *raw) destinations(s setting) (list []destination, persistent bool) {
	vips, port := data.target(s)
	type key struct {
		vip  netip.Addr
		addr netip.AddrPort
	}
	before := map[key]proto.IPVSCounters{}
	first := true
	for _, svc := range data.fresh.Services {
		if !data.mine(svc.IPVSKey, s, vips, port) {
			continue
		}
		persistent = persistent || svc.Persistence > 0
		for i, d := range svc.Destinations {
			before[key{svc.VIP, netip.AddrPortFrom(d.Address, d.Port)}] = d.Stats
			known := slices.ContainsFunc(list, func(o destination) bool { return o.address == d.Address })
			if first && !known {
				list = append(list, destination{address: d.Address, position: i, weight: d.Weight})
			}
		}
		first = false
	}
	for _, svc := range data.settled.Services {
		if !data.mine(svc.IPVSKey, s, vips, port) {
			continue
		}
		for _, d := range svc.Destinations {
			b := before[key{svc.VIP, netip.AddrPortFrom(d.Address, d.Port)}]
			for i := range list {
				if list[i].address == d.Address {
					list[i].conns += increase(b.Conns, d.Stats.Conns)
					list[i].packets += increase(b.InPackets, d.Stats.InPackets)
					list[i].octets += increase(b.InBytes, d.Stats.InBytes)
				}
			}
		}
	}
	return list, persistent
}

// counted compares the rows of a run's backends, and what the run's row takes
// from them, with the counters of the director and the backends.
func counted(c *Check, r artifact.Run, rows []artifact.BackendRow, t trial, data *raw) {
	s := t.Treatment.Setting
	if s.Direct != "" {
		countedDirect(c, r, rows, s, data)
		return
	}
	list, persistent := data.destinations(s)
	var conns, packets int64
	for _, d := range list {
		conns, packets = conns+d.conns, packets+d.packets
	}
	accepted := map[string]int{}
	for _, q := range data.queries {
		if q.Outcome == "ok" {
			accepted[q.Backend]++
		}
	}
	if len(rows) != len(list) {
		c.fail(artifact.BackendsFile, r.RunID, "has %d rows, IPVS listed %d backends", len(rows), len(list))
	}
	var weights []float64
	for _, b := range rows {
		weights = append(weights, float64(b.Weight))
		i := slices.IndexFunc(list, func(d destination) bool { return d.address.String() == b.Address })
		if i < 0 {
			c.fail(artifact.BackendsFile, r.RunID+" "+b.Backend, "%s is no destination in ipvs.json", b.Address)
			continue
		}
		d, w := list[i], backendRow(c, b)
		w.whole("position", int64(b.Position), int64(d.position))
		w.whole("weight", int64(b.Weight), int64(d.weight))
		w.whole("ipvs_conns_delta", b.IPVSConnsDelta, d.conns)
		w.whole("ipvs_in_packets", b.IPVSInPackets, d.packets)
		w.whole("ipvs_in_bytes", b.IPVSInBytes, d.octets)
		w.whole("answers_ok", int64(b.AnswersOK), int64(accepted[b.Backend]))
		w.real("share_ipvs", b.ShareIPVS, ratio(float64(d.packets), float64(packets)))
		w.real("share_answers_ok", b.ShareAnswersOK, ratio(float64(accepted[b.Backend]), float64(r.AnswersOK)))
		named(w, b, data)
	}
	w := runRow(c, r)
	w.whole("ipvs_conns_delta", r.IPVSConnsDelta, conns)
	w.whole("conn_rows_after", int64(r.ConnRowsAfter), data.tableRows(s))
	var decisions *int
	if !persistent {
		n := int(conns)
		decisions = &n
	}
	w.maybe("decisions", r.Decisions, decisions)
	w.real("jain_weighted", r.JainWeighted, jain(rows))
	if r.JainBound != nil { // results before it was filled in leave it empty
		var bound *float64
		if decisions != nil {
			if v, ok := stats.JainBound(*decisions, weights); ok {
				bound = &v
			}
		}
		w.real("jain_bound", r.JainBound, bound)
	}
}

// named compares the backend's own counters.
func named(w row, b artifact.BackendRow, data *raw) {
	before, after := data.before[b.Backend], data.after[b.Backend]
	if before.Named != nil && after.Named != nil {
		w.whole("named_requests", b.NamedRequests, increase(before.Named.Requests, after.Named.Requests))
	}
	if b.TunnelRxPackets == nil {
		return
	}
	w.check.Compared++
	for name, link := range after.Links {
		if name != "lo" && increase(before.Links[name].RxPackets, link.RxPackets) == *b.TunnelRxPackets {
			return
		}
	}
	w.check.fail(w.file, w.name, "tunnel_rx_packets is %d, and no device of the backend received so many", *b.TunnelRxPackets)
}

// tableRows counts the run's rows of the connection table; a template of
// persistence has the client port 0.
func (data *raw) tableRows(s setting) int64 {
	vips, port := data.target(s)
	n := int64(0)
	for _, c := range data.conns {
		if c.client.Port() != 0 && c.of(s, vips, port) {
			n++
		}
	}
	return n
}

// jain is the index of accepted answers per weight, from its definition:
// (Σx)² / (n·Σx²) over the backends with a weight.
func jain(rows []artifact.BackendRow) *float64 {
	var n, sum, squares float64
	for _, b := range rows {
		if b.Weight > 0 {
			x := float64(b.AnswersOK) / float64(b.Weight)
			n, sum, squares = n+1, sum+x, squares+math.Pow(x, 2)
		}
	}
	return ratio(sum*sum, n*squares)
}

// broken are the flags that make a run invalid; gaps are those that name a loss.
var (
	broken = []string{"capture_dropped", "counters_unsettled", "counts_contradict", "cut_short",
		"counters_restarted", "clock_jumped", "report_unreadable", "clients_apart"}
	gaps = []string{"lost_before_director", "not_scheduled", "lost_in_tunnel", "backend_drop", "not_answered", "lost_on_return", "rejected_by_client"}
)

// judged checks that the run's flags and validity fit its counts: valid exactly
// without a flag that breaks it, every loss named, and no loss named that the
// counts do not show.
func judged(c *Check, r artifact.Run, rows []artifact.BackendRow) {
	c.Compared++
	has := func(list []string) bool {
		return slices.ContainsFunc(r.OutcomeFlags, func(f string) bool { return slices.Contains(list, f) })
	}
	if r.Valid == has(broken) {
		c.fail(artifact.RunsFile, r.RunID, "valid is %v with outcome_flags %q", r.Valid, r.OutcomeFlags)
	}
	if !r.Valid || r.Protocol != "udp" || r.AnswersDuplicate > 0 {
		return
	}
	var packets, requests int64
	for _, b := range rows {
		packets, requests = packets+b.IPVSInPackets, requests+b.NamedRequests
	}
	if r.PastLVS() {
		packets = requests // IPVS is not on the way
	}
	counts := fmt.Sprintf("%d sent, %d by IPVS, %d by named, %d ok, %d unanswered", r.QueriesSent, packets, requests, r.AnswersOK, r.Unanswered)
	equal := int64(r.QueriesSent) == packets && packets == requests && requests == int64(r.AnswersOK) && r.Unanswered == 0
	if equal && has(gaps) {
		c.fail(artifact.RunsFile, r.RunID, "outcome_flags name a loss (%q), the counts show none: %s", r.OutcomeFlags, counts)
	}
	if !equal && len(r.OutcomeFlags) == 0 {
		c.fail(artifact.RunsFile, r.RunID, "no flag names what the counts show: %s", counts)
	}
}
