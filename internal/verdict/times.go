package verdict

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/stats"
)

// level is the error probability that claims are held to.
const level = 0.05

// resamples is the number of random arrangements of a permutation test: with
// 9 999 the p of a clear difference is 0.0001.
const resamples = 9999

// resampleSeed makes the same rows give the same p.
const resampleSeed = 1

// timing: whether differences in batch_s may be claimed, and if so which.
func timing(s *study) []Verdict {
	matrix, blocks := s.matrix(s.measure())
	n, k := len(matrix), len(s.groups)
	if k == 0 {
		return nil
	}
	why, ev := obstacles(s, n, k, blocks)
	if len(why) > 0 {
		what := "Differences in batch_s, qps and latency are not claimed: "
		if s.wantsEquality() {
			what = fmt.Sprintf("Neither differences in batch_s, qps and latency are claimed nor equality within the factor of %.4g: ", s.EqualWithin)
		}
		return []Verdict{{ID: "time-refused", Level: Refusal, Title: "No claim about time",
			Text: what + strings.Join(why, "; ") + ".", Evidence: ev,
			Remedy: enough(s, n, k)}}
	}
	if k == 1 {
		return nil
	}
	return []Verdict{claim(s, matrix, blocks)}
}

// matrix holds a measure by block and treatment, of the blocks in which every
// treatment has one.
func (s *study) matrix(m measure) (matrix [][]float64, blocks []int) {
	values := map[int]map[int]float64{} // block → group → value
	for j, g := range s.groups {
		for _, r := range g.runs {
			v := m.of(r.Run)
			if v == nil || !(*v > 0) {
				continue
			}
			if values[r.Block] == nil {
				values[r.Block] = map[int]float64{}
			}
			values[r.Block][j] = *v
		}
	}
	for b, row := range values {
		if len(row) == len(s.groups) {
			blocks = append(blocks, b)
		}
	}
	slices.Sort(blocks)
	for _, b := range blocks {
		line := make([]float64, len(s.groups))
		for j := range line {
			line[j] = values[b][j]
		}
		matrix = append(matrix, line)
	}
	return matrix, blocks
}

// obstacles are the reasons for which time must not be compared.
func obstacles(s *study, n, k int, blocks []int) (why []string, ev []Evidence) {
	if s.Accelerator != "kvm" {
		name := s.Accelerator
		if name == "" {
			name = "an unknown accelerator"
		}
		why = append(why, fmt.Sprintf("the guests ran under emulation (%s)%s", name, wobble(s)))
		ev = append(ev, Evidence{artifact.ManifestFile, "", "accelerator", s.Accelerator})
	}
	if lack, of := noProfile(s, n, k); lack != "" {
		why, ev = append(why, lack), append(ev, of...)
	}
	if k > 1 {
		pairs := k * (k - 1) / 2
		need, control := stats.PairsNeeded(pairs, level), stats.PairsNeeded(k-1, level)
		if n < need {
			arithmetic := fmt.Sprintf("with %s the smallest two-sided p of an exact paired test is 2/2^%d = %s", some(n, "complete block"), n, probability(stats.SmallestP(n)))
			if n == 0 {
				arithmetic = "no block is complete"
			}
			if pairs == 1 {
				arithmetic += fmt.Sprintf(", and the one pair needs %d blocks", need)
			} else {
				arithmetic += fmt.Sprintf(", and after Holm's correction all %d pairs need %d blocks, %s against one control %d", pairs, need, some(k-1, "comparison"), control)
			}
			why = append(why, arithmetic)
			if n >= profileBlocks { // else it is among the evidence already
				ev = append(ev, s.completeBlocks(n, k))
			}
		}
	}
	if list, used, differ := backendsDiffer(s); differ {
		why = append(why, "treatments used different backends, so a difference may be the backend's")
		ev = append(ev, Evidence{artifact.BackendsFile, "valid runs", "ipvs_in_packets", fmt.Sprintf("%s always used one backend, %s in all", some(len(list), "treatment"), some(used, "backend"))})
	}
	if list := followers(s); len(list) > 0 && s.unevenHeads(blocks) {
		why = append(why, "the backends were not list head equally often, so what keeps to a place of the list leans to one of them")
		ev = append(ev, Evidence{artifact.BackendsFile, "complete blocks", "position", "0 for some backends more often"})
	}
	return why, ev
}

