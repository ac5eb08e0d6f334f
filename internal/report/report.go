// Package report turns the rows of a result into an answer: summary.json,
// summary.md, report.html, junit.xml and the last screen of a command. It
// measures nothing and claims nothing: numbers come from package artifact's
// rows, statements from package verdict.
package report

import (
	"cmp"
	"slices"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/sighting"
	"github.com/lvslab/lvslab/internal/stats"
	"github.com/lvslab/lvslab/internal/verdict"
)

// SchemaVersion is the version of summary.json.
const SchemaVersion = 1

// Check is the result of one check block.
type Check struct {
	Name    string `json:"name"`
	Passed  bool   `json:"passed"`
	Message string `json:"message,omitempty"` // why it failed
}

// Input is everything that a report is made from.
type Input struct {
	Description string
	Manifest    artifact.Manifest // the list of files may be missing
	Facts       []verdict.Facts   // one for each experiment, declared order
	Runs        []artifact.Run
	Backends    []artifact.BackendRow
	Checks      []Check
	Paths       sighting.Proofs // without paths nothing is said of them
}

// Summary is summary.json: the whole answer as data.
type Summary struct {
	SchemaVersion int          `json:"schema_version"`
	Lab           string       `json:"lab"`
	Description   string       `json:"description,omitempty"`
	Result        string       `json:"result"` // name of the result's directory
	Experiments   []Experiment `json:"experiments"`
	Checks        []Check      `json:"checks"`
	Conditions    Conditions   `json:"conditions"`
}

// Conditions are those parts of the manifest that a reader needs beside the numbers.
type Conditions struct {
	Study            string                       `json:"study"`
	Lineage          string                       `json:"lineage"`
	Parent           string                       `json:"parent,omitempty"`   // name of the result that this one adds blocks to
	Sessions         int                          `json:"sessions,omitempty"` // applies that made the runs of this result, when there were several
	Shard            string                       `json:"shard,omitempty"`    // the share of the blocks, as 1/2
	Shares           []ShareOfBlocks              `json:"shares,omitempty"`   // of a result that was merged
	Partial          string                       `json:"partial,omitempty"`
	StartedAt        string                       `json:"started_at"` // RFC 3339, UTC
	Accelerator      string                       `json:"accelerator"`
	Versions         artifact.Versions            `json:"versions"`
	Images           map[string]string            `json:"images,omitempty"`
	TopologySHA256   string                       `json:"topology_sha256"`
	Seeds            map[string]int64             `json:"seeds,omitempty"`
	Isolation        map[string]string            `json:"isolation,omitempty"`
	Loads            map[string]string            `json:"loads,omitempty"`  // experiment → load_mode of its runs
	Starts           map[string]Start             `json:"starts,omitempty"` // experiment → how far apart its clients began
	Sysctls          map[string]map[string]string `json:"sysctls,omitempty"`
	DestinationOrder map[string][]string          `json:"destination_order,omitempty"`
	Addresses        map[string]string            `json:"addresses,omitempty"`
	Paths            string                       `json:"paths,omitempty"` // what the proof saw of the ways, in words
	Timings          artifact.Timings             `json:"timings"`
}

// Experiment is the answer of one experiment.
type Experiment struct {
	Facts    verdict.Facts `json:"facts"`
	Backends []string      `json:"backends"` // by list position in the first run, then by name
	// Lists are the kernel's lists of the blocks when it turned from block to
	// block; the shares of a treatment may then have to be read by place.
	Lists      []verdict.List    `json:"lists,omitempty"`
	Totals     Totals            `json:"totals"` // over valid runs, apart from Runs
	Ladder     []Step            `json:"ladder"`
	Treatments []Treatment       `json:"treatments"` // declared order, controls last
	Verdicts   []verdict.Verdict `json:"verdicts"`
}

// Totals are sums over the runs.
type Totals struct {
	Runs           int `json:"runs"`
	ValidRuns      int `json:"valid_runs"`
	Blocks         int `json:"blocks"`
	QueriesPlanned int `json:"queries_planned"`
	QueriesSent    int `json:"queries_sent"`
	AnswersOK      int `json:"answers_ok"`
	Unanswered     int `json:"unanswered"`
}

// Step is one independent count on the way from the client and back, summed
// over valid runs.
type Step struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
	Unit  string `json:"unit"`
	From  string `json:"from"` // file and column
}

