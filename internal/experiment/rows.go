package experiment

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/load"
	"github.com/lvslab/lvslab/internal/replay"
	"github.com/lvslab/lvslab/internal/stats"
)

// runRow is the row of a run that has no measurement yet: what the plan says.
func runRow(t Trial) artifact.Run {
	s := t.Treatment.Setting
	return artifact.Run{
		RunID: t.RunID, Experiment: t.Experiment, TreatmentID: t.Treatment.ID,
		Block: t.Block, Order: t.Order, PrevTreatment: t.PrevTreatment, Factors: t.Treatment.Factors,
		Protocol: s.Protocol, LoadMode: s.loadMode(), QueriesPlanned: s.Queries * s.Clients,
	}
}

// failedRow is the row of a run whose preconditions failed in all tries. It has
// no rows for backends: nothing was measured there.
func failedRow(t Trial, tries []try) artifact.Run {
	r := runRow(t)
	r.StartedAt = tries[len(tries)-1].At
	r.PreconditionFailures = failures(tries)
	return r
}

func failures(tries []try) []string {
	var out []string
	for _, t := range tries {
		out = append(out, t.Failed...)
	}
	return out
}

// rows turns what was measured into the run's row and those of its backends,
// and says in words what is to be known about them.
func (out *measured) rows() (artifact.Run, []artifact.BackendRow, []string) {
	backends := out.backendRows()
	r := runRow(out.trial)
	r.StartedAt, r.Kernel = out.started, out.before.kernel
	out.outcomes(&r)
	r.StartSpreadS = out.start.spread(out.trial.Treatment.Setting.Clients)
	r.ConnRowsAfter = out.connRows()
	for _, b := range backends {
		r.IPVSConnsDelta += b.IPVSConnsDelta
	}
	if out.cast.service.Persistence == nil {
		// Each entry is one choice of the scheduler; with one_packet each
		// packet makes an entry, which is gone at once but counted.
		n := int(r.IPVSConnsDelta)
		r.Decisions = &n
	}
	r.JainWeighted = jain(backends)
	r.JainBound = jainBound(r.Decisions, backends)
	r.PreconditionFailures = failures(out.tries)
	reports := out.reports(&r)
	out.unseen(&r, reports)
	if !out.direct() {
		out.replayed(&r, backends)
	}

	var found findings
	out.judge(&found, r, reports)
	if out.direct() {
		withoutLVS(&r, backends)
	}
	r.OutcomeFlags, r.Valid = found.sortedFlags(), !found.invalid
	return r, backends, found.notes
}

// outcomes fills in what the captures say.
func (out *measured) outcomes(r *artifact.Run) {
	s, t := out.summary, out.matched.Traffic
	r.QueriesSent, r.AnswersOK = s.Sent, s.AnswersOK
	r.AnswersBadRcode = s.AnswersBadRcode + s.AnswersWrongData
	r.AnswersTruncated, r.AnswersWrongSource = s.AnswersTruncated, s.AnswersWrongSource
	r.AnswersLate, r.AnswersDuplicate, r.Unanswered = s.AnswersLate, s.AnswersDuplicate, s.Unanswered
	r.BatchS, r.ResolvedS = s.BatchS, s.ResolvedS
	r.LatencyP50, r.LatencyP95, r.LatencyP99 = s.LatencyP50, s.LatencyP95, s.LatencyP99
	r.ClientTxIPBytes, r.ClientRxIPBytes = t.TxIPBytes, t.RxIPBytes
	r.MbpsClientL2Both, r.SourcePorts = load.MbpsBoth(t, s.BatchS), s.SourcePorts
	if s.BatchS != nil && *s.BatchS > 0 {
		qps := float64(s.AnswersOK) / *s.BatchS
		r.QPS = &qps
	}
}