// wobble says how far one treatment's own runs lie apart.
func wobble(s *study) string {
	worst, label, low, high := 0.0, "", 0.0, 0.0
	for _, g := range s.groups {
		var x []float64
		for _, r := range g.runs {
			if r.BatchS != nil && *r.BatchS > 0 {
				x = append(x, *r.BatchS)
			}
		}
		if len(x) < 2 {
			continue
		}
		if a, b := slices.Min(x), slices.Max(x); b/a > worst {
			worst, label, low, high = b/a, g.label, a, b
		}
	}
	if worst == 0 {
		return ""
	}
	return fmt.Sprintf(", where batch_s of one and the same treatment, %s, went from %.3f to %.3f s", label, low, high)
}

// enough says what a study that may speak about time needs.
func enough(s *study, n, k int) string {
	var parts []string
	if s.Accelerator != "kvm" {
		parts = append(parts, "run on a machine where KVM works")
	}
	if !s.allOpen() || s.shortest() < profileSeconds {
		parts = append(parts, fmt.Sprintf("use load \"lvslab\" with mode = \"open\" and queries for %d s at its rate", profileSeconds))
	}
	need := profileBlocks
	if k > 1 {
		need = max(need, stats.PairsNeeded(k*(k-1)/2, level))
	}
	if n < need {
		parts = append(parts, fmt.Sprintf("set iterations to %d or more", need))
	}
	if _, _, differ := backendsDiffer(s); differ {
		parts = append(parts, "let every treatment use the same backends")
	}
	return "For claims about time: " + strings.Join(parts, ", ") + "."
}

// claim tests the treatments and names the pairs that differ.
func claim(s *study, matrix [][]float64, blocks []int) Verdict {
	n, k := len(matrix), len(s.groups)
	v := Verdict{ID: "time", Level: Finding, Title: "Differences in time",
		Evidence: []Evidence{{artifact.RunsFile, fmt.Sprintf("blocks %d to %d", blocks[0], blocks[n-1]), s.measure().column, fmt.Sprintf("%d × %d values", n, k)}}}
	f, err := stats.Friedman(matrix, resamples, resampleSeed)
	if err != nil {
		return Verdict{ID: "time-refused", Level: Refusal, Title: "No claim about time", Text: "The test could not be made: " + err.Error() + ".", Evidence: v.Evidence}
	}
	pairs := comparePairs(s, matrix)
	var found []string
	for _, p := range pairs {
		if p.adjusted <= level {
			found = append(found, p.String())
		}
	}
	v.Text = fmt.Sprintf("%s: over %s Friedman's test gives p = %s for all %s together; after Holm's correction %s differ at %.0f %%",
		s.measure().column, some(n, "block"), probability(f.P), some(k, "treatment"), of(len(found), len(pairs), "pair"), 100*level)
	switch {
	case len(found) > maxNames:
		v.Text += fmt.Sprintf(", for example %s.", strings.Join(found[:3], "; "))
	case len(found) > 0:
		v.Text += ": " + strings.Join(found, "; ") + "."
	default:
		v.Text += ". That is not a proof that they are equal."
	}
	v.Text += " " + detectable(matrix, pairs)
	return v
}

// planPower is the power that sizes of effects are stated for.
const planPower = 0.8

// detectable says how small a difference such a study still finds, with the
// spread that was seen: without it "no difference" would mean nothing.
func detectable(matrix [][]float64, pairs []pair) string {
	n := len(matrix)
	sd := 0.0
	for _, p := range pairs {
		sd = max(sd, p.sd)
	}
	return fmt.Sprintf("With the widest spread seen between two treatments (standard deviation of ln ratios %.3f), %s find a ratio of %.3f in 80 %% of such studies, and could show two equal treatments to be equal within a factor of %.3f.",
		sd, some(n, "block"), stats.DetectableRatio(n, len(pairs), sd, level, planPower), stats.EquivalenceRatio(n, sd, level, planPower))
}

// pair is the comparison of two treatments on log ratios inside blocks.
type pair struct {
	a, b        string
	ratio       stats.Shift // of ln(a/b)
	d           []float64   // ln(a/b) by block
	sd          float64     // of them
	p, adjusted float64
}

