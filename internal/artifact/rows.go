package artifact

import "time"

// Run is one row of runs.csv. Names, units and definitions are those of
// docs/artifact.md; pointers are nil where a column is empty because it does
// not apply or could not be measured, never because it is zero.
type Run struct {
	RunID         string
	Experiment    string
	TreatmentID   string
	Block         int // from 1
	Order         int // from 1, over the whole study
	PrevTreatment string
	Factors       map[string]string // factor name → value, one column each
	Protocol      string
	LoadMode      string // dnsperf, lvslab-closed, lvslab-open
	StartedAt     time.Time

	QueriesPlanned     int
	QueriesSent        int
	AnswersOK          int
	AnswersBadRcode    int
	AnswersTruncated   int
	AnswersWrongSource int
	AnswersLate        int
	AnswersDuplicate   int
	Unanswered         int

	BatchS     *float64 // first query to last accepted answer; nil when something is unanswered
	ResolvedS  *float64 // first query to last answer or time-out
	QPS        *float64 // answers_ok / batch_s
	LatencyP50 *float64 // seconds
	LatencyP95 *float64
	LatencyP99 *float64

	ClientTxIPBytes  int64
	ClientRxIPBytes  int64
	MbpsClientL2Both *float64
	SourcePorts      int
	IPVSConnsDelta   int64
	ConnRowsAfter    int  // rows of this service, templates excluded
	Decisions        *int // scheduler choices made; nil under persistence
	JainWeighted     *float64
	JainBound        *float64 // highest JainWeighted that so many decisions allow; nil under persistence

	DNSPerfRunS      *float64 // dnsperf's own figure
	DNSPerfCompleted *int

	PreconditionFailures []string
	OutcomeFlags         []string // named gaps and other outcomes, sorted
	Valid                bool

	// Replay is how much of the run the model of IPVS was held against: none,
	// counts or packets; "" in results before it was. ReplayLimits say why not all.
	Replay           string
	ReplayLimits     []string
	ReplayRows       *int   // rows of the connection table that were compared
	ReplayRowsDiffer *int   // of these, other than the model's
	KernelDiffers    string // the first thing that the kernel did otherwise

	StartSpreadS *float64 // from the first client's first packet to the last client's; nil with one client
	Kernel       string   // of the director, uname -r; "" in results before it was read
}

// BackendRow is one row of backends.csv: one run and one backend.
type BackendRow struct {
	RunID            string
	Backend          string // backend.ns[0]
	Address          string
	Position         int // in the kernel's list, 0 = head
	Weight           int
	IPVSConnsDelta   int64
	IPVSInPackets    int64
	IPVSInBytes      int64
	TunnelRxPackets  *int64 // nil when the service does not tunnel
	NamedRequests    int64
	AnswersOK        int
	ShareIPVS        *float64 // of in packets
	ShareAnswersOK   *float64
	PlannedDecisions *int // nil where the model is not certain
	// ReplayedDecisions and ReplayedPackets are what the model gives to the
	// backend when it is fed with the captured packets; nil where it has no word.
	ReplayedDecisions *int
	ReplayedPackets   *int

	// WithoutLVS: the run's load went past IPVS; position, weight and all that IPVS
	// counts are empty.
	WithoutLVS bool
}

// Timings are seconds since the start of apply at which each phase was done;
// nil when the phase did not happen.
type Timings struct {
	CreatedS *float64 `json:"created_s,omitempty"`
	// RestoredS and PluggedS are those of machines that are clones of a
	// template: all of them run, all of them have their network cards.
	RestoredS    *float64 `json:"restored_s,omitempty"`
	PluggedS     *float64 `json:"plugged_s,omitempty"`
	EnrolledS    *float64 `json:"enrolled_s,omitempty"`
	ConfiguredS  *float64 `json:"configured_s,omitempty"`
	ProvedS      *float64 `json:"proved_s,omitempty"`
	FirstAnswerS *float64 `json:"first_answer_s,omitempty"`
	RunsDoneS    *float64 `json:"runs_done_s,omitempty"`
	DestroyedS   *float64 `json:"destroyed_s,omitempty"`
}
