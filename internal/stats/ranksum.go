package stats

import (
	"math"
	"math/rand/v2"
)

// RankSumResult is a two-sided test of two independent samples.
type RankSumResult struct {
	// W is the Mann–Whitney statistic of the first sample: how many pairs it
	// wins, ties counting half.
	W     float64
	P     float64
	Exact bool // all divisions of the values, else a sample of them
}

// maxDivisions is the largest number of divisions that are enumerated:
// C(20, 10) is 184 756.
const maxDivisions = 200_000

// RankSum is Wilcoxon's and Mann and Whitney's test: whether values of one
// sample tend to be larger than those of another. p is the share of the divisions
// of all values into samples of these sizes whose rank sum is at least as far
// from its expectation, so ties are treated exactly. It is for samples that have
// nothing in common; inside blocks use [SignFlip]. P is 1 when one is empty.
func RankSum(a, b []float64, resamples int, seed uint64) RankSumResult {
	n, m := len(a), len(b)
	if n == 0 || m == 0 {
		return RankSumResult{P: 1, Exact: true}
	}
	ranks := Ranks(append(append([]float64{}, a...), b...))
	sum := 0.0
	for _, r := range ranks[:n] {
		sum += r
	}
	expected := float64(n) * float64(n+m+1) / 2
	limit := math.Abs(sum-expected) - 1e-9
	res := RankSumResult{W: sum - float64(n)*float64(n+1)/2}
	if divisions(n+m, n) <= maxDivisions {
		hits, total := 0, 0
		var walk func(from, left int, sum float64)
		walk = func(from, left int, sum float64) {
			if left == 0 {
				total++
				if math.Abs(sum-expected) >= limit {
					hits++
				}
				return
			}
			for i := from; i <= len(ranks)-left; i++ {
				walk(i+1, left-1, sum+ranks[i])
			}
		}
		walk(0, n, 0)
		res.P, res.Exact = float64(hits)/float64(total), true
		return res
	}
	rng := rand.New(rand.NewPCG(seed, 0x72616e6b)) // second word: a stream of its own
	hits := 0
	for range resamples {
		rng.Shuffle(len(ranks), func(i, j int) { ranks[i], ranks[j] = ranks[j], ranks[i] })
		s := 0.0
		for _, r := range ranks[:n] {
			s += r
		}
		if math.Abs(s-expected) >= limit {
			hits++
		}
	}
	res.P = float64(hits+1) / float64(resamples+1)
	return res
}

// divisions is C(n, k); above maxDivisions it stops counting.
func divisions(n, k int) int {
	c := 1
	for i := 1; i <= min(k, n-k); i++ {
		if c = c * (n - i + 1) / i; c > maxDivisions {
			return maxDivisions + 1
		}
	}
	return c
}