func (p pair) String() string {
	return fmt.Sprintf("%s takes %.3f times as long as %s (%.0f %% interval %.3f to %.3f, p = %s)", p.a, math.Exp(p.ratio.Estimate), p.b,
		100*p.ratio.Level, math.Exp(p.ratio.Low), math.Exp(p.ratio.High), probability(p.adjusted))
}

// pairsOf are the comparisons without a test.
func pairsOf(s *study, matrix [][]float64) []pair {
	column := func(j int) []float64 {
		out := make([]float64, len(matrix))
		for i := range matrix {
			out[i] = matrix[i][j]
		}
		return out
	}
	var out []pair
	for i := range s.groups {
		for j := range i {
			d, err := stats.LogRatios(column(i), column(j))
			if err != nil {
				continue // batchMatrix keeps positive values only
			}
			out = append(out, pair{a: s.groups[i].label, b: s.groups[j].label, d: d, sd: stats.Summarise(d).SD})
		}
	}
	return out
}

func comparePairs(s *study, matrix [][]float64) []pair {
	out := pairsOf(s, matrix)
	var ps []float64
	for i := range out {
		p := &out[i]
		p.ratio, p.p = stats.HodgesLehmann(p.d, 0.95), stats.SignFlip(p.d, resamples, resampleSeed).P
		ps = append(ps, p.p)
	}
	for i, p := range stats.Holm(ps) {
		out[i].adjusted = p
	}
	slices.SortStableFunc(out, func(a, b pair) int {
		switch {
		case a.adjusted < b.adjusted:
			return -1
		case a.adjusted > b.adjusted:
			return 1
		}
		return 0
	})
	return out
}

// probability writes a p value: four places, or that it is smaller.
func probability(p float64) string {
	if p < 0.0001 {
		return "below 0.0001"
	}
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.4f", p), "0"), ".")
}

// redundantRate: at a fixed number of queries Mbit/s is a constant divided by
// the time, so a table of both shows one result twice.
func redundantRate(s *study) []Verdict {
	planned := map[int]bool{}
	var low, high float64
	n := 0
	for _, r := range s.valid {
		if r.BatchS == nil || r.MbpsClientL2Both == nil || !(*r.BatchS > 0) {
			continue
		}
		planned[r.QueriesPlanned] = true
		bits := *r.MbpsClientL2Both * *r.BatchS
		if n == 0 || bits < low {
			low = bits
		}
		if n == 0 || bits > high {
			high = bits
		}
		n++
	}
	if n < 2 || len(planned) != 1 || !(low > 0) || high/low > 1.01 {
		return nil
	}
	value := fmt.Sprintf("%.3f", low)
	if s := fmt.Sprintf("%.3f", high); s != value {
		value += " to " + s
	}
	return []Verdict{{ID: "rate-is-time", Level: Caution, Aside: true, Title: "Mbit/s says nothing that batch_s does not",
		Text:     fmt.Sprintf("mbps_client_l2_both × batch_s is %s Mbit in %s, because the number of queries is fixed.", value, of(n, len(s.valid), "run")),
		Evidence: []Evidence{{artifact.RunsFile, "valid = true", "mbps_client_l2_both, batch_s", "product " + value}},
		Remedy:   "Report one of the two."}}
}

// controls: without control runs nobody knows how large a difference between
// two equal things would have looked.
func controls(s *study) []Verdict {
	n, usable := len(s.direct), len(s.valid)+len(s.direct)
	for _, r := range s.valid {
		if strings.HasPrefix(r.TreatmentID, controlPrefix) {
			n++
		}
	}
	ev := []Evidence{{artifact.RunsFile, "valid = true", "treatment_id", fmt.Sprintf("%s in %d of %d rows", controlPrefix, n, usable)}}
	if n > 0 || usable == 0 {
		if n == 0 {
			return nil
		}
		return []Verdict{{ID: "controls", Level: OK, Title: "Control runs were made",
			Text: fmt.Sprintf("%s %s.", of(n, usable, "run"), verb(n, "is a control", "are controls")), Evidence: ev}}
	}
	if len(s.groups) < 2 {
		return nil
	}
	return []Verdict{{ID: "no-controls", Level: Caution, Aside: true, Title: "The noise floor is unknown",
		Text: fmt.Sprintf("%s are controls, so how far two equal treatments lie apart was not measured.", of(0, len(s.valid), "run")), Evidence: ev,
		Remedy: "Give the experiment a controls block, or read a difference against the spread of one treatment over the blocks."}}
}
