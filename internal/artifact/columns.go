package artifact

// column describes one column of a table: how it is written and read, and what
// it means. The same list drives the writer, the reader and datapackage.json,
// so that they cannot disagree.
type column[T any] struct {
	name        string
	typ         string // Frictionless: string, integer, number, boolean, datetime
	unit        string // "" = none
	required    bool   // never empty
	description string
	source      string // where the value comes from
	later       bool   // results that were made before it was added lack it
	get         func(*T) (string, error)
	set         func(*T, string) error
}

// FactorPrefix begins the name of the column of each factor.
const FactorPrefix = "factor_"

// factorsAfter is the number of leading columns of runs.csv that stand before
// those of the factors.
const factorsAfter = 6

// runColumns are the columns of runs.csv in order, those of the factors left out.
var runColumns = []column[Run]{
	text("run_id", true, "block, order and treatment in short; also the directory in raw/", "study", func(r *Run) *string { return &r.RunID }),
	text("experiment", true, "label of the experiment", "study", func(r *Run) *string { return &r.Experiment }),
	text("treatment_id", true, "factor=value pairs in declared order, or control=…", "study", func(r *Run) *string { return &r.TreatmentID }),
	integer("block", "", "iteration, from 1", "study", func(r *Run) *int { return &r.Block }),
	integer("order", "", "place in the order of runs, from 1, over the whole study", "study", func(r *Run) *int { return &r.Order }),
	text("prev_treatment", false, "treatment of the run before, as planned; empty for the first", "study", func(r *Run) *string { return &r.PrevTreatment }),

	text("protocol", true, "udp or tcp", "study", func(r *Run) *string { return &r.Protocol }),
	text("load_mode", true, "dnsperf; lvslab-closed or lvslab-open for the loop of lvslab's own generator", "study", func(r *Run) *string { return &r.LoadMode }),
	startedAt(),
	integer("queries_planned", "queries", "queries per client times clients", "study", func(r *Run) *int { return &r.QueriesPlanned }),
	integer("queries_sent", "queries", "queries that left the client's NIC", "client capture", func(r *Run) *int { return &r.QueriesSent }),
	integer("answers_ok", "queries", "NOERROR, expected data, source = VIP, not truncated, in time", "client capture", func(r *Run) *int { return &r.AnswersOK }),
	integer("answers_bad_rcode", "queries", "answered with another rcode or other data", "client capture", func(r *Run) *int { return &r.AnswersBadRcode }),
	integer("answers_truncated", "queries", "answered with the TC bit", "client capture", func(r *Run) *int { return &r.AnswersTruncated }),
	integer("answers_wrong_source", "queries", "answered from another address than the VIP", "client capture", func(r *Run) *int { return &r.AnswersWrongSource }),
	integer("answers_late", "queries", "answered after the load's timeout", "client capture", func(r *Run) *int { return &r.AnswersLate }),
	integer("answers_duplicate", "answers", "further answers to a query that had one", "client capture", func(r *Run) *int { return &r.AnswersDuplicate }),
	integer("unanswered", "queries", "queries without any answer, those that never left the client's NIC included", "client capture, load generator", func(r *Run) *int { return &r.Unanswered }),
	number("batch_s", "s", 6, "first query to last accepted answer; empty when a query is unanswered", "client capture", func(r *Run) **float64 { return &r.BatchS }),
	number("resolved_s", "s", 6, "first query to last answer or time-out", "client capture", func(r *Run) **float64 { return &r.ResolvedS }),
	number("qps", "1/s", 3, "answers_ok / batch_s", "client capture", func(r *Run) **float64 { return &r.QPS }),
	number("latency_p50_s", "s", 6, "median time from query to answer, over answers_ok, nearest rank", "client capture", func(r *Run) **float64 { return &r.LatencyP50 }),
	number("latency_p95_s", "s", 6, "95th percentile of the same", "client capture", func(r *Run) **float64 { return &r.LatencyP95 }),
	number("latency_p99_s", "s", 6, "99th percentile of the same", "client capture", func(r *Run) **float64 { return &r.LatencyP99 }),
	integer64("client_tx_ip_bytes", "B", "IP bytes of the DNS packets that the client sent", "client capture", func(r *Run) *int64 { return &r.ClientTxIPBytes }),
	integer64("client_rx_ip_bytes", "B", "IP bytes of the DNS packets that the client received", "client capture", func(r *Run) *int64 { return &r.ClientRxIPBytes }),
	number("mbps_client_l2_both", "Mbit/s", 6, "8 · DNS frames of both directions (Ethernet header in, FCS out) / batch_s / 10⁶", "client capture", func(r *Run) **float64 { return &r.MbpsClientL2Both }),
	integer("source_ports", "ports", "source address and port pairs that sent queries", "client capture", func(r *Run) *int { return &r.SourcePorts }),
	throughLVS(integer64("ipvs_conns_delta", "connections", "connections that IPVS counted", "IPVS counters of the service", func(r *Run) *int64 { return &r.IPVSConnsDelta })),
	throughLVS(integer("conn_rows_after", "rows", "rows of the service in the connection table after the load, templates excluded", "/proc/net/ip_vs_conn", func(r *Run) *int { return &r.ConnRowsAfter })),
	optionalInteger("decisions", "decisions", "choices that the scheduler made; empty under persistence and without LVS", "IPVS counters of the service", func(r *Run) **int { return &r.Decisions }),
	number("jain_weighted", "", 6, "Jain's index of answers_ok per weight over the backends with a weight above 0", "client capture", func(r *Run) **float64 { return &r.JainWeighted }),
	number("jain_bound", "", 6, "highest index that so many whole decisions allow; empty under persistence and without LVS", "decisions, weights", func(r *Run) **float64 { return &r.JainBound }),
	number("dnsperf_run_s", "s", 6, "dnsperf's own run time, which ends at the last answer received; empty with another generator", "dnsperf", func(r *Run) **float64 { return &r.DNSPerfRunS }),
	optionalInteger("dnsperf_completed", "queries", "dnsperf's own count of answers: any rcode, any source address; empty with another generator", "dnsperf", func(r *Run) **int { return &r.DNSPerfCompleted }),
	list("precondition_failures", "conditions that did not hold in a try before the run", "run contract", func(r *Run) *[]string { return &r.PreconditionFailures }),
	list("outcome_flags", "named gaps and other outcomes", "ladder of counters", func(r *Run) *[]string { return &r.OutcomeFlags }),
	boolean("valid", "whether the run may be used", "run contract", func(r *Run) *bool { return &r.Valid }),
	added(text("replay", false, "how much of the run was compared with the model of IPVS fed with the captured packets: packets, counts or none", "model", func(r *Run) *string { return &r.Replay })),
	added(list("replay_limits", "why not everything was compared with the model", "model", func(r *Run) *[]string { return &r.ReplayLimits })),
	added(optionalInteger("replay_rows", "rows", "rows of the connection table that were compared with the model's: client, VIP, backend, state, timer", "model, /proc/net/ip_vs_conn", func(r *Run) **int { return &r.ReplayRows })),
	added(optionalInteger("replay_rows_differ", "rows", "of these, rows that are not the same", "model, /proc/net/ip_vs_conn", func(r *Run) **int { return &r.ReplayRowsDiffer })),
	added(text("kernel_differs", false, "the first thing that the kernel did otherwise than the model; empty when nothing, or nothing was compared", "model, IPVS counters, client capture", func(r *Run) *string { return &r.KernelDiffers })),
	added(text("kernel", false, "kernel that the director runs, uname -r", "director", func(r *Run) *string { return &r.Kernel })),
	added(number("start_spread_s", "s", 6, "time between the first packets of the first and the last client, on one clock; empty with one client, and when no packet of one was seen", "packets at the director; in a run without LVS at the backend that is asked", func(r *Run) **float64 { return &r.StartSpreadS })),
}

