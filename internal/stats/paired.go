package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
)

// SignFlipResult is a two-sided sign-flip test of paired differences.
type SignFlipResult struct {
	N     int
	Mean  float64 // of the differences
	P     float64
	Exact bool // all 2ⁿ sign patterns, else a sample of them
}

// maxFlips bounds the exact test: 2²⁰ patterns take about 10 ms.
const maxFlips = 20

// SignFlip tests whether paired differences (log ratios) are centred on zero:
// under the null each difference could as well have had the other sign. P is
// the share of the sign patterns whose |sum| is at least the observed one, so
// it cannot be smaller than [SmallestP]. Above 20 pairs, resamples patterns
// are drawn from the seed. Without pairs P is 1.
func SignFlip(d []float64, resamples int, seed uint64) SignFlipResult {
	n := len(d)
	if n == 0 {
		return SignFlipResult{P: 1, Exact: true}
	}
	var sum, scale float64
	for _, v := range d {
		sum += v
		scale += math.Abs(v)
	}
	res := SignFlipResult{N: n, Mean: sum / float64(n), Exact: n <= maxFlips}
	// A pattern counts when it reaches the observed sum; the margin keeps
	// rounding from losing the observed pattern itself.
	limit := math.Abs(sum) - 1e-12*scale
	if res.Exact {
		res.P = float64(countFlips(d, sum, limit)) / float64(uint64(1)<<n)
		return res
	}
	rng := rand.New(rand.NewPCG(seed, 0x666c6970)) // second word: a stream of its own
	hits := 0
	for range resamples {
		var s float64
		bits := uint64(0)
		for i, v := range d {
			if i%64 == 0 {
				bits = rng.Uint64()
			}
			if bits>>(i%64)&1 == 1 {
				v = -v
			}
			s += v
		}
		if math.Abs(s) >= limit {
			hits++
		}
	}
	res.P = float64(hits+1) / float64(resamples+1)
	return res
}

// countFlips walks all sign patterns in Gray-code order: one sign changes at a
// time, so each pattern costs one addition.
func countFlips(d []float64, sum, limit float64) int {
	sign := make([]float64, len(d))
	for i := range sign {
		sign[i] = 1
	}
	hits := 0
	if math.Abs(sum) >= limit {
		hits++
	}
	s := sum
	for g := uint64(1); g < 1<<len(d); g++ {
		i := 0
		for g>>i&1 == 0 {
			i++
		}
		s -= 2 * sign[i] * d[i]
		sign[i] = -sign[i]
		if math.Abs(s) >= limit {
			hits++
		}
	}
	return hits
}

// SmallestP is the smallest two-sided p that an exact sign-flip or signed-rank
// test of n pairs can give: 2/2ⁿ.
func SmallestP(n int) float64 {
	if n < 1 {
		return 1
	}
	return math.Min(1, 2/math.Pow(2, float64(n)))
}

// PairsNeeded is the smallest number of pairs with which the best of m
// comparisons can pass Holm's first step at level alpha: m·2/2ⁿ ≤ alpha.
func PairsNeeded(m int, alpha float64) int {
	if m < 1 || !(alpha > 0) {
		return 0
	}
	n := 1
	for float64(m)*SmallestP(n) > alpha {
		n++
	}
	return n
}

// Holm returns the p values adjusted by Holm's step-down method (Scandinavian
// Journal of Statistics 6, 1979), in the order given. NaN is not allowed.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool { return p[order[a]] < p[order[b]] })
	out := make([]float64, len(p))
	running := 0.0
	for i, k := range order {
		running = math.Max(running, math.Min(1, float64(len(p)-i)*p[k]))
		out[k] = running
	}
	return out
}

// Shift is the Hodges–Lehmann estimate of the centre of paired differences with
// the narrowest symmetric signed-rank interval that reaches the level asked
// for. With few pairs none does: then Low and High are the extreme Walsh
// averages, and Level, which is what they really cover, is below it.
type Shift struct {
	Estimate, Low, High float64
	Level               float64
}

// HodgesLehmann estimates the shift at a level such as 0.95. The interval
// assumes differences symmetric about their centre; its level is exact without
// ties. All numbers are NaN when there are no differences.
func HodgesLehmann(d []float64, level float64) Shift {
	n := len(d)
	if n == 0 {
		return Shift{math.NaN(), math.NaN(), math.NaN(), math.NaN()}
	}
	var walsh []float64
	for i := range d {
		for j := i; j < n; j++ {
			walsh = append(walsh, (d[i]+d[j])/2)
		}
	}
	slices.Sort(walsh)
	// cut averages are dropped at either end; the interval misses the centre
	// when the signed-rank statistic is at most cut, or as extreme above.
	tail := signedRankTail(n)
	cut := 0
	for cut+1 < (len(walsh)+1)/2 && 1-2*tail[cut+1] >= level {
		cut++
	}
	return Shift{Estimate: Quantile(walsh, 0.5), Low: walsh[cut], High: walsh[len(walsh)-1-cut], Level: 1 - 2*tail[cut]}
}

// signedRankTail returns P(T ≤ t) of Wilcoxon's signed-rank statistic for n
// pairs without ties, by counting the subsets of 1…n with each sum.
func signedRankTail(n int) []float64 {
	total := n * (n + 1) / 2
	count := make([]float64, total+1)
	count[0] = 1
	for r := 1; r <= n; r++ {
		for s := total; s >= r; s-- {
			count[s] += count[s-r]
		}
	}
	all := math.Pow(2, float64(n))
	tail, sum := make([]float64, total+1), 0.0
	for t, c := range count {
		sum += c
		tail[t] = sum / all
	}
	return tail
}
