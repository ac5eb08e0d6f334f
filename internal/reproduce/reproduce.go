// Package reproduce puts a result of this laboratory beside what a paper has
// published, and says from the result's own counts why they differ. What a paper
// does not say stays open; nothing is filled in.
package reproduce

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/stats"
	"github.com/lvslab/lvslab/internal/verdict"
)

// TRIAC2026 is the name of the builtin topology, of its lab, and of the paper.
const TRIAC2026 = "triac-2026"

// The experiments of the builtin topology.
const (
	published = "published" // the paper's protocol
	ports     = "ports"     // 20 source ports
	tcp       = "tcp"       // connections that stay open
)

// oneBackend is all that the abstract says of sed and nq.
const oneBackend = "one backend"

// What the abstract of "Performance Evaluation of Active and Passive Scheduling
// Algorithms in IP Tunneling Load Balancing for DNS Traffic" (TRIAC 2026) gives:
// seconds of a batch of 1,000 queries, megabits a second, and who got them.
var abstract = map[string]Published{
	"dh":  {BatchS: 1.0060, Mbps: 1.7520},
	"sed": {Shape: oneBackend},
	"nq":  {Shape: oneBackend},
}

// Published is a cell of the paper's table; zero = not published in what is public.
type Published struct {
	BatchS float64 `json:"batch_s,omitempty"`
	Mbps   float64 `json:"mbps,omitempty"`
	Shape  string  `json:"shape,omitempty"`
}

// Row is one scheduler of the published protocol, over its valid runs.
type Row struct {
	Scheduler string    `json:"scheduler"`
	Runs      int       `json:"runs"`
	BatchS    *float64  `json:"batch_s"` // mean; nil when a run has none
	Mbps      *float64  `json:"mbps"`
	Backends  []Share   `json:"backends"` // by name
	Published Published `json:"published"`
}

// Share is what a backend answered.
type Share struct {
	Backend string `json:"backend"`
	Answers int    `json:"answers"`
}

// Finding is one reason, with the counts that it stands on.
type Finding struct {
	ID       string   `json:"id"`
	Text     string   `json:"text"`
	Evidence []string `json:"evidence"`
}

// Reproduction is our table beside the published one.
type Reproduction struct {
	Dir         string    `json:"dir"`
	Accelerator string    `json:"accelerator"`
	GuestKernel string    `json:"guest_kernel"`
	Rows        []Row     `json:"rows"`
	Findings    []Finding `json:"findings"`
}

// study is a result's valid runs by experiment and scheduler.
type study struct {
	order map[string][]string // experiment → schedulers as they first ran
	runs  map[[2]string][]artifact.Run
	rows  map[string][]artifact.BackendRow // by run
}

// Of reads a result of the builtin topology. An error says that it is none.
func Of(a *artifact.Artifact) (Reproduction, error) {
	m := a.Manifest()
	s := study{order: map[string][]string{}, runs: map[[2]string][]artifact.Run{}, rows: map[string][]artifact.BackendRow{}}
	for _, b := range a.Backends() {
		s.rows[b.RunID] = append(s.rows[b.RunID], b)
	}
	for _, r := range a.Runs() {
		scheduler := r.Factors["scheduler"]
		if !r.Valid || scheduler == "" {
			continue
		}
		if !slices.Contains(s.order[r.Experiment], scheduler) {
			s.order[r.Experiment] = append(s.order[r.Experiment], scheduler)
		}
		key := [2]string{r.Experiment, scheduler}
		s.runs[key] = append(s.runs[key], r)
	}
	if len(s.order[published]) == 0 {
		return Reproduction{}, fmt.Errorf("the result has no valid run of an experiment %q with a factor scheduler", published)
	}
	out := Reproduction{Dir: a.Dir(), Accelerator: m.Accelerator, GuestKernel: m.Versions.GuestKernel, Findings: []Finding{}}
	for _, name := range paperOrder(s.order[published]) {
		out.Rows = append(out.Rows, s.row(name))
	}
	out.Findings = s.findings(out)
	return out, nil
}

// paperOrder sorts schedulers as the paper names them; others follow by name.
func paperOrder(have []string) []string {
	paper := []string{"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq"}
	place := func(name string) int {
		if i := slices.Index(paper, name); i >= 0 {
			return i
		}
		return len(paper)
	}
	out := slices.Clone(have)
	slices.SortFunc(out, func(a, b string) int {
		if d := place(a) - place(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return out
}

func (s study) row(scheduler string) Row {
	runs := s.runs[[2]string{published, scheduler}]
	r := Row{Scheduler: scheduler, Runs: len(runs), Published: abstract[scheduler], Backends: s.answers(runs)}
	r.BatchS = mean(runs, func(r artifact.Run) *float64 { return r.BatchS })
	r.Mbps = mean(runs, func(r artifact.Run) *float64 { return r.MbpsClientL2Both })
	return r
}

// mean is nil when one of the runs has no value: an average over those that were
// answered would make a lossy treatment look fast.
func mean(runs []artifact.Run, value func(artifact.Run) *float64) *float64 {
	var all []float64
	for _, r := range runs {
		v := value(r)
		if v == nil {
			return nil
		}
		all = append(all, *v)
	}
	if len(all) == 0 {
		return nil
	}
	m := stats.Summarise(all).Mean
	return &m
}

// answers sums what each backend answered, by name.
func (s study) answers(runs []artifact.Run) []Share {
	sum := map[string]int{}
	for _, r := range runs {
		for _, b := range s.rows[r.RunID] {
			sum[b.Backend] += b.AnswersOK
		}
	}
	out := []Share{}
	for name, n := range sum {
		out = append(out, Share{name, n})
	}
	slices.SortFunc(out, func(a, b Share) int { return strings.Compare(a.Backend, b.Backend) })
	return out
}

// used names the backends that answered anything.
func (r Row) used() []string {
	var out []string
	for _, b := range r.Backends {
		if b.Answers > 0 {
			out = append(out, verdict.Short(b.Backend))
		}
	}
	return out
}
