package report

import (
	"fmt"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/stats"
)

// Start is how far apart the clients of an experiment's runs began, over the valid runs
// with several clients; seconds.
type Start struct {
	Runs   int     `json:"runs"`
	Median float64 `json:"median_s"`
	Max    float64 `json:"max_s"`
}

// String returns it in words.
func (s Start) String() string {
	return fmt.Sprintf("began %s s apart in the median of %d runs, %s s at most (start_spread_s)", seconds(s.Median), s.Runs, seconds(s.Max))
}

// noteStart keeps how far apart the clients of an experiment began.
func (c *Conditions) noteStart(experiment string, runs []artifact.Run) {
	var spreads []float64
	s := Start{}
	for _, r := range runs {
		if r.Valid && r.StartSpreadS != nil {
			spreads = append(spreads, *r.StartSpreadS)
			s.Max = max(s.Max, *r.StartSpreadS)
		}
	}
	if s.Runs = len(spreads); s.Runs == 0 {
		return
	}
	s.Median = stats.Quantile(spreads, 0.5)
	if c.Starts == nil {
		c.Starts = map[string]Start{}
	}
	c.Starts[experiment] = s
}
