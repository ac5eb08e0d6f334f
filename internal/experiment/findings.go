package experiment

import (
	"fmt"
	"slices"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/load"
)

// Flags of a run beside the named gaps of [load.Ladder]. Those before
// FlagCaptureDropped are outcomes; those from it on make the run invalid.
const (
	FlagDuplicateAnswers = "duplicate_answers" // more answers than queries
	FlagICMPErrors       = "icmp_errors"       // a client received ICMP errors about its queries
	FlagTooBig           = "too_big"           // ICMP said that a query was too big for a link
	FlagFragmented       = "fragmented"        // queries or answers came in fragments
	FlagPastDirector     = "past_director"     // queries left the client for another MAC than the director's
	FlagUnmatchedAnswers = "unmatched_answers" // answers to queries that the capture does not hold
	FlagNotTaken         = "not_taken"         // answered in time at the client's NIC, and the generator did not get it in time
	FlagDeadlinesMissed  = "deadlines_missed"  // queries of an open loop left when the next one was due, or later

	FlagCaptureDropped    = "capture_dropped"    // outcomes are incomplete
	FlagCountersUnsettled = "counters_unsettled" // IPVS's counters did not come to rest
	FlagCountsContradict  = "counts_contradict"  // more arrived than was sent, or parts do not add up
	FlagCutShort          = "cut_short"          // the load or a reading did not finish
)

// findings are the flags of a run, and what they mean in words.
type findings struct {
	flags   []string
	notes   []string
	invalid bool
}

func (f *findings) outcome(flag, format string, args ...any) {
	f.flags = append(f.flags, flag)
	f.notes = append(f.notes, flag+": "+fmt.Sprintf(format, args...))
}

func (f *findings) broken(flag, format string, args ...any) {
	f.invalid = true
	f.outcome(flag, format, args...)
}

func (f *findings) sortedFlags() []string {
	slices.Sort(f.flags)
	return slices.Compact(f.flags)
}

// judge compares all counts of the run.
func (out *measured) judge(f *findings, r artifact.Run, reports reportSum) {
	for _, why := range out.cut {
		f.broken(FlagCutShort, "%s", why)
	}
	switch {
	case reports.interrupted:
		f.broken(FlagCutShort, "the generator was stopped after %d of %d queries", reports.sent, r.QueriesPlanned)
	case reports.complete && reports.sent < r.QueriesPlanned:
		f.broken(FlagCutShort, "the generator sent %d of %d queries", reports.sent, r.QueriesPlanned)
	case !reports.complete && len(out.cut) == 0 && len(reports.unread) == 0:
		f.broken(FlagCutShort, "the generator left no report")
	}
	for _, why := range reports.unread {
		f.broken(FlagReportUnreadable, "%s", why)
	}
	for _, p := range out.cast.only(out.trial.Treatment.Setting.Clients) {
		if n := out.captures[p.noun].Dropped; n > 0 {
			f.broken(FlagCaptureDropped, "the capture on %s dropped %d packets", p.noun, n)
		}
	}
	if !out.stats.Settled && len(out.cut) == 0 {
		f.broken(FlagCountersUnsettled, "IPVS's counters did not settle within %s: %d packets in all, %d at its services", settleWithin, int64(out.stats.Totals.InPackets), out.atServices())
	}
	if reports.complete && reports.sent < r.QueriesSent {
		f.broken(FlagCountsContradict, "the generator sent %d queries, the capture holds %d", reports.sent, r.QueriesSent)
	}
	out.judgeRestarts(f)
	out.judgeStart(f)
	out.judgeTraffic(f)
	out.judgeGenerator(f)
	if out.direct() {
		out.judgeDirect(f)
	}
	if !f.invalid { // else the ladder would only repeat what is known
		out.judgeLadder(f, reports)
	}
}

func (out *measured) judgeTraffic(f *findings) {
	if n := out.summary.AnswersDuplicate; n > 0 {
		f.outcome(FlagDuplicateAnswers, "%d answers more than one for each query", n)
	}
	if n := out.matched.Unmatched; n > 0 {
		f.outcome(FlagUnmatchedAnswers, "%d answers belong to no query of the capture", n)
	}
	for _, c := range out.matched.ICMP {
		f.outcome(FlagICMPErrors, "%d of type %d code %d from %s", c.Count, c.Type, c.Code, c.From)
		if c.TooBig() {
			f.outcome(FlagTooBig, "%d from %s: the packets were too big for the link behind it, and must not be fragmented", c.Count, c.From)
		}
	}
	if n := out.matched.Fragmented; n != (load.Fragmented{}) {
		f.outcome(FlagFragmented, "%d queries and %d answers came in %d fragments, %d have not come whole", n.Queries, n.Answers, n.Fragments, n.Incomplete)
	}
	s := out.trial.Treatment.Setting
	strangers := map[string]int{}
	for _, q := range out.matched.Queries {
		if q.Outcome != load.Unanswered && !out.cast.answers(s, q.Backend) {
			strangers[q.Backend]++
		}
	}
	for _, from := range sortedKeys(strangers) {
		f.broken(FlagCountsContradict, "%d answers came from %s, which was not asked", strangers[from], from)
	}
	hops := out.cast.hops(s)
	for _, hop := range sortedKeys(out.summary.NextHops) {
		flag := FlagPastDirector
		if out.direct() {
			flag = FlagPastBackend
		}
		if n := out.summary.NextHops[hop]; !hops[hop] {
			f.outcome(flag, "%d queries went to %s", n, hop)
		}
	}
}

