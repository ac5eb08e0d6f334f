package load

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"time"
)

// Summary counts outcomes. AnswersOK to Unanswered add up to Sent, apart from
// AnswersDuplicate, which are answers beyond the one that decided.
type Summary struct {
	Sent               int
	AnswersOK          int
	AnswersBadRcode    int
	AnswersTruncated   int
	AnswersWrongData   int
	AnswersWrongSource int
	AnswersLate        int
	AnswersDuplicate   int
	Unanswered         int

	Start time.Time // the first query, zero when there was none
	// BatchS is the time from the first query to the last accepted answer; nil
	// when a query has no accepted answer. ResolvedS ends at the last answer or
	// time-out. Both in seconds. With several clients it is the longest one's:
	// their clocks are not compared.
	BatchS, ResolvedS *float64
	// Latency percentiles of the queries that are OK, seconds, nearest rank; nil
	// when there is none.
	LatencyP50, LatencyP95, LatencyP99 *float64

	SourcePorts int            // different client addresses and ports
	Backends    map[string]int // backend → answers that are OK
	NextHops    map[string]int // node → queries whose frame was sent to it
	// Flows are the client ports in order of their first query: what a
	// scheduler without one_packet had to decide about.
	Flows []Flow
}

// Flow is one source port and the VIP that it talked to.
type Flow struct {
	Client netip.AddrPort
	VIP    netip.Addr
	TCP    bool
	First  time.Time
	// Queries it sent, and the backend that its first accepted answer came from.
	Queries int
	Backend string
}

// Summarise counts queries. They may be of several clients.
func Summarise(queries []Query, timeout time.Duration) Summary {
	s := Summary{Backends: map[string]int{}, NextHops: map[string]int{}}
	counts := map[Outcome]*int{OK: &s.AnswersOK, BadRcode: &s.AnswersBadRcode, Truncated: &s.AnswersTruncated, WrongData: &s.AnswersWrongData,
		WrongSource: &s.AnswersWrongSource, Late: &s.AnswersLate, Unanswered: &s.Unanswered}
	spans := map[netip.Addr]*span{}
	ports := map[netip.AddrPort]bool{}
	var latencies []time.Duration
	for _, q := range queries {
		s.Sent++
		if n := counts[q.Outcome]; n != nil {
			*n++
		}
		s.AnswersDuplicate += q.Duplicates
		s.NextHops[q.NextHop]++
		ports[netip.AddrPortFrom(q.Client, q.Port)] = true
		if q.Outcome == OK {
			s.Backends[q.Backend]++
			latencies = append(latencies, q.Latency)
		}
		if s.Start.IsZero() || q.Time.Before(s.Start) {
			s.Start = q.Time
		}
		if spans[q.Client] == nil {
			spans[q.Client] = &span{first: q.Time}
		}
		spans[q.Client].add(q, timeout)
	}
	s.SourcePorts = len(ports)
	s.Flows = flows(queries)
	s.BatchS, s.ResolvedS = longest(spans)
	slices.Sort(latencies)
	s.LatencyP50, s.LatencyP95, s.LatencyP99 = percentile(latencies, 50), percentile(latencies, 95), percentile(latencies, 99)
	return s
}

// span is what one client's run took.
type span struct {
	first, accepted, resolved time.Time
	missing                   bool
}

func (s *span) add(q Query, timeout time.Duration) {
	if q.Time.Before(s.first) {
		s.first = q.Time
	}
	end := q.Time.Add(timeout)
	if q.Outcome.Accepted() {
		end = q.Time.Add(q.Latency)
		if end.After(s.accepted) {
			s.accepted = end
		}
	} else {
		s.missing = true
	}
	if end.After(s.resolved) {
		s.resolved = end
	}
}

func longest(spans map[netip.Addr]*span) (batch, resolved *float64) {
	for _, s := range spans {
		batch = later(batch, s.accepted.Sub(s.first))
		resolved = later(resolved, s.resolved.Sub(s.first))
	}
	for _, s := range spans {
		if s.missing {
			batch = nil
		}
	}
	return batch, resolved
}

func later(have *float64, d time.Duration) *float64 {
	if v := d.Seconds(); have == nil || v > *have {
		return &v
	}
	return have
}

// percentile of sorted values by nearest rank.
func percentile(sorted []time.Duration, p float64) *float64 {
	if len(sorted) == 0 {
		return nil
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	v := sorted[max(rank, 1)-1].Seconds()
	return &v
}

func flows(queries []Query) []Flow {
	type key struct {
		client netip.AddrPort
		vip    netip.Addr
		tcp    bool
	}
	index := map[key]int{}
	var out []Flow
	for _, q := range queries {
		k := key{netip.AddrPortFrom(q.Client, q.Port), q.VIP, q.Protocol == "tcp"}
		i, ok := index[k]
		if !ok {
			i = len(out)
			index[k] = i
			out = append(out, Flow{Client: k.client, VIP: k.vip, TCP: k.tcp, First: q.Time})
		}
		f := &out[i]
		f.Queries++
		if q.Time.Before(f.First) {
			f.First = q.Time
		}
		if f.Backend == "" && q.Outcome.Accepted() {
			f.Backend = q.Backend
		}
	}
	slices.SortStableFunc(out, func(a, b Flow) int { return cmp.Or(a.First.Compare(b.First), a.Client.Compare(b.Client)) })
	return out
}

// MbpsBoth is the rate of DNS frames in both directions, in 10⁶ bits a second,
// over the time of the batch; nil without one.
func MbpsBoth(t Traffic, batchS *float64) *float64 {
	if batchS == nil || *batchS <= 0 {
		return nil
	}
	v := 8 * float64(t.TxFrameBytes+t.RxFrameBytes) / *batchS / 1e6
	return &v
}

// Merge puts what the captures of several clients show together, queries in
// order of their times and numbered anew.
func Merge(parts ...Matched) Matched {
	var out Matched
	for _, p := range parts {
		out.Queries = append(out.Queries, p.Queries...)
		out.Segments = append(out.Segments, p.Segments...)
		out.Traffic.TxPackets += p.Traffic.TxPackets
		out.Traffic.RxPackets += p.Traffic.RxPackets
		out.Traffic.TxIPBytes += p.Traffic.TxIPBytes
		out.Traffic.RxIPBytes += p.Traffic.RxIPBytes
		out.Traffic.TxFrameBytes += p.Traffic.TxFrameBytes
		out.Traffic.RxFrameBytes += p.Traffic.RxFrameBytes
		out.Unmatched += p.Unmatched
		out.RepeatedQueries += p.RepeatedQueries
		out.Undecodable += p.Undecodable
		out.Fragmented.Queries += p.Fragmented.Queries
		out.Fragmented.Answers += p.Fragmented.Answers
		out.Fragmented.Fragments += p.Fragmented.Fragments
		out.Fragmented.Incomplete += p.Fragmented.Incomplete
		for _, c := range p.ICMP {
			i := slices.IndexFunc(out.ICMP, func(o ICMPCount) bool { return compareICMP(o, c) == 0 })
			if i < 0 {
				out.ICMP = append(out.ICMP, c)
			} else {
				out.ICMP[i].Count += c.Count
			}
		}
	}
	slices.SortStableFunc(out.Queries, func(a, b Query) int { return a.Time.Compare(b.Time) })
	for i := range out.Queries {
		out.Queries[i].N = i + 1
	}
	slices.SortStableFunc(out.Segments, func(a, b Segment) int { return a.Time.Compare(b.Time) })
	for i := range out.Segments {
		out.Segments[i].N = i + 1
	}
	slices.SortFunc(out.ICMP, compareICMP)
	return out
}