// unseen accounts for queries that the generator sent and that never left the
// client's NIC, lost to netem on its own egress: the capture cannot show them,
// and without this a lossy treatment would look complete.
func (out *measured) unseen(r *artifact.Run, reports reportSum) {
	if missing := reports.sent - r.QueriesSent; reports.complete && missing > 0 {
		r.Unanswered += missing
		r.BatchS, r.QPS, r.MbpsClientL2Both = nil, nil, nil
	}
}

// reportSum is what all generators of a run say together.
type reportSum struct {
	complete        bool // each process has left a report
	interrupted     bool // one of them had to be stopped
	sent, completed int
	runS            float64  // of the longest one
	unread          []string // reports of dnsperf that cannot be read, and why
}

// reports reads dnsperf's own figures into the row.
func (out *measured) reports(r *artifact.Run) reportSum {
	if len(out.own) > 0 {
		return out.ownReport()
	}
	sum := reportSum{complete: len(out.loads) > 0}
	for _, l := range out.loads {
		rep, err := load.ParseReport(l.result.Stdout)
		if err != nil {
			sum.complete = false
			if l.result.Stdout != "" || l.result.Exit == 0 { // else it was killed, which has been said
				sum.unread = append(sum.unread, fmt.Sprintf("%s: %v", l.process.client, err))
			}
			continue
		}
		sum.interrupted = sum.interrupted || rep.Interrupted > 0 || rep.Reason == "interruption"
		sum.sent, sum.completed, sum.runS = sum.sent+rep.Sent, sum.completed+rep.Completed, max(sum.runS, rep.RunTime)
	}
	if sum.complete {
		r.DNSPerfRunS, r.DNSPerfCompleted = &sum.runS, &sum.completed
	}
	return sum
}

// backendRows are the backends in the order of the kernel's list.
func (out *measured) backendRows() []artifact.BackendRow {
	var rows []artifact.BackendRow
	packets := int64(0)
	for position, d := range out.listed() {
		n := out.cast.backendAt(d)
		i := slices.IndexFunc(rows, func(b artifact.BackendRow) bool { return b.Backend == n.String() })
		if i < 0 {
			i = len(rows)
			rows = append(rows, artifact.BackendRow{
				RunID: out.trial.RunID, Backend: n.String(), Address: d.Address.String(), Position: position, Weight: d.Weight,
				NamedRequests: out.namedDelta(n).requests, TunnelRxPackets: out.tunnelDelta(n), AnswersOK: out.summary.Backends[n.String()],
			})
		}
		c := out.destinationDelta(d)
		rows[i].IPVSConnsDelta += c.conns
		rows[i].IPVSInPackets += c.packets
		rows[i].IPVSInBytes += c.bytes
		packets += c.packets
	}
	for i := range rows {
		if n, ok := out.planned[rows[i].Backend]; ok {
			rows[i].PlannedDecisions = &n
		}
		rows[i].ShareIPVS = fraction(rows[i].IPVSInPackets, packets)
		rows[i].ShareAnswersOK = fraction(int64(rows[i].AnswersOK), int64(out.summary.AnswersOK))
	}
	return rows
}

// listed is the destination list as it was read back; all VIPs have the same.
func (out *measured) listed() []proto.IPVSDestination {
	for _, s := range out.before.fresh.Services {
		if out.mine(s.IPVSKey) {
			return s.Destinations
		}
	}
	return nil
}

// mine reports whether a service belongs to the run and is not a neighbour.
func (out *measured) mine(k proto.IPVSKey) bool {
	if m := out.cast.service.FWMark; m != 0 {
		return k.FWMark == m
	}
	return out.asked(k.Protocol, netip.AddrPortFrom(k.VIP, k.Port))
}

// asked reports whether the run's load went there.
func (out *measured) asked(protocol string, at netip.AddrPort) bool {
	s := out.trial.Treatment.Setting
	return protocol == s.Protocol && at.Port() == out.cast.service.Port && slices.Contains(out.cast.service.VIPs[:s.VIPs], at.Addr())
}