// Build computes the summary. It is pure: the same input gives the same summary.
func Build(in Input) Summary {
	m := in.Manifest
	s := Summary{SchemaVersion: SchemaVersion, Lab: m.Lab, Description: in.Description, Result: m.Run, Checks: in.Checks,
		Conditions: Conditions{Study: m.Study, Lineage: m.Lineage, Parent: m.Parent.Name(), Shard: m.Shard, Shares: sharesOf(m.Parts, in.Runs), Partial: m.Partial,
			Accelerator: m.Accelerator, Versions: m.Versions, Images: m.Images, TopologySHA256: m.Topology, Seeds: m.Seeds,
			Isolation: m.Isolation, Sysctls: m.Sysctls, DestinationOrder: m.DestinationOrder, Addresses: m.Addresses, Paths: in.Paths.Summary(), Timings: m.Timings}}
	if !m.StartedAt.IsZero() {
		s.Conditions.StartedAt = m.StartedAt.UTC().Format(artifact.TimeFormat)
	}
	if n := len(m.Sessions); n > max(1, len(m.Parts)) {
		s.Conditions.Sessions = n
	}
	if s.Checks == nil {
		s.Checks = []Check{}
	}
	rows := map[string][]artifact.BackendRow{}
	for _, b := range in.Backends {
		rows[b.RunID] = append(rows[b.RunID], b)
	}
	for _, f := range in.Facts {
		e := Experiment{Facts: f, Verdicts: verdict.Judge(verdict.Input{Facts: f, Runs: in.Runs, Backends: in.Backends})}
		var runs []artifact.Run
		for _, r := range in.Runs {
			if r.Experiment == f.Experiment {
				runs = append(runs, r)
			}
		}
		e.fill(runs, rows)
		s.Conditions.noteLoad(f.Experiment, runs)
		s.Conditions.noteStart(f.Experiment, runs)
		s.Experiments = append(s.Experiments, e)
	}
	return s
}

// noteLoad keeps which load generator an experiment's runs had.
func (c *Conditions) noteLoad(experiment string, runs []artifact.Run) {
	if len(runs) == 0 {
		return
	}
	if c.Loads == nil {
		c.Loads = map[string]string{}
	}
	c.Loads[experiment] = runs[0].LoadMode // a study has one load
}

func (e *Experiment) fill(runs []artifact.Run, rows map[string][]artifact.BackendRow) {
	e.Backends = backendOrder(runs, rows)
	blocks := map[int]bool{}
	e.Totals.Runs = len(runs)
	var sent, ipvs, tunnel, named, accepted int64 // of the runs through LVS
	tunnels := false
	for _, r := range runs {
		if !r.Valid {
			continue
		}
		blocks[r.Block] = true
		e.Totals.ValidRuns++
		e.Totals.QueriesPlanned += r.QueriesPlanned
		e.Totals.QueriesSent += r.QueriesSent
		e.Totals.AnswersOK += r.AnswersOK
		e.Totals.Unanswered += r.Unanswered
		if r.PastLVS() {
			continue
		}
		sent, accepted = sent+int64(r.QueriesSent), accepted+int64(r.AnswersOK)
		for _, b := range rows[r.RunID] {
			ipvs += b.IPVSInPackets
			named += b.NamedRequests
			if b.TunnelRxPackets != nil {
				tunnels = true
				tunnel += *b.TunnelRxPackets
			}
		}
	}
	e.Totals.Blocks = len(blocks)
	e.Ladder = []Step{
		{"client sent", sent, "queries", "runs.csv queries_sent"},
		{"IPVS scheduled", ipvs, "packets", "backends.csv ipvs_in_packets"},
	}
	if tunnels {
		e.Ladder = append(e.Ladder, Step{"tunnels received", tunnel, "packets", "backends.csv tunnel_rx_packets"})
	}
	e.Ladder = append(e.Ladder,
		Step{"name servers received", named, "queries", "backends.csv named_requests"},
		Step{"client accepted", accepted, "answers", "runs.csv answers_ok"})
	e.Lists = verdict.Lists(runs, rows)
	e.Treatments = treatments(e.Facts, e.Backends, runs, rows)
	if len(e.Lists) > 0 {
		places(e.Treatments, runs, rows)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// backendOrder lists the backends by their place in the first run that has them.
func backendOrder(runs []artifact.Run, rows map[string][]artifact.BackendRow) []string {
	var out []string
	runs = slices.Clone(runs)
	slices.SortStableFunc(runs, func(a, b artifact.Run) int { // without LVS there are no places
		return cmp.Compare(btoi(a.PastLVS()), btoi(b.PastLVS()))
	})
	for _, r := range runs {
		list := slices.Clone(rows[r.RunID])
		slices.SortStableFunc(list, func(a, b artifact.BackendRow) int {
			return cmp.Or(cmp.Compare(a.Position, b.Position), cmp.Compare(a.Backend, b.Backend))
		})
		for _, b := range list {
			if !slices.Contains(out, b.Backend) {
				out = append(out, b.Backend)
			}
		}
	}
	return out
}

// Range is the smallest and the largest of some values.
type Range struct {
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

// Dist describes the distribution of a value over the valid runs of a
// treatment; quartiles by linear interpolation (see stats.Quantile).
type Dist struct {
	N      int     `json:"n"`
	Min    float64 `json:"min"`
	Q1     float64 `json:"q1"`
	Median float64 `json:"median"`
	Q3     float64 `json:"q3"`
	Max    float64 `json:"max"`
}

func distOf(x []float64) *Dist {
	if len(x) == 0 {
		return nil
	}
	s := stats.Summarise(x)
	return &Dist{N: s.N, Min: s.Min, Q1: s.Q1, Median: s.Median, Q3: s.Q3, Max: s.Max}
}

func rangeOf(x []float64) *Range {
	if len(x) == 0 {
		return nil
	}
	return &Range{Min: slices.Min(x), Max: slices.Max(x)}
}