// answers reports whether the client gets its answers from that machine.
func (c *cast) answers(s Setting, machine string) bool {
	if b, ok := c.straight(s); ok {
		return machine == b.noun.String()
	}
	return slices.ContainsFunc(c.backends, func(p part) bool { return p.noun.String() == machine })
}

func (out *measured) judgeLadder(f *findings, reports reportSum) {
	whole, backends := out.rungs(reports)
	gaps, wrong := load.Ladder(whole, backends, load.LadderSpec{
		TCP: out.trial.Treatment.Setting.Protocol == "tcp", Duplicates: out.duplicating,
	})
	for _, g := range gaps {
		where := ""
		if g.Backend != "" {
			where = g.Backend + ": "
		}
		f.outcome(g.Name, "%s%d between %s and %s", where, g.Lost, g.From, g.To)
	}
	for _, c := range wrong {
		f.broken(FlagCountsContradict, "%s", c)
	}
}

// rungs counts the queries at each place of their way.
func (out *measured) rungs(reports reportSum) (load.Rungs, map[string]load.Rungs) {
	sent := int64(out.matched.Traffic.TxPackets)
	if out.trial.Treatment.Setting.Protocol == "udp" {
		sent = max(sent, int64(reports.sent)) // netem on the client's egress comes before the capture
	}
	if out.direct() {
		return out.directRungs(sent)
	}
	whole := load.Rungs{ClientSent: &sent, DirectorReceived: out.directorReceived(sent), IPVSIn: load.Count(out.serviceIn())}
	var tunnel, requests, responses int64
	tunnels := true
	backends := map[string]load.Rungs{}
	for _, d := range out.listed() {
		n := out.cast.backendAt(d)
		b := backends[n.String()]
		c := out.destinationDelta(d)
		if b.IPVSIn != nil {
			*b.IPVSIn += c.packets
			continue // a backend that is listed twice has one tunnel and one named
		}
		named := out.namedDelta(n)
		b.IPVSIn, b.TunnelReceived = load.Count(c.packets), out.tunnelDelta(n)
		b.NamedRequests, b.NamedResponses = &named.requests, &named.responses
		b.ClientReceived, b.OK = out.received([]string{n.String()}, named.responses)
		backends[n.String()] = b
		requests, responses = requests+named.requests, responses+named.responses
		if b.TunnelReceived == nil {
			tunnels = false
		} else {
			tunnel += *b.TunnelReceived
		}
	}
	if tunnels {
		whole.TunnelReceived = &tunnel
	}
	whole.NamedRequests, whole.NamedResponses = &requests, &responses
	whole.ClientReceived, whole.OK = load.Count(0), load.Count(0)
	for _, n := range sortedKeys(backends) {
		*whole.ClientReceived += *backends[n].ClientReceived
		*whole.OK += *backends[n].OK
	}
	return whole, backends
}

// received counts the answers that reached the client from these machines, and
// the accepted ones. A duplicate that named has sent (to a repeated query) stands on both
// rungs; one that the network has made stands on none, since it is an outcome of
// its own and no loss.
func (out *measured) received(from []string, responses int64) (received, ok *int64) {
	var answers, duplicates, good int64
	for _, q := range out.matched.Queries {
		if !slices.Contains(from, q.Backend) || q.Outcome == load.Unanswered {
			continue
		}
		answers++
		duplicates += int64(q.Duplicates)
		if q.Outcome == load.OK {
			good++
		}
	}
	genuine := max(0, min(duplicates, responses-answers))
	return load.Count(answers + genuine), load.Count(good + genuine)
}

// serviceIn is what the services counted themselves, beside their destinations.
func (out *measured) serviceIn() int64 {
	var before, after uint64
	for _, s := range out.before.fresh.Services {
		if out.mine(s.IPVSKey) {
			before += s.Stats.InPackets
		}
	}
	for _, s := range out.stats.Services {
		if out.mine(s.IPVSKey) {
			after += s.Stats.InPackets
		}
	}
	return int64(increase(before, after))
}

// atServices is what all services of the director counted since they were made.
func (out *measured) atServices() (n uint64) {
	for _, s := range out.stats.Services {
		n += s.Stats.InPackets
	}
	return n
}

// directorReceived is how many packets of the load the director's IP layer
// saw: all that it received but ICMP, which is the only other traffic there.
// ICMP errors about tunnelled packets are taken by IPVS before they are counted
// as ICMP; so the number is never above what was sent. nil when it is unknown:
// with masquerade (of any service) answers pass the director too.
func (out *measured) directorReceived(sent int64) *int64 {
	if out.cast.lab.Topology.Forwards(out.cast.director.noun) {
		return nil
	}
	b, a := out.before.counters[out.cast.director.noun].SNMP, out.after[out.cast.director.noun].SNMP
	ip, icmpName := "Ip.InReceives", "Icmp.InMsgs"
	if vips := out.cast.service.VIPs; len(vips) > 0 && vips[0].Is6() { // ICMPv6 finds neighbours too
		ip, icmpName = "Ip6.InReceives", "Icmp6.InMsgs"
	}
	if _, ok := a[ip]; !ok {
		return nil
	}
	all := increase(b[ip], a[ip])
	icmp, _ := load.Rise(b[icmpName], a[icmpName], snmpBits(icmpName, out.after[out.cast.director.noun]))
	n := min(sent, int64(increase(icmp, all)))
	return &n
}

// duplicates reports whether an impairment makes copies of packets.
func duplicates(t *lang.Topology) bool {
	for _, m := range t.Machines {
		for _, nic := range m.NICs {
			if nic.Impair != nil && nic.Impair.Duplicate > 0 {
				return true
			}
		}
	}
	return false
}