// holds reports whether a row of the connection table is the run's, the
// templates of persistence included.
func (out *measured) holds(c proto.IPVSConn) bool {
	return out.asked(c.Protocol, c.Virtual) || replay.MarkTemplate(c, out.cast.service.FWMark)
}

func (c *cast) backendAt(d proto.IPVSDestination) addr.Noun {
	for _, r := range c.service.RealServers {
		if r.Address == d.Address && r.Port == d.Port {
			return r.Backend
		}
	}
	return addr.Noun{}
}

type ipvsDelta struct{ conns, packets, bytes int64 }

// destinationDelta is what IPVS counted for a destination since the baseline,
// summed over the VIPs.
func (out *measured) destinationDelta(d proto.IPVSDestination) ipvsDelta {
	sum := func(list []proto.IPVSService) (t proto.IPVSCounters) {
		for _, s := range list {
			if !out.mine(s.IPVSKey) {
				continue
			}
			for _, o := range s.Destinations {
				if o.Address == d.Address && o.Port == d.Port {
					t.Conns, t.InPackets, t.InBytes = t.Conns+o.Stats.Conns, t.InPackets+o.Stats.InPackets, t.InBytes+o.Stats.InBytes
				}
			}
		}
		return t
	}
	before, after := sum(out.before.fresh.Services), sum(out.stats.Services)
	return ipvsDelta{
		conns:   int64(increase(before.Conns, after.Conns)),
		packets: int64(increase(before.InPackets, after.InPackets)),
		bytes:   int64(increase(before.InBytes, after.InBytes)),
	}
}

type namedDelta struct{ requests, responses int64 }

func (out *measured) namedDelta(n addr.Noun) namedDelta {
	b, a := out.before.counters[n].Named, out.after[n].Named
	if b == nil || a == nil {
		return namedDelta{}
	}
	return namedDelta{
		requests:  int64(increase(b.Requests, a.Requests)),
		responses: int64(increase(b.Responses, a.Responses)),
	}
}

// tunnelDelta is nil when the service does not tunnel to the backend.
func (out *measured) tunnelDelta(n addr.Noun) *int64 {
	device := out.cast.tunnels[n]
	if device == "" {
		return nil
	}
	d := int64(increase(out.before.counters[n].Links[device].RxPackets, out.after[n].Links[device].RxPackets))
	return &d
}

// connRows counts the service's rows of the connection table; a template of
// persistence has the client port 0.
func (out *measured) connRows() int {
	n := 0
	for _, c := range out.stats.Conns {
		if c.Client.Port() != 0 && out.asked(c.Protocol, c.Virtual) {
			n++
		}
	}
	return n
}

// jain is Jain's index of answers_ok per weight over the backends with a weight
// above 0: 1 = shared out as the weights say, 1/n = all on one of n.
func jain(rows []artifact.BackendRow) *float64 {
	n, sum, squares := 0.0, 0.0, 0.0
	for _, b := range rows {
		if b.Weight > 0 {
			x := float64(b.AnswersOK) / float64(b.Weight)
			n, sum, squares = n+1, sum+x, squares+x*x
		}
	}
	if squares == 0 {
		return nil
	}
	j := sum * sum / (n * squares)
	return &j
}

// jainBound is the highest index that so many decisions allow: 7, 7 and 6 of 20
// are as even as it gets. Empty where the decisions are not known or none.
func jainBound(decisions *int, rows []artifact.BackendRow) *float64 {
	if decisions == nil {
		return nil
	}
	var weights []float64
	for _, b := range rows {
		weights = append(weights, float64(b.Weight))
	}
	bound, ok := stats.JainBound(*decisions, weights)
	if !ok {
		return nil
	}
	return &bound
}

func fraction(part, whole int64) *float64 {
	if whole == 0 {
		return nil
	}
	f := float64(part) / float64(whole)
	return &f
}
