package verify

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/load"
)

// outcomes counts queries.csv again.
func outcomes(c *Check, r artifact.Run, t trial, data *raw) {
	s := load.Summarise(data.queries, t.Treatment.Setting.Within)
	w := runRow(c, r)
	w.whole("queries_sent", int64(r.QueriesSent), int64(s.Sent))
	w.whole("answers_ok", int64(r.AnswersOK), int64(s.AnswersOK))
	w.whole("answers_bad_rcode", int64(r.AnswersBadRcode), int64(s.AnswersBadRcode+s.AnswersWrongData))
	w.whole("answers_truncated", int64(r.AnswersTruncated), int64(s.AnswersTruncated))
	w.whole("answers_wrong_source", int64(r.AnswersWrongSource), int64(s.AnswersWrongSource))
	w.whole("answers_late", int64(r.AnswersLate), int64(s.AnswersLate))
	w.whole("answers_duplicate", int64(r.AnswersDuplicate), int64(s.AnswersDuplicate))
	w.whole("source_ports", int64(r.SourcePorts), int64(s.SourcePorts))
	// Queries that the generator sent and that never left the client's NIC are
	// unanswered, too, and then there is no batch.
	unseen := 0
	if sent, known := data.sent(); known {
		unseen = max(0, sent-s.Sent)
	}
	if _, completed, runS, complete := data.dnsperf(); complete {
		w.maybe("dnsperf_completed", r.DNSPerfCompleted, &completed)
		w.real("dnsperf_run_s", r.DNSPerfRunS, &runS)
	}
	w.whole("unanswered", int64(r.Unanswered), int64(s.Unanswered+unseen))
	batch := data.batch(t)
	w.real("batch_s", r.BatchS, batch)
	w.real("resolved_s", r.ResolvedS, s.ResolvedS)
	var qps *float64
	if batch != nil {
		qps = ratio(float64(s.AnswersOK), *batch)
	}
	w.places("qps", 3, r.QPS, qps)
	w.real("latency_p50_s", r.LatencyP50, s.LatencyP50)
	w.real("latency_p95_s", r.LatencyP95, s.LatencyP95)
	w.real("latency_p99_s", r.LatencyP99, s.LatencyP99)
}

// batch is the time of the batch, to more places than the row has; nil when a
// query has no accepted answer or never left the client.
func (data *raw) batch(t trial) *float64 {
	s := load.Summarise(data.queries, t.Treatment.Setting.Within)
	if sent, known := data.sent(); known && sent > s.Sent {
		return nil
	}
	return s.BatchS
}

// sent is how many queries the generator tried, when it says so.
func (data *raw) sent() (n int, known bool) {
	if data.own != nil {
		return data.own.started(), !data.own.Missing
	}
	n, _, _, known = data.dnsperf()
	return n, known
}

// dnsperf adds up what all processes say; complete when each left a report.
func (data *raw) dnsperf() (sent, completed int, runS float64, complete bool) {
	for _, r := range data.reports {
		sent, completed, runS = sent+r.Sent, completed+r.Completed, max(runS, r.RunTime)
	}
	return sent, completed, runS, len(data.reports) > 0 && data.unread == 0
}

// tape reads the captures again, where they were kept: the queries must be
// those of queries.csv, and the traffic that of the row.
func tape(c *Check, r artifact.Run, t trial, data *raw) {
	if len(data.captures) == 0 {
		return
	}
	path := artifact.RawDir + "/" + r.RunID + "/"
	vips, port := data.target(t.Treatment.Setting)
	spec := load.MatchSpec{Port: port, Timeout: t.Treatment.Setting.Within}
	for v := range vips {
		spec.VIPs = append(spec.VIPs, v)
	}
	clients := map[netip.Addr]bool{}
	for _, q := range data.queries {
		if !clients[q.Client] {
			clients[q.Client] = true
			spec.Clients = append(spec.Clients, q.Client)
		}
	}
	var parts []load.Matched
	for _, pcap := range data.captures {
		m, err := load.Match(bytes.NewReader(pcap), spec)
		if err != nil {
			c.fail(path, "", "a capture cannot be read: %v", err)
			return
		}
		parts = append(parts, m)
	}
	m := load.Merge(parts...)
	c.Compared += len(m.Queries)
	if len(m.Queries) != len(data.queries) {
		c.fail(path+artifact.QueriesFile, "", "has %d queries, the capture %d", len(data.queries), len(m.Queries))
		return
	}
	if i := slices.IndexFunc(m.Queries, func(q load.Query) bool { return seen(q) != seen(data.queries[q.N-1]) }); i >= 0 {
		c.fail(path+artifact.QueriesFile, fmt.Sprintf("query %d", i+1), "is %s, the capture shows %s", seen(data.queries[i]), seen(m.Queries[i]))
	}
	queries := c.Compared // what the check counts; the row's numbers come on top
	defer func() { c.Compared = queries }()
	w := runRow(c, r)
	w.whole("client_tx_ip_bytes", r.ClientTxIPBytes, m.Traffic.TxIPBytes)
	w.whole("client_rx_ip_bytes", r.ClientRxIPBytes, m.Traffic.RxIPBytes)
	w.real("mbps_client_l2_both", r.MbpsClientL2Both, load.MbpsBoth(m.Traffic, data.batch(t)))
}

// seen is what a capture shows of a query without the zone's data and the
// machines' MAC addresses: right and wrong data look alike.
func seen(q load.Query) string {
	outcome := q.Outcome
	if outcome == load.WrongData {
		outcome = load.OK
	}
	return fmt.Sprintf("%s %s:%d → %s id %d %s %s, %s %s from %v after %v, %d duplicates, %d and %d bytes", q.Time.UTC().Format("15:04:05.000000000"),
		q.Client, q.Port, q.VIP, q.ID, q.Name, q.Type, outcome, q.Rcode, q.Source, q.Latency, q.Duplicates, q.QueryBytes, q.AnswerBytes)
}
