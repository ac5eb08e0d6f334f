package compare

import (
	"math"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/stats"
)

// level is the error probability that differences in time are held to.
const level = 0.05

const (
	resamples    = 9999
	resampleSeed = 1
)

// Time is the comparison of batch_s, or why it was refused.
type Time struct {
	Refused string    `json:"refused,omitempty"`
	Rows    []TimeRow `json:"rows,omitempty"`
}

// TimeRow is batch_s of one treatment in both results, in seconds.
type TimeRow struct {
	Experiment string  `json:"experiment"`
	ID         string  `json:"treatment_id"`
	NA         int     `json:"n_a"`
	NB         int     `json:"n_b"`
	MedianA    float64 `json:"median_a_s"`
	MedianB    float64 `json:"median_b_s"`
	Ratio      float64 `json:"ratio"` // B / A
	P          float64 `json:"p"`     // of the rank sum test, adjusted by Holm's method
}

// Differs reports whether the difference may be claimed.
func (r TimeRow) Differs() bool { return r.P <= level }

// several reports whether a result was merged from those of several hosts.
func several(m artifact.Manifest) bool { return len(m.Parts) > 0 && m.Host.ID == "" }

// refusal says why times of these results must not be compared: two machines,
// two ways of running guests, or emulation, whose times are the host's.
func refusal(a, b artifact.Manifest) string {
	var why []string
	switch {
	case a.Accelerator != b.Accelerator:
		why = append(why, "the accelerators differ ("+known(a.Accelerator)+", "+known(b.Accelerator)+")")
	case a.Accelerator != "kvm":
		why = append(why, "the guests ran under emulation ("+known(a.Accelerator)+")")
	}
	switch {
	case several(a) || several(b):
		why = append(why, "a result was merged from several hosts")
	case a.Host.ID == "" || b.Host.ID == "":
		why = append(why, "a result does not say which host it was measured on")
	case a.Host != b.Host:
		why = append(why, "the hosts differ ("+a.Host.String()+"; "+b.Host.String()+")")
	case a.Versions.HostKernel != b.Versions.HostKernel:
		why = append(why, "the host's kernels differ ("+a.Versions.HostKernel+", "+b.Versions.HostKernel+")")
	}
	return strings.Join(why, "; ")
}

func known(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// times compares batch_s treatment by treatment. The two results share no
// blocks, so the test is that of independent samples.
func times(ma, mb artifact.Manifest, both [][2]group) Time {
	if why := refusal(ma, mb); why != "" {
		return Time{Refused: why}
	}
	var t Time
	var ps []float64
	for _, p := range both {
		a, b := p[0].batches(), p[1].batches()
		if len(a) == 0 || len(b) == 0 {
			continue
		}
		row := TimeRow{Experiment: p[0].experiment, ID: p[0].id, NA: len(a), NB: len(b), MedianA: stats.Quantile(a, 0.5), MedianB: stats.Quantile(b, 0.5)}
		row.Ratio = row.MedianB / row.MedianA
		if math.IsNaN(row.Ratio) || math.IsInf(row.Ratio, 0) {
			continue
		}
		t.Rows = append(t.Rows, row)
		ps = append(ps, stats.RankSum(a, b, resamples, resampleSeed).P)
	}
	for i, p := range stats.Holm(ps) {
		t.Rows[i].P = p
	}
	if len(t.Rows) == 0 {
		t.Refused = "no treatment has batch_s in both results"
	}
	return t
}

func (g group) batches() []float64 {
	var out []float64
	for _, r := range g.runs {
		if r.BatchS != nil && *r.BatchS > 0 {
			out = append(out, *r.BatchS)
		}
	}
	return out
}