// backendColumns are the columns of backends.csv in order.
var backendColumns = []column[BackendRow]{
	text("run_id", true, "run that the row belongs to", "study", func(b *BackendRow) *string { return &b.RunID }),
	text("backend", true, "address of the backend in the topology", "study", func(b *BackendRow) *string { return &b.Backend }),
	text("address", true, "IP address of the backend", "IPVS read-back", func(b *BackendRow) *string { return &b.Address }),
	throughLVS(integer("position", "", "place in the kernel's list of destinations, 0 = head", "IPVS read-back", func(b *BackendRow) *int { return &b.Position })),
	throughLVS(integer("weight", "", "weight of the destination", "IPVS read-back", func(b *BackendRow) *int { return &b.Weight })),
	throughLVS(integer64("ipvs_conns_delta", "connections", "connections that IPVS gave to the backend", "IPVS counters of the destination", func(b *BackendRow) *int64 { return &b.IPVSConnsDelta })),
	throughLVS(integer64("ipvs_in_packets", "packets", "packets that IPVS sent to the backend", "IPVS counters of the destination", func(b *BackendRow) *int64 { return &b.IPVSInPackets })),
	throughLVS(integer64("ipvs_in_bytes", "B", "inner IP bytes of those packets", "IPVS counters of the destination", func(b *BackendRow) *int64 { return &b.IPVSInBytes })),
	optionalInteger64("tunnel_rx_packets", "packets", "packets that the backend's tunnel device received; empty without a tunnel", "device counters of the backend", func(b *BackendRow) **int64 { return &b.TunnelRxPackets }),
	integer64("named_requests", "queries", "requests that the backend's name server counted", "statistics of the name server", func(b *BackendRow) *int64 { return &b.NamedRequests }),
	integer("answers_ok", "queries", "accepted answers that came from the backend, by the frame's MAC or, where that is hidden, the answer's NSID", "client capture", func(b *BackendRow) *int { return &b.AnswersOK }),
	number("share_ipvs", "", 6, "ipvs_in_packets as a fraction of the run's", "IPVS counters of the destination", func(b *BackendRow) **float64 { return &b.ShareIPVS }),
	number("share_answers_ok", "", 6, "answers_ok as a fraction of the run's", "client capture", func(b *BackendRow) **float64 { return &b.ShareAnswersOK }),
	optionalInteger("planned_decisions", "decisions", "decisions that the model of IPVS planned for the backend before the first run; empty where the kernel draws, or ports, losses or times decide", "model", func(b *BackendRow) **int { return &b.PlannedDecisions }),
	optionalInteger("replayed_decisions", "decisions", "connections that the model of IPVS gives to the backend when it is fed with the captured packets in their order, to be compared with ipvs_conns_delta; empty where the model has no word", "model", func(b *BackendRow) **int { return &b.ReplayedDecisions }),
	added(optionalInteger("replayed_packets", "packets", "packets that the model then sends to the backend, to be compared with ipvs_in_packets; empty where the order between clients decides, too", "model", func(b *BackendRow) **int { return &b.ReplayedPackets })),
}
