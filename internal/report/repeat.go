package report

import (
	"fmt"
	"slices"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/verdict"
)

// threats say what the study cannot carry beyond its own laboratory. They follow
// from how it was made, and stand whatever was measured.
func (s Summary) threats() []string {
	var out []string
	c := s.Conditions
	if c.Accelerator != "" && c.Accelerator != "kvm" {
		out = append(out, fmt.Sprintf("The guests ran under emulation (%s): every time here is the emulator's. Counts, shares and connection entries do not depend on it.", c.Accelerator))
	}
	switch {
	case len(c.Shares) > 1:
		out = append(out, fmt.Sprintf("The blocks were shared out between %d labs, all machines of each on one host, for whose processors they competed. Within a block every treatment had the same host; times of different blocks may differ by their hosts.", len(c.Shares)))
	default:
		out = append(out, "All machines shared one host: they competed for its processors, which real servers do not.")
	}
	if c.Shard != "" {
		out = append(out, fmt.Sprintf("This is share %s of the study's blocks: what the study says is said by all shares together (lvslab merge).", c.Shard))
	}
	if k := c.Versions.GuestKernel; k != "" {
		out = append(out, fmt.Sprintf("One kernel, %s: schedulers have changed between kernels.", k))
	}
	if c.Parent != "" || c.Sessions > 1 {
		out = append(out, "The runs were not made in one go: machines may have been made anew, and the host may have had other work, in between.")
	}
	for _, e := range s.Experiments {
		out = append(out, e.threats(len(s.Experiments) > 1)...)
	}
	return append(out, "The queries go through the names of the zone in turn: an authoritative server answers them from memory. Caches, resolvers and their timing are not in this.")
}

// threats of one experiment; named says whether there are others.
func (e Experiment) threats(named bool) []string {
	who := ""
	if named {
		who = e.Facts.Experiment + ": "
	}
	var out []string
	clients, vips := e.Facts.ClientAddresses, len(e.Facts.VIPs)
	for i, t := range e.Facts.Treatments {
		if i == 0 {
			clients, vips = 0, 0
		}
		clients, vips = max(clients, t.ClientAddresses), max(vips, t.VIPs)
	}
	if clients == 1 {
		out = append(out, who+"One client address asked: what a scheduler that hashes the client does with many is not seen.")
	}
	if vips == 1 {
		out = append(out, who+"One virtual address was asked: what a scheduler that looks at the destination does with many is not seen.")
	}
	if e.Facts.Controls == nil {
		out = append(out, who+"No control runs: how far two runs of the same treatment lie apart by themselves was not measured.")
	}
	return out
}

// repeat is how to check this result and how to make another.
func (s Summary) repeat() []Pointer {
	list := []Pointer{
		{"lvslab verify .", "checks every byte, computes every number from the raw data again, and derives the statements anew"},
		{"lvslab apply --fresh " + artifact.TopologyDir, "runs the study again, with the same seed and so in the same order; the values of its variables are in " + artifact.TopologyDir + "/variables.json"},
		{"lvslab compare . OTHER", "says what differs between the two, in what went in and in what came out"},
	}
	return list
}

// Decisions are the scheduler's choices of a treatment by backend, in the order of
// Backends: what the model planned, and what IPVS counted.
type Decisions struct {
	Runs    int     `json:"runs"` // valid runs with a plan
	Planned []int64 `json:"planned"`
	Counted []int64 `json:"counted"`
}

// expectedRow is a line of the page's table of expectations.
type expectedRow struct {
	Label, Planned, Counted string
	Differs                 bool
}

// expected lists the treatments that have a plan.
func expected(e Experiment) []expectedRow {
	var out []expectedRow
	for _, t := range e.Treatments {
		d := t.ByBackend
		if e.byPlace() {
			d = t.ByPlace
		}
		if d != nil {
			out = append(out, expectedRow{t.Label, ratio(d.Planned), ratio(d.Counted), !slices.Equal(d.Planned, d.Counted)})
		}
	}
	return out
}

// ratio writes counts as 35 : 0 : 0.
func ratio(counts []int64) string {
	out := ""
	for i, n := range counts {
		if i > 0 {
			out += " : "
		}
		out += verdict.Count(n)
	}
	return out
}
