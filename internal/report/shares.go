package report

import (
	"fmt"

	"github.com/lvslab/lvslab/internal/artifact"
)

// ShareOfBlocks is one of the results that a result was merged from. Each share has
// whole blocks, so its times hold the same treatments as those of the others, and
// what differs between two shares differs between their machines.
type ShareOfBlocks struct {
	Shard      string `json:"shard"`
	Result     string `json:"result"`
	Host       string `json:"host"` // in words
	HostKernel string `json:"host_kernel,omitempty"`
	Runs       int    `json:"runs"`
	ValidRuns  int    `json:"valid_runs"`
	BatchS     *Dist  `json:"batch_s"` // over its valid runs, seconds
}

// sharesOf describes the parts of a merged result.
func sharesOf(parts []artifact.Part, runs []artifact.Run) []ShareOfBlocks {
	var out []ShareOfBlocks
	for _, p := range parts {
		s := ShareOfBlocks{Shard: p.Shard, Result: p.Result, Host: orUnknown(p.Host.String()), HostKernel: p.HostKernel}
		share, err := artifact.ParseShare(p.Shard)
		if err != nil {
			continue // the result's check says so
		}
		var times []float64
		for _, r := range runs {
			if !share.Has(r.Block) {
				continue
			}
			s.Runs++
			if r.Valid {
				s.ValidRuns++
				if r.BatchS != nil {
					times = append(times, *r.BatchS)
				}
			}
		}
		s.BatchS = distOf(times)
		out = append(out, s)
	}
	return out
}

// pair is the share as the conditions name it.
func (s ShareOfBlocks) pair() [2]string {
	kernel := ""
	if s.HostKernel != "" {
		kernel = ", host kernel " + s.HostKernel
	}
	return [2]string{"share " + s.Shard, fmt.Sprintf("%s on %s%s: %d runs, %d valid, batch_s %s", s.Result, s.Host, kernel, s.Runs, s.ValidRuns, distText(s.BatchS))}
}
